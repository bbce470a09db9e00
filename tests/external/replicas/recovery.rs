//! The time after which servers take changes again, by fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::time::{sleep, timeout};

use crate::replicas::build::node;
use crate::replicas::fleet::{Client, batch};
use support::model::Stored;

/// The longest time that one attempt to change something may take.
const CHANGE: Duration = Duration::from_secs(3);

/// The longest time until a server takes a change.
const MOST: Duration = Duration::from_secs(180);

/// The measured times, by the name of the fault.
#[derive(Default)]
pub(crate) struct Recoveries(BTreeMap<String, Vec<Duration>>);

impl Recoveries {
    pub(crate) fn note(&mut self, what: impl ToString, took: Duration) {
        self.0.entry(what.to_string()).or_default().push(took);
    }

    /// Returns the times as a table.
    pub(crate) fn table(&self) -> String {
        let mut table =
            "| what is wrong | times | shortest s | median s | longest s |\n".to_owned();
        table += "|---|--:|--:|--:|--:|\n";
        for (what, times) in &self.0 {
            let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
            times.sort_by(f64::total_cmp);
            let (count, median) = (times.len(), times[times.len() / 2]);
            let (least, most) = (times[0], times[count - 1]);
            writeln!(
                table,
                "| {what} | {count} | {least:.1} | {median:.1} | {most:.1} |"
            )
            .expect("a string takes all");
        }
        table
    }
}

/// Waits until each server takes a change. Returns the time that this took.
pub(crate) async fn recovered(clients: &[Client], what: &str) -> Duration {
    let start = Instant::now();
    let waiting = clients.iter().enumerate().map(async |(number, client)| {
        let mut client = client.clone();
        loop {
            let change = node(&format!("n{number}-{}", fastrand::u8(..)), &[]).change();
            let changed = client.update_snapshot(batch("probe", vec![change]));
            match timeout(CHANGE, changed).await {
                Ok(Ok(_)) => return,
                refused => assert!(
                    start.elapsed() < MOST,
                    "{what}: server {number} takes no change: {refused:?}"
                ),
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    join_all(waiting).await;
    start.elapsed()
}
