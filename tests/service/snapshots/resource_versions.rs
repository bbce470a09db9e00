//! How far a feed has read its cluster, and questions that wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::proto::v1::{
    ExplainRequest, FilterRequest, Mode, PlaceRequest, ScoreRequest, UpdateSnapshotRequest, View,
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::snapshots::nodes;
use support::build::{explain_of, filter_of, place_of, pod, score_as, with_claim};
use support::server::Server;

fn versions(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let each = of.iter();
    each.map(|(kind, version)| ((*kind).to_owned(), *version))
        .collect()
}

/// A batch of a feed that has read so far.
fn read(of: &[(&str, u64)]) -> UpdateSnapshotRequest {
    UpdateSnapshotRequest {
        changes: nodes(&["a"]),
        resource_versions: versions(of),
        ..Default::default()
    }
}

/// Asks every kind of question that can wait for a feed.
async fn ask(server: &Server, of: &[(&str, u64)]) -> Vec<Result<(), Status>> {
    let (wanted, pod) = (versions(of), pod("p", &[]));
    let filter = FilterRequest {
        min_resource_versions: wanted.clone(),
        ..filter_of(pod.clone())
    };
    let score = ScoreRequest {
        min_resource_versions: wanted.clone(),
        ..score_as(filter.clone())
    };
    let explain = ExplainRequest {
        min_resource_versions: wanted.clone(),
        ..explain_of(pod.clone())
    };
    let place = PlaceRequest {
        min_resource_versions: wanted,
        ..place_of(pod, 1)
    };
    let mut client = server.client();
    vec![
        client.filter(filter).await.map(drop),
        client.score(score).await.map(drop),
        client.explain(explain).await.map(drop),
        client.place(place).await.map(drop),
    ]
}

/// The codes of the answers, which are alike, and the message of the refusal.
async fn answers(server: &Server, of: &[(&str, u64)]) -> (Code, String) {
    let mut told = Vec::new();
    for answer in ask(server, of).await {
        let status = answer.err().unwrap_or_else(|| Status::ok(""));
        if status.code() == Code::FailedPrecondition {
            let info = status.get_details_error_info().expect("details");
            assert_eq!(info.reason, "FEED_BEHIND");
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
    let mut client = server.another_client().await;
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
