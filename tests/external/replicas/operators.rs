//! `evenkeel log`, on a log that servers use.

use std::time::Duration;

use evenkeel::proto::v1::{Mode, UpdateSnapshotRequest};

use crate::replicas::build::{node, on, pod};
use crate::replicas::fleet::{Fleet, batch, update};
use support::model::Stored;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn operators_see_and_shorten_logs() {
    let mut fleet = Fleet::start(1, 1, &[]);
    let clients = fleet.clients();
    for number in 0..20 {
        let change = node(&format!("n{number}"), &[]).change();
        update(&clients, 0, &batch("default", vec![change])).await;
    }
    let pods = (0..5).map(|number| on(pod(&format!("p{number}"), &[]), "n").change());
    let replace = UpdateSnapshotRequest {
        mode: Mode::Replace as i32,
        ..batch("eu/a.b", pods.collect())
    };
    update(&clients, 0, &replace).await;

    let status = fleet.log(&["status"]).expect(0).out;
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
    let trimmed = fleet.log(&["trim", "default"]).expect(0).out;
    let why = "the checkpoint before the last is not 10 minutes old";
    let expected = format!("default: begins at 1, ends at 22; nothing was dropped: {why}\n");
    assert_eq!(trimmed, expected);
    let trimmed = fleet.log(&["trim", "eu/a.b"]).expect(0).out;
    assert!(
        trimmed.ends_with("nothing was dropped: it takes two checkpoints\n"),
        "{trimmed}"
    );
    // Removes old records as trimming does after hours: a server begins from the checkpoint and the
    // rest.
    let change = node("last", &[]).change();
    update(&clients, 0, &batch("default", vec![change])).await;
    let stream = fleet.brokers.stream("default").await;
    stream.purge().sequence(23).await.expect("it is there");
    fleet.signal(0, "KILL");
    fleet.run(0);
    let held = fleet.agree("default").await;
    assert_eq!((held.revision, held.objects.len()), (21, 21));
    fleet.verify_log().await;
    let status = fleet.log(&["status"]).expect(0).out;
    assert!(status.contains("1/1     22"), "{status}");

    // The command waits for a log that comes back.
    fleet.brokers.signal(0, "KILL");
    let coming = fleet.start_log(&["trim"]);
    tokio::time::sleep(Duration::from_secs(10)).await;
    fleet.brokers.run(0);
    coming.join().expect("it ends").expect(0);

    fleet.brokers.signal(0, "KILL");
    fleet.log(&["status"]).expect(3);
}
