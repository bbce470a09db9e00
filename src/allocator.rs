//! The allocator of the program: its settings, and the memory that it has given out.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tikv_jemalloc_ctl::{epoch, stats};

use crate::account::Freshness;
use crate::limits::processors;

/// The variable of the environment with the settings, which the allocator reads before `main`.
pub const VARIABLE: &str = "_RJEM_MALLOC_CONF";

/// The greatest age of a recent figure. The allocator takes some 30 µs for a new one.
const RECENT: Duration = Duration::from_millis(1);

/// The settings of a server: an arena for each processor instead of four, because each keeps
/// memory of its own, and a thread that returns free memory within a tenth of a second. By default that takes ten
/// seconds, and happens on the threads that serve.
pub fn settings() -> OsString {
    let arenas = processors();
    format!("narenas:{arenas},dirty_decay_ms:100,muzzy_decay_ms:0,background_thread:true").into()
}

/// Returns the bytes that the allocator has given out; 0 in a program with another allocator.
pub fn in_use(freshness: Freshness) -> usize {
    static COUNTED: Mutex<Option<Instant>> = Mutex::new(None);
    let mut counted = COUNTED.lock();
    let is_recent = counted.is_some_and(|at| at.elapsed() < RECENT);
    if freshness == Freshness::Current || !is_recent {
        // Adds up the figures of all threads. It has no reason to fail.
        let _ = epoch::advance();
        *counted = Some(Instant::now());
    }
    stats::allocated::read().unwrap_or(0)
}
