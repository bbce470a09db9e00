//! The feeder of `docs/feeding.md` keeps a snapshot equal to its directory,
//! while the server is drained, killed and restarted, the snapshot is deleted,
//! and somebody else writes into it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Change, Snapshot};
use support::build::plain_node;
use support::caller::{changes_of, export};
use support::model::Stored;
use tempfile::TempDir;

#[path = "../../../examples/feeder.rs"]
#[allow(dead_code, unreachable_pub)]
mod feeder;

use crate::serving::process::{Server, command, eventually};

const SERVE: [&str; 5] = [
    "--expect-snapshot",
    "default",
    "--max-age",
    "10s",
    "--drain-pause=0s",
];

/// The names of all objects of the snapshot; none while there is no server.
async fn names(server: &Server) -> Option<Vec<String>> {
    let parts = export(server.client(), "").await.ok()?;
    let name = |change: Change| match change.object? {
        Object::Node(node) => Some(node.metadata?.name),
        Object::Pod(pod) => Some(pod.metadata?.name),
        other => panic!("nobody fed {other:?}"),
    };
    changes_of(parts).map(name).collect()
}

/// Waits until the snapshot has exactly these objects.
async fn until(server: &Server, wanted: &[&str]) -> Snapshot {
    let equal = async || (names(server).await? == wanted).then_some(());
    eventually(&format!("{wanted:?}"), equal).await;
    server.describe("").await
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
    let beaten = async || {
        let now = server.describe("").await.revision;
        (now >= second.revision + 3).then_some(())
    };
    eventually("heartbeats move the revision on", beaten).await;

    // A file that is half written leaves a gap: the snapshot keeps the objects that are known.
    write(manifests, "c.yaml", "kind: Node\nmetadata: {na");
    write(manifests, "d.yaml", "kind: Node\nmetadata: {name: d}");
    write(manifests, "c.yaml", "kind: Node\nmetadata: {name: c}");
    until(&server, &["a", "b", "c", "d"]).await;

    // Somebody else writes into the snapshot, and the feeder undoes it.
    server
        .update("", vec![plain_node("stray", &[]).change()])
        .await;
    until(&server, &["a", "b", "c", "d"]).await;

    // Somebody deletes the snapshot. Its history begins anew, and the feeder sends all objects.
    server.delete("").await;
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
