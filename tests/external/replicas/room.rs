//! The room that logs take on nats-servers.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::UpdateSnapshotRequest;
use support::caller::deletion;
use support::refusal::reason;

use crate::replicas::brokers::{Brokers, Setup};
use crate::replicas::build::node;
use crate::replicas::fleet::{Fleet, batch, update};
use crate::replicas::http::get;
use support::model::Stored;

/// What the account may keep, in MiB.
const ROOM: usize = 8;

fn nodes(snapshot: &str, count: usize) -> UpdateSnapshotRequest {
    let name = || {
        std::iter::repeat_with(fastrand::lowercase)
            .take(60)
            .collect::<String>()
    };
    let nodes = (0..count).map(|_| node(&name(), &[]).change());
    batch(snapshot, nodes.collect())
}

/// Snapshots take what they hold. A full account is told at once, and has room again within a minute
/// after snapshots are deleted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server: deploy/tools.sh install_nats"]
async fn snapshots_take_what_they_hold_and_give_it_back() {
    let more = format!(
        "accounts {{ F {{ jetstream: {{ max_file: {ROOM}M }}, users: [{{ user: u, password: p }}] }} }}\n\
         no_auth_user: u"
    );
    let brokers = Brokers::start_with(
        1,
        Setup {
            more,
            ..Setup::default()
        },
    );
    let mut fleet = Fleet::on(brokers, 1, &["--admin-listen", "127.0.0.1:0"]);
    let (clients, admin) = (fleet.clients(), fleet.admin(0));
    for number in 0..40 {
        update(&clients, 0, &nodes(&format!("small-{number}"), 1)).await;
    }
    let mut filled = 0;
    let refused = loop {
        let asked = Instant::now();
        let change = nodes(&format!("large-{filled}"), 4_000);
        match fleet.client(0).update_snapshot(change).await {
            Ok(_) => filled += 1,
            Err(refused) => {
                let took = asked.elapsed();
                assert!(took < Duration::from_secs(2), "{took:?}");
                break refused;
            }
        }
        assert!(filled < 100, "it is never full");
    };
    assert_eq!(
        reason(&refused).as_deref(),
        Some("STORAGE_FULL"),
        "{refused}"
    );
    let page = get(&admin, "/readyz").body;
    let line = format!("log of snapshot large-{filled}: it takes no changes: ");
    assert!(page.lines().any(|it| it.starts_with(&line)), "{page}");
    for number in 0..filled {
        let delete = deletion(&format!("large-{number}"));
        let deleted = fleet.client(0).delete_snapshot(delete).await;
        deleted.expect("it is there");
    }
    let start = Instant::now();
    for number in 0..filled {
        while let Err(refused) = fleet
            .client(0)
            .update_snapshot(nodes(&format!("next-{number}"), 4_000))
            .await
        {
            let took = start.elapsed();
            assert!(took < Duration::from_secs(60), "{took:?}: {refused}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    println!("room after {:?}", start.elapsed());
}
