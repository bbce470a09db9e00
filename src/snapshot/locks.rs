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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_waits_holds_up_no_reader() {
        let lock = RwLock::new(0);
        thread::scope(|scope| {
            let reading = lock.read();
            let writer = scope.spawn(|| *write_between_reads(&lock) += 1);
            // It waits; one that queues is there by now as well.
            thread::sleep(PAUSE * 20);
            assert!(!writer.is_finished());
            assert!(lock.try_read().is_some(), "readers are held up");
            drop(reading);
        });
        assert_eq!(*lock.read(), 1);
    }

    #[test]
    fn a_writer_gets_its_turn_among_readers_that_never_end() {
        let (lock, done) = (RwLock::new(0), RwLock::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !*done.read() {
                        let _reading = lock.read();
                        thread::sleep(PAUSE);
                    }
                });
            }
            for _ in 0..10 {
                *write_between_reads(&lock) += 1;
            }
            *done.write() = true;
        });
        assert_eq!(*lock.read(), 10);
    }
}
