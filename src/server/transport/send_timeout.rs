//! Closes connections whose clients do not read their answers in time. HTTP/2
//! lets a client leave an answer with the server for ever, and each answer
//! holds memory and a call's slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

/// The time between two checks of the answers. Their age is measured in these steps.
const PERIOD: Duration = Duration::from_millis(500);

/// Tells a connection that it must end, or that it has to continue.
#[derive(Debug, Default)]
pub struct CloseSignal {
    is_raised: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl CloseSignal {
    /// Returns whether the connection must end.
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Makes the signal wake the connection's task from now on.
    pub fn register(&self, context: &Context<'_>) {
        let mut reader = self.reader.lock();
        match &mut *reader {
            Some(waker) => waker.clone_from(context.waker()),
            None => *reader = Some(context.waker().clone()),
        }
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        if let Some(waker) = &*self.reader.lock() {
            waker.wake_by_ref();
        }
    }

    /// Ends the connection.
    pub fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
        self.wake();
    }
}

/// The answers that one thread is sending.
#[derive(Default)]
pub struct Answers {
    /// Counts the checks.
    tick: AtomicU64,
    sending: Mutex<Slab<Sending>>,
}

/// An answer that is being sent.
struct Sending {
    /// The check since which the client could read the answer. `None` while the server has nothing
    /// to send.
    offered: Option<u64>,
    close: Arc<CloseSignal>,
}

impl Answers {
    /// Watches an answer that a client can read now.
    pub fn watch(self: &Arc<Self>, close: &Arc<CloseSignal>) -> Watch {
        let offered = Some(self.tick.load(Ordering::Relaxed));
        let close = Arc::clone(close);
        let key = self.sending.lock().insert(Sending { offered, close });
        Watch {
            answers: Arc::clone(self),
            key,
        }
    }

    /// Ends the connections of answers that were offered for longer than `ticks`; returns the
    /// number of answers.
    fn look(&self, ticks: u64) -> usize {
        let now = self.tick.fetch_add(1, Ordering::Relaxed) + 1;
        let sending = self.sending.lock();
        let stalled = sending.iter().filter(|(_, sending)| {
            sending.offered.is_some_and(|since| now - since > ticks) && !sending.close.is_raised()
        });
        stalled.map(|(_, sending)| sending.close.raise()).count()
    }
}

/// An answer that is watched until it is dropped.
pub struct Watch {
    answers: Arc<Answers>,
    key: usize,
}

impl Watch {
    /// Records whether there is something for the client to read.
    pub fn note(&self, is_offered: bool) {
        let now = self.answers.tick.load(Ordering::Relaxed);
        let mut sending = self.answers.sending.lock();
        sending[self.key].offered = is_offered.then_some(now);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.answers.sending.lock().remove(self.key);
    }
}

/// Ends connections that leave answers unread for longer than `timeout`, for
/// as long as the runtime lives.
pub async fn run(all: Vec<Arc<Answers>>, timeout: Duration) {
    let ticks = timeout.as_nanos().div_ceil(PERIOD.as_nanos());
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
    let mut looks = interval(PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let stalled: usize = all.iter().map(|answers| answers.look(ticks)).sum();
        if stalled > 0 {
            info!(answers = stalled, "closing connections that do not read");
        }
    }
}
