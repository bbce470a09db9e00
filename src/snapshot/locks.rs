//! How locks are waited for.
//!
//! Threads that serve read much and briefly. Decisions aside run at a lower
//! priority and now and then write what the others read: views, partitions.

use std::thread;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::budget::Delay;

/// How often [`write_between_reads`] looks whether nobody reads.
const LOOKS: usize = 100;

/// How long it waits before it looks again.
const PAUSE: Duration = Duration::from_micros(50);

/// Locks something to read it. [`Delay::Held`] instead of waiting for whoever
/// changes it, unless it `waits`.
pub fn read<T>(lock: &RwLock<T>, waits: bool) -> Result<RwLockReadGuard<'_, T>, Delay> {
    match waits {
        true => Ok(lock.read()),
        false => lock.try_read().ok_or(Delay::Held),
    }
}

/// Locks something to write it, at a moment when nobody reads it. A writer that
/// queues for the lock holds up all readers until it runs, and at a lower
/// priority than theirs that takes it milliseconds. So it queues only when
/// there was no such moment for long.
pub fn write_between_reads<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    for _ in 0..LOOKS {
        if let Some(locked) = lock.try_write() {
            return locked;
        }
        thread::sleep(PAUSE);
    }
    lock.write()
}
