//! Ends reservations when their time is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use crate::backoff::Backoff;
use crate::snapshot::{Registry, Snapshot};
use crate::tasks;

/// The shortest pause after the journal refused a change, for instance because the disk is full.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between two checks.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Ends the reservations of all snapshots when they are due, as long as it is polled. It waits for
/// each snapshot separately, so a journal that is slow for one delays neither the others nor any
/// reader.
pub async fn run(registry: Arc<Registry>) {
    let mut ending = JoinSet::new();
    // The pauses of each snapshot; `None` while its reservations are being ended.
    let mut paces: HashMap<String, Option<Backoff>> = HashMap::new();
    loop {
        // Listen before looking, so that no change is missed.
        let changed = registry.ends_changed();
        let mut next = LONGEST;
        for snapshot in registry.list("") {
            let Some(left) = snapshot.until_next_end() else {
                continue;
            };
            let pace = paces.get_mut(snapshot.name());
            if matches!(pace, Some(None)) {
                continue;
            }
            if left.is_zero() {
                let pauses = pace.and_then(Option::take);
                let fresh = || Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
                let pauses = pauses.unwrap_or_else(fresh);
                paces.insert(snapshot.name().to_owned(), None);
                let end = end(Arc::clone(&registry), snapshot, pauses);
                tasks::spawn_in(&mut ending, end);
            } else {
                next = next.min(left);
            }
        }
        tokio::select! {
            () = changed => {}
            () = sleep_until(Instant::now() + next) => {}
            Some(done) = ending.join_next() => match done {
                Ok((name, None)) => {
                    paces.remove(&name);
                }
                Ok((name, failed)) => {
                    paces.insert(name, failed);
                }
                // A failed task does not tell its snapshot, so each snapshot may be tried again.
                Err(_) => paces.clear(),
            }
        }
    }
}

/// Ends the due reservations of a snapshot. Returns the snapshot's name once it may be tried again,
/// and the pauses if the end was not stored.
async fn end(
    registry: Arc<Registry>,
    snapshot: Arc<Snapshot>,
    mut pauses: Backoff,
) -> (String, Option<Backoff>) {
    let name = snapshot.name().to_owned();
    let run = move || snapshot.end_expired(registry.limits());
    match tasks::spawn_blocking(run).await {
        Ok(Ok(())) => return (name, None),
        Ok(Err(error)) => {
            warn!(snapshot = name, %error, "reservations are held longer: their end is not stored");
        }
        Err(_) => tracing::error!(snapshot = name, "ending reservations failed"),
    }
    sleep(pauses.after_failure()).await;
    (name, Some(pauses))
}
