//! A lease has one holder at a time, and another one soon after the holder fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::log::Log;
use evenkeel::log::lease::{Lease, Pace};
use support::fake_log::FakeLog;

use crate::replicas::process::eventually;

const PACE: Pace = Pace {
    renew: Duration::from_millis(100),
    holds: Duration::from_millis(1000),
    expires: Duration::from_millis(2000),
};

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    eventually(what, async || is().then_some(())).await;
}

#[tokio::test]
async fn a_lease_that_is_given_up_is_free_at_once() {
    let log: Arc<dyn Log> = Arc::new(FakeLog::default());
    let pace = Pace {
        expires: Duration::from_secs(3600),
        ..PACE
    };
    let lease = |name| Lease::new(log.clone(), "lease/feed", name, pace);
    let (first, second) = (lease("first"), lease("second"));
    let began = AtomicBool::new(false);
    let work = || {
        began.store(true, Ordering::SeqCst);
        std::future::pending()
    };
    tokio::select! {
        never = first.while_held(work) => match never {},
        () = until("the first has it", || began.load(Ordering::SeqCst)) => {}
    }
    began.store(false, Ordering::SeqCst);
    // The second does not have the lease, so its release does nothing.
    second.release().await;
    first.release().await;
    tokio::select! {
        never = second.while_held(work) => match never {},
        () = until("the second has it", || began.load(Ordering::SeqCst)) => {}
    }
}
