//! What is done to all snapshots at intervals: idle views are dropped, and the kept
//! counts are verified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{debug, error, warn};

use crate::api::{self, Background};
use crate::snapshot::Registry;
use crate::store::Store;
use crate::tasks;
use crate::verify::Patrol;

/// How often views are looked through; also the grain of their age.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// How many times as long as a step took there is none: it takes a hundredth of
/// a processor at most.
const REST: u32 = 99;

/// By how much its priority is lower, as of `nice(1)`: nobody waits for it.
const NICENESS: i32 = 10;

/// Drops views that were not used for `view_idle`, and has the store write what
/// it buffers, for as long as the runtime lives.
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
            error!("sweeping views failed; they are only bounded by max-view-bytes");
        }
    }
}

/// Verifies a namespace every `interval`, or less often where that takes long,
/// for as long as the runtime lives. Never, if the interval is zero.
pub async fn verify(registry: Arc<Registry>, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let thread = Background::for_work("verify", 1, NICENESS);
    let patrol = Arc::new(Patrol::default());
    let mut pause = interval;
    loop {
        sleep(pause).await;
        let (patrol, registry) = (Arc::clone(&patrol), Arc::clone(&registry));
        let begun = Instant::now();
        let stepped = thread.run(move || patrol.step(&registry)).await;
        let took = begun.elapsed();
        match stepped {
            Ok(Some(step)) if step.report.findings.total > 0 => {
                api::log_mismatches(&step.snapshot, &step.report);
                warn!(snapshot = %step.snapshot, "rebuilt from its objects");
            }
            Ok(Some(step)) => {
                debug!(snapshot = %step.snapshot, views = step.report.views, ?took, "verified");
            }
            Ok(None) => {}
            Err(_) => error!("verifying in the background failed"),
        }
        pause = interval.max(took * REST);
    }
}
