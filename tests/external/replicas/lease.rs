//! A lease has one holder at a time, and another one soon after the holder fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use evenkeel::log::Log;
use evenkeel::log::lease::{Lease, Pace};
use support::fake_log::{Call, FakeLog, Fate, Faults};
use tokio::task::JoinHandle;

use crate::replicas::process::DEADLINE;

const PACE: Pace = Pace {
    renew: Duration::from_millis(100),
    holds: Duration::from_millis(1000),
    expires: Duration::from_millis(2000),
};

/// Cuts a server off from the log while it is set.
#[derive(Default)]
struct Cut(AtomicBool);

impl Faults for Cut {
    fn fate(&self, _: Call) -> Fate {
        match self.0.load(Ordering::Relaxed) {
            true => Fate::Unreachable,
            false => Fate::Done,
        }
    }
}

/// A server that works while it has the lease. `begun` counts how often it began.
struct Worker {
    task: JoinHandle<()>,
    begun: Arc<AtomicU32>,
    cut: Arc<Cut>,
}

struct Working(Arc<AtomicU32>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn start(log: &FakeLog, name: &str, at_work: &Arc<AtomicU32>) -> Worker {
    let cut = Arc::new(Cut::default());
    let log: Arc<dyn Log> = Arc::new(log.seen_with(cut.clone()));
    let lease = Lease::new(log, "lease/feed", name, PACE);
    let (begun, at_work) = (Arc::new(AtomicU32::new(0)), at_work.clone());
    let counted = begun.clone();
    let task = tokio::spawn(async move {
        let work = || work(&counted, &at_work);
        match lease.while_held(work).await {}
    });
    Worker { task, begun, cut }
}

async fn work(begun: &AtomicU32, at_work: &Arc<AtomicU32>) -> Infallible {
    let others = at_work.fetch_add(1, Ordering::SeqCst);
    let _working = Working(at_work.clone());
    assert_eq!(others, 0, "two servers have the lease");
    begun.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < DEADLINE, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_lease_passes_on_when_its_holder_is_cut_off_or_ends() {
    let (log, at_work) = (FakeLog::default(), Arc::new(AtomicU32::new(0)));
    let begun = |worker: &Worker| worker.begun.load(Ordering::SeqCst);
    let first = start(&log, "first", &at_work);
    until("the first has it", || begun(&first) == 1).await;
    let second = start(&log, "second", &at_work);

    first.cut.0.store(true, Ordering::Relaxed);
    until("the second takes over", || begun(&second) >= 1).await;
    first.cut.0.store(false, Ordering::Relaxed);
    let before = begun(&first);

    second.task.abort();
    // On a slow machine the first may have had the lease and lost it meanwhile.
    until("the first has it again", || begun(&first) > before).await;
    assert!(!first.task.is_finished(), "it found nobody else at work");
    assert_eq!(at_work.load(Ordering::SeqCst), 1);
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
