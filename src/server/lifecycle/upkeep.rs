//! Work on all snapshots at intervals: idle views are dropped, and the kept counts are verified.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{debug, error, warn};

use crate::api::{self, Background};
use crate::snapshot::Registry;
use crate::store::Store;
use crate::tasks;
use crate::verify::BackgroundVerifier;

/// The time between two checks of the views; also the unit of their age.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// The ratio of the pause after a step to the step's time: steps take at most a hundredth of a
/// processor.
const REST: u32 = 99;

/// The amount by which the priority of this work is lower, as in `nice(1)`: no call waits for it.
const NICENESS: i32 = 10;

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

/// Verifies a namespace every `interval`, or less often if that takes long, for as long as the
/// runtime lives. An interval of zero means never.
pub async fn verify(registry: Arc<Registry>, interval: Duration) {
    if interval.is_zero() {
        return;
    }
    let thread = Background::for_work("verify", 1, NICENESS);
    let verifier = Arc::new(BackgroundVerifier::default());
    let mut pause = interval;
    loop {
        sleep(pause).await;
        let (verifier, registry) = (Arc::clone(&verifier), Arc::clone(&registry));
        let begun = Instant::now();
        let stepped = thread.run(move || verifier.step(&registry)).await;
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
