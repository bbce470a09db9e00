//! Work on all snapshots: idle views are dropped, and reservations end when their time is over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{error, warn};

use crate::snapshot::{Registry, Snapshot};
use crate::store::Store;
use crate::tasks;

/// The time between two checks of the views; also the unit of their age.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// Drops views that were not used for `view_idle`, and lets the store write its buffer, for as long
/// as the runtime lives.
pub async fn sweep(registry: Arc<Registry>, store: Option<Arc<Store>>, view_idle: Duration) {
    let idle_ticks = view_idle.as_secs().max(1);
    let mut ticks = interval(SWEEP_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (registry, store) = (Arc::clone(&registry), store.clone());
        let sweep = move || {
            registry.sweep(idle_ticks);
            if let Some(store) = store {
                store.tick();
            }
        };
        if tasks::spawn_blocking(sweep).await.is_err() {
            error!("sweeping views failed; only limits on their number bound them");
        }
    }
}

/// The pause after the journal refused a change, for instance because the disk is full.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two checks.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// Ends the reservations of all snapshots when they are due, as long as it is polled. It waits for
/// each snapshot separately, so a journal that is slow for one delays neither the others nor any
/// reader.
pub async fn end_reservations(registry: Arc<Registry>) {
    let mut ending = JoinSet::new();
    // The snapshots whose reservations are being ended.
    let mut under_way: HashSet<String> = HashSet::new();
    loop {
        // Listen before looking, so that no change is missed.
        let changed = registry.ends_changed();
        let mut next = LONGEST_PAUSE;
        for snapshot in registry.list("") {
            let Some(left) = snapshot.until_next_end() else {
                continue;
            };
            if under_way.contains(snapshot.name()) {
                continue;
            }
            if left.is_zero() {
                under_way.insert(snapshot.name().to_owned());
                tasks::spawn_in(&mut ending, end_due(snapshot));
            } else {
                next = next.min(left);
            }
        }
        tokio::select! {
            () = changed => {}
            () = sleep_until(Instant::now() + next) => {}
            Some(done) = ending.join_next() => match done {
                Ok(name) => drop(under_way.remove(&name)),
                // A failed task does not tell its snapshot, so each snapshot may be tried again.
                Err(_) => under_way.clear(),
            }
        }
    }
}

/// Ends the due reservations of a snapshot. Returns the snapshot's name once it may be tried again.
async fn end_due(snapshot: Arc<Snapshot>) -> String {
    let name = snapshot.name().to_owned();
    let run = move || snapshot.end_expired();
    match tasks::spawn_blocking(run).await {
        Ok(Ok(())) => return name,
        Ok(Err(error)) => {
            warn!(snapshot = name, %error, "reservations are held longer: their end is not stored");
        }
        Err(_) => error!(snapshot = name, "ending reservations failed"),
    }
    sleep(REFUSED_PAUSE).await;
    name
}
