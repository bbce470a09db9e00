//! A feeder whose servers are killed at random instants. Each next server must hold every revision
//! that was acknowledged, and exactly what was fed up to the revision that it holds.

use std::time::Duration;

use crate::restart::feeder::Feeder;
use crate::restart::home::Home;

/// The kills of each feeder, and the feeders side by side: at least 100 kills in all.
const KILLS: usize = 26;
const FEEDERS: usize = 4;

/// A server is killed after it acknowledged up to so many revisions, at a random instant within so
/// long.
const MOST_ACKNOWLEDGED: i64 = 14;
const LAST_MOMENTS: Duration = Duration::from_millis(20);

#[test]
fn nothing_acknowledged_is_lost_when_servers_are_killed() {
    let feeders: Vec<_> = (0..FEEDERS)
        .map(|feeder| {
            let durability = ["relaxed", "full"][feeder % 2];
            std::thread::spawn(move || live_through(durability))
        })
        .collect();
    let mut acknowledged = 0;
    for feeder in feeders {
        acknowledged += feeder.join().expect("every life is as it should be");
    }
    assert!(acknowledged > 300, "only {acknowledged} were acknowledged");
}

/// Feeds servers that are killed. Returns the number of revisions that they acknowledged.
fn live_through(durability: &str) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let home = Home::new();
        let mut feeder = Feeder::new();
        for _ in 0..KILLS {
            let running = home.start(&["--durability", durability]);
            feeder.verify(&running).await;
            let mut progress = feeder.progress();
            let enough = feeder.acknowledged() + fastrand::i64(0..=MOST_ACKNOWLEDGED);
            let moments = LAST_MOMENTS.mul_f64(fastrand::f64());
            let life = async {
                let reached = progress.wait_for(|acknowledged| *acknowledged >= enough);
                let _ = reached.await.expect("the feeder lives");
                tokio::time::sleep(moments).await;
            };
            tokio::select! {
                () = life => {}
                ended = feeder.feed(&running) => panic!("the feed ended: {ended:?}"),
            }
            running.kill().await;
        }
        let last = home.start(&[]);
        feeder.verify(&last).await;
        feeder.acknowledged()
    })
}
