//! What the server counts about who may not do what, for its metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Counts since the server started.
#[derive(Debug, Default)]
pub struct Counts {
    pub(super) reloads: AtomicU64,
    pub(super) failed_reloads: AtomicU64,
    pub(super) failed_handshakes: AtomicU64,
    pub(super) certificate_expires: AtomicI64,
    pub(super) unauthenticated: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) over_limit: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    /// Changed certificates and rules that are in use since.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// Changed certificates and rules that were bad; those before them stay in
    /// use.
    pub fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// TLS handshakes that failed or took too long.
    pub fn failed_handshakes(&self) -> u64 {
        self.failed_handshakes.load(Ordering::Relaxed)
    }

    /// When the server's certificate ends, in seconds since 1970; `None`
    /// without TLS.
    pub fn certificate_expires(&self) -> Option<i64> {
        let at = self.certificate_expires.load(Ordering::Relaxed);
        (at != 0).then_some(at)
    }

    /// Calls of callers that are not known.
    pub fn unauthenticated(&self) -> u64 {
        self.unauthenticated.load(Ordering::Relaxed)
    }

    /// Calls, and steps of feeds, that their callers may not make.
    pub fn denied(&self) -> u64 {
        self.denied.load(Ordering::Relaxed)
    }

    /// Calls, and steps of feeds, refused for each limit by its name. Those of
    /// `max-waiting-decisions` are refused because the server is overloaded.
    pub fn over_limit(&self) -> BTreeMap<String, u64> {
        self.over_limit.lock().clone()
    }
}
