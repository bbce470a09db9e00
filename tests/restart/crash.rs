//! A feeder writes, and the server is killed at random instants. Each time the
//! next one must hold every revision that was acknowledged, and be what was
//! fed up to the revision that it holds.

use std::time::Duration;

use crate::feeder::Feeder;
use crate::home::Home;

/// Kills of each feeder, and how many feed side by side: at least 100 kills
/// in all.
const KILLS: usize = 26;
const FEEDERS: usize = 4;

/// A server is killed within so long after it serves.
const LONGEST_LIFE: Duration = Duration::from_millis(120);

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
    assert!(acknowledged > 500, "only {acknowledged} were acknowledged");
}

/// Feeds servers that are killed; how many revisions they acknowledged.
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
            let life = LONGEST_LIFE.mul_f64(fastrand::f64());
            tokio::select! {
                () = tokio::time::sleep(life) => {}
                ended = feeder.feed(&running) => panic!("the feed ended: {ended:?}"),
            }
            running.kill().await;
        }
        let last = home.start(&[]);
        feeder.verify(&last).await;
        feeder.acknowledged
    })
}
