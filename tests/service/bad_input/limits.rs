//! Requests over a limit: RESOURCE_EXHAUSTED, and the limit is named.

use evenkeel::proto::v1::{Change, FilterRequest, Service, UpdateSnapshotRequest};
use evenkeel::snapshot::Limits;
use tonic::Code;

use super::verdict::{Call, Refusal, fill, refused};
use support::build::{meta, node, on, pod, update_of};
use support::model::Stored;
use support::server::Server;

fn pods(count: usize) -> Vec<Change> {
    let pod = |i| on(pod(&format!("many-{i}"), &[("app", "web")]), "n0").change();
    (0..count).map(pod).collect()
}

#[tokio::test]
async fn limits() {
    let limits = Limits {
        max_changes_per_batch: 10,
        max_overlay_changes: 2,
        max_nodes: 3,
        max_pods: 5,
        max_label_sets: 2,
        max_owners: 1,
        max_string_bytes: 200,
        max_snapshots: 1,
        ..Limits::default()
    };
    let server = Server::with_limits(limits).await;
    fill(&server).await;
    let update = |changes: Vec<Change>| Call::Update(update_of(changes));
    let overlay = FilterRequest {
        pod: Some(pod("", &[])),
        overlay: pods(3),
        ..FilterRequest::default()
    };
    let another = UpdateSnapshotRequest {
        snapshot: "another".into(),
        ..UpdateSnapshotRequest::default()
    };
    let nodes = (0..3).map(|i| node(&format!("more-{i}"), &[]).change());
    let services = (0..2).map(|i| Service {
        metadata: Some(meta(&format!("s{i}"), &[])),
        spec: None,
    });
    let sets = (0..3).map(|i| pod(&format!("set-{i}"), &[("app", ["a", "b", "c"][i])]).change());
    let mut long = pod("long", &[]);
    long.metadata.get_or_insert_default().uid = "u".repeat(201);
    let uid = "changes[0].pod.metadata.uid";
    let table: [(&str, Call, &str, &[&str]); 8] = [
        (
            "batch",
            update(pods(11)),
            "max-changes-per-batch",
            &["changes"],
        ),
        (
            "overlay",
            Call::Filter(overlay),
            "max-overlay-changes",
            &["overlay"],
        ),
        ("nodes", update(nodes.collect()), "max-nodes", &[]),
        ("pods", update(pods(6)), "max-pods", &[]),
        ("label sets", update(sets.collect()), "max-label-sets", &[]),
        (
            "owners",
            update(services.map(Stored::change).collect()),
            "max-owners",
            &[],
        ),
        (
            "string",
            update(vec![long.change()]),
            "max-string-bytes",
            &[uid],
        ),
        ("snapshots", Call::Update(another), "max-snapshots", &[]),
    ];
    let table = table.into_iter().map(|(name, call, limit, fields)| {
        let refusal = Refusal {
            code: Code::ResourceExhausted,
            mentions: limit,
            ..Refusal::invalid(fields)
        };
        (name.to_owned(), call, refusal)
    });
    refused(&server, table.collect()).await;
}
