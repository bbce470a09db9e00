//! Plain counts, in which the rest of the server records events. They know nothing of metrics.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::runtime::RuntimeMetrics;

use crate::limits::Limit;

/// The lengths of logs, and whether the nats-servers can be reached, as of the last query.
#[derive(Debug, Default)]
pub struct Tails {
    last: DashMap<String, u64>,
    is_away: AtomicBool,
}

impl Tails {
    /// Records the sequence of the last message of a log. After a failed query, which is `None`,
    /// the known length stays.
    pub fn note(&self, snapshot: &str, last: Option<u64>) {
        self.note_reached(last.is_some());
        if let Some(last) = last {
            self.last.insert(snapshot.to_owned(), last);
        }
    }

    /// Records whether the nats-servers have answered.
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

    /// Returns whether the nats-servers answered the last query.
    pub(super) fn is_reachable(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed)
    }
}

/// The number of calls and connections that were refused, by limit. Refusals are rare, or the calls
/// are cheap, so all threads share this.
#[derive(Debug)]
pub struct Refusals([AtomicU64; Limit::ALL.len()]);

impl Default for Refusals {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Refusals {
    /// Counts one refusal.
    pub fn note(&self, limit: Limit) {
        self.0[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of refusals.
    pub(super) fn count(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }
}

/// The counts of certificates, rules and handshakes since the server started.
#[derive(Debug, Default)]
pub struct SecurityCounts {
    /// The number of times that changed certificates or rules came into use.
    pub reloads: AtomicU64,
    /// The number of times that changed certificates or rules were bad. The previous ones stay in
    /// use.
    pub failed_reloads: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub failed_handshakes: AtomicU64,
    /// The end of the server's certificate, in seconds since 1970; 0 without TLS.
    pub certificate_expires: AtomicI64,
}

/// The threads that serve connections. Each is added when it starts.
#[derive(Debug, Default)]
pub struct Threads(Mutex<Vec<(usize, RuntimeMetrics)>>);

impl Threads {
    /// Adds a thread by number.
    pub fn add(&self, index: usize, runtime: RuntimeMetrics) {
        self.0.lock().push((index, runtime));
    }

    /// The seconds in which each thread was not idle, by its number.
    pub(super) fn busy(&self) -> Vec<(usize, f64)> {
        let threads = self.0.lock();
        let busy = |(index, runtime): &(usize, RuntimeMetrics)| {
            (*index, runtime.worker_total_busy_duration(0).as_secs_f64())
        };
        threads.iter().map(busy).collect()
    }
}
