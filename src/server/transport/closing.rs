//! Closes connections that would hold the server up.
//!
//! HTTP/2 lets a client leave an answer with the server for ever, and each answer holds memory and a
//! call's slot. So connections are closed whose clients do not read their answers in time.
//!
//! When the server stops, HTTP/2 asks a client to close its connection, and waits for the answer: a
//! client that does not answer, or has not even sent its preface, would delay the stop for as long
//! as it likes. So connections without calls are closed then.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use super::turns::{CallTurns, CloseSignal};

/// The time between two checks of the answers. Their age is measured in these steps.
const ANSWERS_PERIOD: Duration = Duration::from_millis(500);

/// The time between two checks for connections without calls.
const IDLE_PERIOD: Duration = Duration::from_millis(100);

/// The number of checks in a row that find a connection without a call before it is closed. They
/// take a second. By then a client that reads knows that the server stops, and a call that it sent
/// before has arrived.
const LOOKS: u32 = 10;

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
pub async fn close_unread(all: Vec<Arc<Answers>>, timeout: Duration) {
    let ticks = timeout.as_nanos().div_ceil(ANSWERS_PERIOD.as_nanos());
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
    let mut looks = interval(ANSWERS_PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let stalled: usize = all.iter().map(|answers| answers.look(ticks)).sum();
        if stalled > 0 {
            info!(answers = stalled, "closing connections that do not read");
        }
    }
}

/// The open connections.
#[derive(Default)]
pub struct ConnectionSet(Mutex<Slab<CallsWatch>>);

/// A connection that may be without calls.
struct CallsWatch {
    calls: Arc<CallTurns>,
    /// The number of calls that had arrived at the last check.
    arrived: usize,
    /// The number of checks in a row that found no call.
    looks: u32,
}

impl ConnectionSet {
    /// Adds a connection, until the returned place is dropped.
    pub fn add(self: &Arc<Self>, calls: Arc<CallTurns>) -> ConnectionPlace {
        let key = self.0.lock().insert(CallsWatch {
            calls,
            arrived: 0,
            looks: 0,
        });
        ConnectionPlace {
            all: Arc::clone(self),
            key,
        }
    }

    /// Closes connections that have no calls, for as long as it is polled.
    pub async fn close_idle(&self) -> Infallible {
        let mut looks = interval(IDLE_PERIOD);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let mut all = self.0.lock();
            let closed = all
                .iter_mut()
                .map(|(_, watched)| watched.look())
                .filter(|closed| *closed)
                .count();
            if closed > 0 {
                info!(connections = closed, "closing connections without calls");
            }
        }
    }
}

impl CallsWatch {
    /// Closes the connection if it has been without calls for long enough.
    fn look(&mut self) -> bool {
        let arrived = self.calls.arrived();
        let had_calls = std::mem::replace(&mut self.arrived, arrived) != arrived;
        self.looks = match had_calls || self.calls.is_busy() {
            true => 0,
            false => self.looks.saturating_add(1),
        };
        let is_over = self.looks == LOOKS;
        if is_over {
            self.calls.connection.raise();
        }
        is_over
    }
}

/// The place of an open connection.
pub struct ConnectionPlace {
    all: Arc<ConnectionSet>,
    key: usize,
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.all.0.lock().remove(self.key);
    }
}
