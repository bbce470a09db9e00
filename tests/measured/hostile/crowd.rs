//! Snapshots in which every pod has a label set of its own.

use evenkeel::proto::v1::UpdateSnapshotRequest;
use support::build::{on, pod, update_of};
use support::model::{Stored, delete};
use tonic::Code;

use crate::hostile::process::Server;
use crate::hostile::world::{Client, fill, limit_of, question};

/// The number of label sets that the snapshot may hold.
const LIMIT: usize = 1_000;

fn name(number: usize) -> String {
    format!("pod-{number}")
}

/// Pods that count as `web`, each with labels that no other pod has.
pub(crate) fn pods(numbers: std::ops::Range<usize>) -> UpdateSnapshotRequest {
    let pod = |number: usize| {
        let labels = [("app", "web"), ("index", &*number.to_string())];
        let node = format!("node-{}", number % 10);
        on(pod(&name(number), &labels), &node).change()
    };
    update_of(numbers.map(pod).collect())
}

pub(crate) fn deletions(numbers: std::ops::Range<usize>) -> UpdateSnapshotRequest {
    update_of(
        numbers
            .map(|number| delete("Pod", "", &name(number)))
            .collect(),
    )
}

/// Returns how many pods a decision counts.
async fn counted(client: &mut Client) -> i64 {
    let answer = client.filter(question("web")).await;
    let answer = answer.expect("decisions go on").into_inner();
    let domains = answer.constraints[0].domains.iter();
    domains.map(|domain| domain.matching_pods).sum()
}

#[tokio::test]
async fn a_label_set_per_pod_fills_its_own_snapshot_only() {
    let server = Server::start(&["--max-label-sets", &LIMIT.to_string()]);
    let mut client = Client::new(server.channel());
    fill(&mut client, 10).await;
    client.update_snapshot(pods(0..LIMIT)).await.expect("room");

    let refused = client.update_snapshot(pods(LIMIT - 5..LIMIT + 1)).await;
    let status = refused.expect_err("one set too many");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(limit_of(&status).as_deref(), Some("max-label-sets"));
    assert_eq!(counted(&mut client).await, LIMIT as i64);

    // Another snapshot has room of its own, and labels that are known take none.
    let elsewhere = UpdateSnapshotRequest {
        snapshot: "other".into(),
        ..pods(0..LIMIT)
    };
    client.update_snapshot(elsewhere).await.expect("room");
    client.update_snapshot(pods(0..10)).await.expect("known");

    // Deleted pods make room.
    client
        .update_snapshot(deletions(0..100))
        .await
        .expect("valid");
    let more = pods(LIMIT..LIMIT + 100);
    client.update_snapshot(more).await.expect("room");
    assert_eq!(counted(&mut client).await, LIMIT as i64);
}
