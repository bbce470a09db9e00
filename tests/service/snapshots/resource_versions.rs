//! The cluster of a feed, how far it has read it, and questions that wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{BeginReplace, FilterRequest, Mode, UpdateSnapshotRequest, View};
use tonic::{Code, Status};

use crate::snapshots::nodes;
use support::build::{explain_as, filter_of, place_as, pod, score_as, update_of, with_claim};
use support::refusal::{code, reason};
use support::server::Server;

fn versions(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let each = of.iter();
    each.map(|(kind, version)| ((*kind).to_owned(), *version))
        .collect()
}

/// A batch of a feed that has read so far.
fn read(of: &[(&str, u64)]) -> UpdateSnapshotRequest {
    UpdateSnapshotRequest {
        resource_versions: versions(of),
        ..update_of(nodes(&["a"]))
    }
}

/// Asks every kind of question that can wait for a feed.
async fn ask(server: &Server, of: &[(&str, u64)]) -> Vec<Result<(), Status>> {
    let asked = FilterRequest {
        min_resource_versions: versions(of),
        ..filter_of(pod("p", &[]))
    };
    let mut client = server.client();
    vec![
        client.filter(asked.clone()).await.map(drop),
        client.score(score_as(asked.clone())).await.map(drop),
        client.explain(explain_as(asked.clone())).await.map(drop),
        client.place(place_as(asked)).await.map(drop),
    ]
}

/// The codes of the answers, which are alike, and the message of the refusal.
async fn answers(server: &Server, of: &[(&str, u64)]) -> (Code, String) {
    let mut told = Vec::new();
    for answer in ask(server, of).await {
        let status = answer.err().unwrap_or_else(|| Status::ok(""));
        if status.code() == Code::FailedPrecondition {
            assert_eq!(reason(&status).as_deref(), Some("FEED_BEHIND"));
        }
        told.push((status.code(), status.message().to_owned()));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0)
}

#[tokio::test]
async fn questions_are_answered_once_the_feed_has_read_so_far() {
    let server = Server::start().await;
    let behind = async |of: &[(&str, u64)], told: &str| {
        let (code, message) = answers(&server, of).await;
        assert_eq!(code, Code::FailedPrecondition);
        assert_eq!(message, format!("the feed of snapshot \"default\" {told}"));
    };
    server.send(read(&[])).await;
    // It says nothing of how far it has read.
    behind(&[("Pod", 1)], "gives no resource version of Pod").await;
    assert_eq!(answers(&server, &[("Pod", 0)]).await.0, Code::Ok);

    server
        .send(read(&[("Pod", 100), ("Node", 7), ("Later", 9)]))
        .await;
    let told = server.describe("").await.resource_versions;
    assert_eq!(told, versions(&[("Pod", 100), ("Node", 7)]));
    assert_eq!(
        answers(&server, &[("Pod", 100), ("Node", 7)]).await.0,
        Code::Ok
    );
    let pods = "has read Pod up to resource version 100, not 101";
    behind(&[("Pod", 101)], pods).await;
    behind(&[("Node", 7), ("Pod", 101)], pods).await;

    // Batches that say nothing of a kind, or of any, leave it as it is.
    server.send(read(&[])).await;
    server.send(read(&[("Node", 120)])).await;
    assert_eq!(
        answers(&server, &[("Pod", 100), ("Node", 120)]).await.0,
        Code::Ok
    );
    // A cluster that was restored from a backup goes back.
    server.send(read(&[("Pod", 90)])).await;
    behind(
        &[("Pod", 91)],
        "has read Pod up to resource version 90, not 91",
    )
    .await;
    // A replace has its own alone.
    let replace = UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        ..read(&[("Pod", 95)])
    };
    server.send(replace).await;
    assert_eq!(answers(&server, &[("Pod", 95)]).await.0, Code::Ok);
    behind(&[("Node", 1)], "gives no resource version of Node").await;

    let (code, message) = answers(&server, &[("Pods", 1)]).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        message.starts_with("minResourceVersions: must be by kinds of Node,"),
        "{message}"
    );
}

/// Returns the only reason why the claim of a pod is refused; `None` while claims are not checked.
async fn missing_claim(server: &Server) -> Option<String> {
    let request = FilterRequest {
        view: View::Full.into(),
        ..filter_of(with_claim(pod("p", &[]), "x"))
    };
    let answer = server.filter(request).await;
    let is_unchecked = answer.unchecked == ["spec.volumes"];
    assert_eq!(answer.feasible_count, i64::from(is_unchecked));
    let refused = answer.infeasible.into_iter().next();
    refused.map(|node| node.reason)
}

/// A feed that has read all kinds of storage knows that a claim does not exist, though there is no
/// volume and no class.
#[tokio::test]
async fn a_claim_that_was_listed_nowhere_does_not_exist() {
    let server = Server::start().await;
    let storage = [
        ("PersistentVolumeClaim", 0),
        ("PersistentVolume", 0),
        ("StorageClass", 0),
    ];
    server.send(read(&[])).await;
    assert_eq!(missing_claim(&server).await, None);
    server.send(read(&storage[..2])).await;
    assert_eq!(missing_claim(&server).await, None);
    server.send(read(&storage)).await;
    let told = Some("persistentvolumeclaim \"x\" not found".to_owned());
    assert_eq!(missing_claim(&server).await, told);
    // Later batches, also with other defaults, leave it so. A replace has to say it again.
    server.send(read(&[("Pod", 7)])).await;
    let defaults = UpdateSnapshotRequest {
        default_constraints: Some(Default::default()),
        ..read(&[])
    };
    server.send(defaults).await;
    assert_eq!(missing_claim(&server).await, told);
    let replace = |of| UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        ..read(of)
    };
    server.send(replace(&[])).await;
    assert_eq!(missing_claim(&server).await, None);
    server.send(replace(&storage)).await;
    assert_eq!(missing_claim(&server).await, told);
}

/// A feed lags by milliseconds: that is waited for, and no longer, whatever the deadline is.
#[tokio::test]
async fn a_question_waits_for_a_feed_that_lags() {
    let server = Server::start().await;
    server.send(read(&[("Pod", 100)])).await;
    let request = FilterRequest {
        min_resource_versions: versions(&[("Pod", 101)]),
        ..filter_of(pod("p", &[]))
    };
    let mut client = server.another_client();
    let asked = request.clone();
    let mut waiting = tokio::spawn(async move { client.filter(asked).await });
    let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(early.is_err(), "it has not read so far: {early:?}");
    server.send(read(&[("Pod", 101)])).await;
    let answer = waiting.await.expect("no panic").expect("an answer");
    assert_eq!(answer.into_inner().revision, 2);

    let mut patient = tonic::Request::new(FilterRequest {
        min_resource_versions: versions(&[("Pod", 102)]),
        ..request
    });
    patient.set_timeout(Duration::from_secs(50));
    let mut client = server.client();
    let refused = tokio::time::timeout(Duration::from_secs(10), client.filter(patient));
    let refused = refused
        .await
        .expect("it is not waited for")
        .expect_err("it is behind");
    assert_eq!(refused.code(), Code::FailedPrecondition);
}

/// Checks that a feed was refused because the snapshot is fed from another cluster.
#[track_caller]
fn assert_other_cluster<T: std::fmt::Debug>(refused: Result<T, Status>) {
    let refused = refused.expect_err("another cluster");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(reason(&refused).as_deref(), Some("OTHER_CLUSTER"));
    let told = "snapshot \"default\" is fed from the cluster one, not from two: feed another \
                snapshot, or delete this one first";
    assert_eq!(refused.message(), told);
}

#[tokio::test]
async fn a_snapshot_is_fed_from_one_cluster() {
    let server = Server::start().await;
    let mut client = server.client();
    let of = |cluster: &str| UpdateSnapshotRequest {
        cluster: cluster.into(),
        ..read(&[("Pod", 7)])
    };
    let replacing = |cluster: &str| UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        changes: nodes(&["b"]),
        ..of(cluster)
    };
    server.send(of("")).await;
    server.send(of("one")).await;
    assert_other_cluster(client.update_snapshot(of("two")).await);
    assert_other_cluster(client.update_snapshot(replacing("two")).await);
    let begin = Step::BeginReplace(BeginReplace::default());
    let mut answers = server.stream(vec![begin, Step::Update(of("two"))]).await;
    answers.message().await.expect("the replace begins");
    // Nobody lists a whole cluster before the refusal.
    assert_other_cluster(answers.message().await);
    let described = server.describe("").await;
    assert_eq!((described.revision, &*described.cluster), (2, "one"));

    // What says nothing of its cluster changes nothing of that, a replace neither.
    server.send(replacing("")).await;
    assert_eq!(server.describe("").await.cluster, "one");
    assert_other_cluster(client.update_snapshot(replacing("two")).await);
    server.send(replacing("one")).await;
    server.delete("").await;
    server.send(of("two")).await;
    assert_eq!(server.describe("").await.cluster, "two");

    let refused = client.update_snapshot(of(&"u".repeat(254))).await;
    let refused = refused.expect_err("it is too long");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let told = "cluster: must be at most 253 bytes without control characters";
    assert_eq!(refused.message(), told);
}

/// Of feeds that begin at once, from two clusters, one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_clusters_is_first() {
    let server = Server::start().await;
    for round in 0..20 {
        let feeds = ["one", "two"].map(|cluster| {
            let mut client = server.client();
            let update = UpdateSnapshotRequest {
                snapshot: format!("s-{round}"),
                cluster: cluster.into(),
                ..read(&[])
            };
            tokio::spawn(async move { client.update_snapshot(update).await })
        });
        let mut codes = Vec::new();
        for feed in feeds {
            let fed = feed.await.expect("no panic");
            codes.push(code(fed));
        }
        codes.sort_by_key(|code| *code as i32);
        assert_eq!(codes, [Code::Ok, Code::FailedPrecondition]);
    }
}
