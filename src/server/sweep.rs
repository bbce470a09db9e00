//! Keeps views in bounds while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::snapshot::Registry;

/// How often views are looked through; also the grain of their age.
const PERIOD: Duration = Duration::from_secs(1);

/// Drops views that were not used for `view_idle`, for as long as the runtime
/// lives.
pub async fn run(registry: Arc<Registry>, view_idle: Duration) {
    let idle_ticks = view_idle.as_secs().max(1);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let registry = Arc::clone(&registry);
        let swept = tokio::task::spawn_blocking(move || registry.sweep(idle_ticks)).await;
        if swept.is_err() {
            tracing::error!("sweeping views failed; they are only bounded by max-view-bytes");
        }
    }
}
