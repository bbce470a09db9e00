//! Plain counts, to which the rest of the server notes what happens. They know
//! nothing of metrics.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::runtime::RuntimeMetrics;

use crate::limits::Limit;

/// How long logs are, and whether they can be reached, as they were last asked.
#[derive(Debug, Default)]
pub struct Tails {
    last: DashMap<String, u64>,
    is_away: AtomicBool,
}

impl Tails {
    /// Notes the sequence of the last message of a log; nothing when that could
    /// not be asked.
    pub fn note(&self, snapshot: &str, last: Option<u64>) {
        self.note_reached(last.is_some());
        if let Some(last) = last {
            self.last.insert(snapshot.to_owned(), last);
        }
    }

    /// Notes whether the nats-servers have answered.
    pub fn note_reached(&self, is_reached: bool) {
        self.is_away.store(!is_reached, Ordering::Relaxed);
    }

    /// Forgets a log that is gone.
    pub fn forget(&self, snapshot: &str) {
        self.last.remove(snapshot);
    }

    /// The sequence of the last message; 0 when nothing is known.
    pub(super) fn of(&self, snapshot: &str) -> u64 {
        self.last.get(snapshot).map_or(0, |last| *last)
    }

    /// Returns whether the log was reached the last time.
    pub(super) fn is_reachable(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed)
    }
}

/// How many calls and connections were refused for each limit. Refusals are
/// rare, or calls are cheap, so all threads share this.
#[derive(Debug)]
pub struct Refusals([AtomicU64; Limit::ALL.len()]);

impl Default for Refusals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Refusals {
    /// Notes one.
    pub fn note(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many there were.
    pub(super) fn count(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }
}

/// What is counted of certificates, rules and handshakes since the server
/// started.
#[derive(Debug, Default)]
pub struct SecurityCounts {
    /// Changed certificates and rules that are in use since.
    pub reloads: AtomicU64,
    /// Changed certificates and rules that were bad; those before them stay in
    /// use.
    pub failed_reloads: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub failed_handshakes: AtomicU64,
    /// When the server's certificate ends, in seconds since 1970; 0 without TLS.
    pub certificate_expires: AtomicI64,
}

/// The threads that serve connections, each known from its start on.
#[derive(Debug, Default)]
pub struct Threads(Mutex<Vec<(usize, RuntimeMetrics)>>);

impl Threads {
    /// Adds a thread by number.
    pub fn add(&self, index: usize, runtime: RuntimeMetrics) {
        self.0.lock().push((index, runtime));
    }

    /// For how many seconds each was not idle, by its number.
    pub(super) fn busy(&self) -> Vec<(usize, f64)> {
        let threads = self.0.lock();
        let busy = |(index, runtime): &(usize, RuntimeMetrics)| {
            (*index, runtime.worker_total_busy_duration(0).as_secs_f64())
        };
        threads.iter().map(busy).collect()
    }
}
