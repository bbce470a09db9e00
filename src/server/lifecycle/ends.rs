//! Ends reservations when their time is over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::snapshot::{Registry, Snapshot};
use crate::tasks;

/// How long after a refusal, of a full disk for instance, the journal is asked
/// again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long it waits at most before it looks again.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Ends the reservations of all snapshots when they are due, as long as it is
/// polled. It waits for each snapshot separately, so a journal that is slow for
/// one delays neither the others nor any reader.
pub async fn run(registry: Arc<Registry>) {
    let mut ending = JoinSet::new();
    let mut busy = HashSet::new();
    loop {
        // Listening starts before looking, so that no change is missed.
        let changed = registry.ends_changed();
        let mut next = LONGEST;
        for snapshot in registry.list("") {
            let Some(left) = snapshot.until_next_end() else {
                continue;
            };
            if busy.contains(snapshot.name()) {
                continue;
            }
            if left.is_zero() {
                busy.insert(snapshot.name().to_owned());
                let end = end(Arc::clone(&registry), snapshot);
                tasks::spawn_in(&mut ending, end);
            } else {
                next = next.min(left);
            }
        }
        tokio::select! {
            () = changed => {}
            () = sleep_until(Instant::now() + next) => {}
            Some(done) = ending.join_next() => match done {
                Ok(name) => {
                    busy.remove(&name);
                }
                // Which of them it was is not known.
                Err(_) => busy.clear(),
            }
        }
    }
}

/// Ends the due reservations of a snapshot. Returns its name once it may be
/// tried again.
async fn end(registry: Arc<Registry>, snapshot: Arc<Snapshot>) -> String {
    let name = snapshot.name().to_owned();
    let run = move || snapshot.end_expired(registry.limits());
    match tasks::spawn_blocking(run).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            warn!(snapshot = name, %error, "reservations are held longer: their end is not stored");
            tokio::time::sleep(PAUSE).await;
        }
        Err(_) => {
            tracing::error!(snapshot = name, "ending reservations failed");
            tokio::time::sleep(PAUSE).await;
        }
    }
    name
}
