//! Keeps views in bounds while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::snapshot::Registry;
use crate::store::Store;

/// How often views are looked through; also the grain of their age.
const PERIOD: Duration = Duration::from_secs(1);

/// Drops views that were not used for `view_idle`, and has the store write what
/// it buffers, for as long as the runtime lives.
pub async fn run(registry: Arc<Registry>, store: Option<Arc<Store>>, view_idle: Duration) {
    let idle_ticks = view_idle.as_secs().max(1);
    let mut ticks = interval(PERIOD);
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
        let swept = tokio::task::spawn_blocking(sweep).await;
        if swept.is_err() {
            tracing::error!("sweeping views failed; they are only bounded by max-view-bytes");
        }
    }
}
