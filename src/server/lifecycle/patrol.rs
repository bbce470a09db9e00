//! Verifies the kept counts, one namespace at a time, while the server runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{debug, error, warn};

use crate::api::{self, Background};
use crate::snapshot::Registry;
use crate::verify::Patrol;

/// How many times as long as a step took there is none: it takes a hundredth of
/// a processor at most.
const REST: u32 = 99;

/// By how much its priority is lower, as of `nice(1)`: nobody waits for it.
const NICENESS: i32 = 10;

/// Verifies a namespace every `interval`, or less often where that takes long,
/// for as long as the runtime lives. Never, if the interval is zero.
pub async fn run(registry: Arc<Registry>, interval: Duration) {
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
        let step = move || patrol.step(&registry);
        let stepped = thread.run(step).await;
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
