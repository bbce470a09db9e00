//! Work on all snapshots at intervals: idle views are dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tracing::error;

use crate::snapshot::Registry;
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
