//! Deltas: revisions, counts, expectations and deletes.

use evenkeel::proto::v1::{FilterRequest, UpdateSnapshotRequest, UpdateSnapshotResponse};
use std::time::Duration;
use tonic::Code;

use crate::snapshots::{all_nodes, nodes};
use support::build::{
    ZONE, batch_of, describe_as, explain_as, filter_of, hard, on, place_as, pod, score_as, spread,
    update_of,
};
use support::model::{Stored, delete, delete_uid};
use support::refusal::code;
use support::server::Server;

#[tokio::test]
async fn revisions_grow_by_one_for_each_batch() {
    let server = Server::start().await;
    let first = server.update("", nodes(&["a", "b"])).await;
    let told = |answer: &UpdateSnapshotResponse| {
        (
            answer.revision,
            answer.changed_count,
            answer.unchanged_count,
        )
    };
    assert_eq!(told(&first), (1, 2, 0));
    assert!(!first.epoch.is_empty());
    let again = server.update("default", nodes(&["b", "c"])).await;
    assert_eq!(told(&again), (2, 1, 1));
    let nothing = server.update("", Vec::new()).await;
    assert_eq!(told(&nothing), (3, 0, 0));
    let gone = vec![delete("Node", "", "a"), delete("Node", "", "never")];
    let gone = server.update("", gone).await;
    assert_eq!(told(&gone), (4, 1, 1));
    let nameless = update_of(vec![pod("", &[]).change()]);
    let refused = server.client().update_snapshot(nameless).await;
    refused.expect_err("the pod has no name");

    let answer = server.filter(all_nodes("")).await;
    assert_eq!((answer.revision, &answer.epoch), (4, &first.epoch));
    assert_eq!(answer.feasible, ["b", "c"]);
    let described = server.describe("").await;
    assert_eq!((described.revision, &described.epoch), (4, &first.epoch));
    assert_eq!((described.node_count, described.pod_count), (2, 0));
}

#[tokio::test]
async fn expected_revision_must_be_the_current_one() {
    let server = Server::start().await;
    let update = async |expected: i64, name: &str| {
        let request = UpdateSnapshotRequest {
            expected_revision: Some(expected),
            ..batch_of("s", nodes(&[name]))
        };
        code(server.client().update_snapshot(request).await)
    };
    assert_eq!(update(7, "a").await, Code::Aborted);
    let list = server.list_snapshots(Default::default()).await;
    assert!(list.snapshots.is_empty(), "nothing was created");
    assert_eq!(update(0, "a").await, Code::Ok);
    assert_eq!(update(0, "b").await, Code::Aborted);
    assert_eq!(update(2, "b").await, Code::Aborted);
    assert_eq!(server.filter(all_nodes("s")).await.feasible, ["a"]);
    assert_eq!(update(1, "b").await, Code::Ok);
    assert_eq!(server.filter(all_nodes("s")).await.feasible, ["a", "b"]);
}

/// The question is asked first and answered after the update: read your own
/// writes.
#[tokio::test]
async fn min_revision_waits_for_the_update() {
    let server = Server::start().await;
    server.update("", nodes(&["a"])).await;
    let request = FilterRequest {
        min_revision: 3,
        ..all_nodes("")
    };
    let mut client = server.another_client();
    let mut waiting = tokio::spawn(async move { client.filter(request).await });
    server.update("", nodes(&["b"])).await;
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "revision 2 is not enough: {early:?}");
    server.update("", nodes(&["c"])).await;
    let answer = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    let answer = answer
        .expect("in time")
        .expect("no panic")
        .expect("an answer")
        .into_inner();
    assert_eq!(answer.revision, 3);
    assert_eq!(answer.feasible, ["a", "b", "c"]);
}

/// Returns the codes of the answers to every kind of question with an epoch and a revision.
async fn asked_at(server: &Server, epoch: &str, min_revision: i64) -> Vec<Code> {
    let asked = FilterRequest {
        epoch: epoch.to_owned(),
        min_revision,
        ..filter_of(pod("p", &[]))
    };
    let mut client = server.client();
    vec![
        code(client.filter(asked.clone()).await),
        code(client.score(score_as(asked.clone())).await),
        code(client.explain(explain_as(asked.clone())).await),
        code(client.place(place_as(asked.clone())).await),
        code(client.describe_spread(describe_as(asked)).await),
    ]
}

/// The revisions of another epoch say nothing about this one. Here nobody else can begin the other
/// epoch, so the server has nothing to wait for.
#[tokio::test]
async fn a_question_with_an_epoch_is_asked_of_that_one_alone() {
    let server = Server::start().await;
    let epoch = server.update("", nodes(&["a"])).await.epoch;
    for (of, min_revision, expected) in [
        (&*epoch, 0, Code::Ok),
        (&*epoch, 1, Code::Ok),
        ("", 1, Code::Ok),
        ("another", 0, Code::Aborted),
        ("another", 1, Code::Aborted),
        ("another", 9, Code::Aborted),
    ] {
        let codes = asked_at(&server, of, min_revision).await;
        assert_eq!(codes, [expected; 5], "{of} {min_revision}");
    }
    // A snapshot that is deleted and made anew has another epoch.
    server.delete("").await;
    server.update("", nodes(&["a"])).await;
    assert_eq!(asked_at(&server, &epoch, 1).await, [Code::Aborted; 5]);
}

/// A delete with a uid means only the incarnation with that uid.
#[tokio::test]
async fn delete_with_a_uid() {
    let server = Server::start().await;
    let born = |uid: &str| {
        let mut pod = on(pod("p", &[("app", "web")]), "a");
        pod.metadata.get_or_insert_default().uid = uid.into();
        pod.change()
    };
    server.update("", nodes(&["a"])).await;
    server.update("", vec![born("1")]).await;
    let count = async || {
        let incoming = spread(pod("", &[]), vec![hard(9, ZONE, &[("app", "web")])]);
        server.filter(filter_of(incoming)).await.constraints[0].domains[0].matching_pods
    };
    assert_eq!(count().await, 1);
    let reborn = server.update("", vec![born("2")]).await;
    assert_eq!(reborn.changed_count, 1, "another incarnation is a change");
    assert_eq!(count().await, 1);
    let late = server
        .update("", vec![delete_uid("Pod", "default", "p", "1")])
        .await;
    assert_eq!((late.changed_count, late.unchanged_count), (0, 1));
    assert_eq!(count().await, 1);
    let right = server
        .update("", vec![delete_uid("Pod", "", "p", "2")])
        .await;
    assert_eq!((right.changed_count, right.unchanged_count), (1, 0));
    assert_eq!(count().await, 0);
}

/// A pod counts from the moment its node appears, and again when the node comes back.
#[tokio::test]
async fn pods_may_come_before_their_nodes() {
    let server = Server::start().await;
    server
        .update("", vec![on(pod("p", &[("app", "web")]), "b").change()])
        .await;
    server.update("", nodes(&["a"])).await;
    let domains = async || {
        let incoming = spread(
            pod("", &[]),
            vec![hard(9, "kubernetes.io/hostname", &[("app", "web")])],
        );
        let request = filter_of(incoming);
        let report = server.filter(request).await.constraints.remove(0);
        let domains = report.domains.into_iter();
        domains
            .map(|d| (d.value, d.matching_pods))
            .collect::<Vec<_>>()
    };
    assert_eq!(domains().await, [("a".into(), 0)]);
    server.update("", nodes(&["b"])).await;
    assert_eq!(domains().await, [("a".into(), 0), ("b".into(), 1)]);
    server.update("", vec![delete("Node", "", "b")]).await;
    assert_eq!(domains().await, [("a".into(), 0)]);
    server.update("", nodes(&["b"])).await;
    assert_eq!(domains().await, [("a".into(), 0), ("b".into(), 1)]);
}
