//! `evenkeel log`, on a log that servers use.

use std::process::Output;
use std::time::Duration;

use evenkeel::proto::v1::{Mode, UpdateSnapshotRequest};

use crate::replicas::build::{node, on, pod};
use crate::replicas::fleet::{Fleet, batch, put_node, put_pod, update};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn operators_see_and_shorten_logs() {
    let mut fleet = Fleet::start(1, 1, &[]);
    let clients = fleet.clients();
    for number in 0..20 {
        let change = put_node(node(&format!("n{number}"), &[]));
        update(&clients, 0, &batch("default", vec![change])).await;
    }
    let pods = (0..5).map(|number| put_pod(on(pod(&format!("p{number}"), &[]), "n")));
    let replace = UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        ..batch("eu/a.b", pods.collect())
    };
    update(&clients, 0, &replace).await;

    let status = told(&fleet.log(&["status"]), 0);
    let rows: Vec<Vec<&str>> = status
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0][..2], ["NAME", "FIRST"], "{status}");
    assert_eq!(rows[1][..3], ["default", "1", "20"], "{status}");
    assert_eq!(rows[1][5..], ["1/1", "-", "-"], "{status}");
    assert_eq!(rows[2][..3], ["eu/a.b", "1", "1"], "{status}");
    // A server that reads a whole log appends a record of its own to find the end.
    fleet.checkpoint(&["default"]).await;
    fleet.checkpoint(&[]).await;
    // Records that are minutes old are kept, even if a checkpoint covers them.
    let trimmed = told(&fleet.log(&["trim", "default"]), 0);
    let why = "the checkpoint before the last is not 10 minutes old";
    let expected = format!("default: begins at 1, ends at 22; nothing was dropped: {why}\n");
    assert_eq!(trimmed, expected);
    let trimmed = told(&fleet.log(&["trim", "eu/a.b"]), 0);
    assert!(
        trimmed.ends_with("nothing was dropped: it takes two checkpoints\n"),
        "{trimmed}"
    );
    // Removes old records as trimming does after hours: a server begins from the checkpoint and the
    // rest.
    let change = put_node(node("last", &[]));
    update(&clients, 0, &batch("default", vec![change])).await;
    let stream = fleet.brokers.stream("default").await;
    stream.purge().sequence(23).await.expect("it is there");
    fleet.signal(0, "KILL");
    fleet.run(0);
    let held = fleet.agree("default").await;
    assert_eq!((held.revision, held.objects.len()), (21, 21));
    fleet.verify_log().await;
    let status = told(&fleet.log(&["status"]), 0);
    assert!(status.contains("1/1     22"), "{status}");

    // The command waits for a log that comes back.
    fleet.brokers.signal(0, "KILL");
    let coming = fleet.start_log(&["trim"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    fleet.brokers.run(0);
    told(&coming.join().expect("it ends"), 0);

    fleet.brokers.signal(0, "KILL");
    told(&fleet.log(&["status"]), 3);
}

/// Checks the exit code of a command, and returns its output.
fn told(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
