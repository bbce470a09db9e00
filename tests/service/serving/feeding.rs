//! The feeder of `docs/feeding.md` keeps a snapshot equal to its directory,
//! while the server is drained, killed and restarted, the snapshot is deleted,
//! and somebody else writes into it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    DeleteSnapshotRequest, ExportSnapshotRequest, GetSnapshotRequest, Snapshot,
};
use support::build::{plain_node, update_of};
use support::model::Stored;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

#[path = "../../../examples/feeder.rs"]
#[allow(dead_code, unreachable_pub)]
mod feeder;

use crate::serving::process::{DEADLINE, Server, command};

type Client = SpreadServiceClient<Channel>;

const SERVE: [&str; 5] = [
    "--expect-snapshot",
    "default",
    "--max-age",
    "10s",
    "--drain-pause=0s",
];

/// The names of all objects of the snapshot; none while there is no server.
async fn names(client: &mut Client) -> Option<Vec<String>> {
    let request = ExportSnapshotRequest::default();
    let mut parts = client.export_snapshot(request).await.ok()?.into_inner();
    let mut names = Vec::new();
    while let Some(part) = parts.message().await.ok()? {
        for change in part.update?.changes {
            names.push(match change.object? {
                Object::Node(node) => node.metadata?.name,
                Object::Pod(pod) => pod.metadata?.name,
                other => panic!("nobody fed {other:?}"),
            });
        }
    }
    Some(names)
}

/// Waits until the snapshot has exactly these objects.
async fn until(server: &Server, wanted: &[&str]) -> Snapshot {
    let mut client = SpreadServiceClient::new(server.channel());
    let equal = async {
        while names(&mut client).await.is_none_or(|names| names != wanted) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let equal = timeout(DEADLINE, equal).await;
    assert!(
        equal.is_ok(),
        "{wanted:?}, not {:?}",
        names(&mut client).await
    );
    describe(&mut client).await
}

async fn describe(client: &mut Client) -> Snapshot {
    let request = GetSnapshotRequest::default();
    let answer = client.get_snapshot(request).await;
    let described = answer.expect("it exists").into_inner().snapshot;
    described.expect("a description")
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).expect("a file can be written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feeder_keeps_a_snapshot_right_through_everything() {
    let directory = TempDir::new().expect("a directory");
    let manifests = directory.path();
    write(
        manifests,
        "a.yaml",
        "{kind: Node, metadata: {name: a, labels: {zone: x}}}",
    );
    write(
        manifests,
        "p.json",
        r#"{"kind": "Pod", "metadata": {"name": "p"}}"#,
    );

    let mut server = Server::start(&SERVE);
    let address = server.address().to_owned();
    let args = feeder::Args {
        server: server.url().to_owned(),
        snapshot: "default".into(),
        directory: manifests.to_owned(),
        period: Duration::from_millis(20),
        heartbeat: Duration::from_millis(100),
        max_pause: Duration::from_millis(200),
        alone: true,
    };
    let feeding = tokio::spawn(async move { feeder::feed(&args).await });
    let first = until(&server, &["a", "p"]).await;
    assert!(first.synced);

    // Changes arrive, and so do heartbeats when there are none.
    write(manifests, "b.yaml", "kind: Node\nmetadata: {name: b}");
    fs::remove_file(manifests.join("p.json")).expect("it is there");
    let second = until(&server, &["a", "b"]).await;
    assert_eq!(second.epoch, first.epoch);
    let mut client = SpreadServiceClient::new(server.channel());
    let beaten = async {
        while describe(&mut client).await.revision < second.revision + 3 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(DEADLINE, beaten)
        .await
        .expect("heartbeats move the revision on");

    // A file that is half written leaves a gap: the snapshot keeps the objects that are known.
    write(manifests, "c.yaml", "kind: Node\nmetadata: {na");
    write(manifests, "d.yaml", "kind: Node\nmetadata: {name: d}");
    write(manifests, "c.yaml", "kind: Node\nmetadata: {name: c}");
    until(&server, &["a", "b", "c", "d"]).await;

    // Somebody else writes into the snapshot, and the feeder undoes it.
    let stray = update_of(vec![plain_node("stray", &[]).change()]);
    let updated = client.update_snapshot(stray).await;
    updated.expect("anybody may write");
    until(&server, &["a", "b", "c", "d"]).await;

    // Somebody deletes the snapshot. Its history begins anew, and the feeder sends all objects.
    client
        .delete_snapshot(DeleteSnapshotRequest::default())
        .await
        .expect("it exists");
    let third = until(&server, &["a", "b", "c", "d"]).await;
    assert_ne!(third.epoch, first.epoch);

    // The server is drained, and then killed; the directory changes meanwhile.
    for (signal, file, wanted) in [
        ("TERM", "e", &["a", "b", "c", "d", "e"][..]),
        ("KILL", "f", &["a", "b", "c", "d", "e", "f"]),
    ] {
        server.signal(signal);
        server.exited().await;
        write(
            manifests,
            &format!("{file}.yaml"),
            &format!("{{kind: Node, metadata: {{name: {file}}}}}"),
        );
        server = Server::spawn_on(&address, command(&["serve"]).args(SERVE));
        let restarted = until(&server, wanted).await;
        assert_ne!(restarted.epoch, third.epoch);
        assert!(restarted.synced && !restarted.stale);
    }
    assert!(!feeding.is_finished());
    feeding.abort();
}
