//! The locks, and the ways of waiting for them.
//!
//! Threads that serve read much and briefly. Decisions aside run at a lower priority and sometimes
//! write structures that serving threads read: views, partitions.
//!
//! # Locks
//! | lock | protects | held |
//! |---|---|---|
//! | `Snapshot::position` | the turn to apply a batch; the mark of a deleted snapshot | for a whole batch, or a copy |
//! | `Snapshot::reservations` | the reservations; changed only with the turn | to look something up or change it |
//! | `Snapshot::live` | the reference to the live state | to clone the `Arc`, or swap it |
//! | `Shard::namespace`, one per namespace | pods, label sets, owners | read: for a decision that is over at once, or to fork; write: for a batch, some 5 ms at most |
//! | `State::shared` | nodes and default constraints | read: as above; write: while a batch changes nodes or defaults |
//! | `State::requested` | for each node the number of pods that name it, their requests, the terms by which they keep others away and the storage that they use, together with the revision | to clone the `Arc`, or to apply a batch |
//! | `PartitionedNodes::partitions` | topologies and partitions | to find or insert one |
//! | `Namespace::views` | views | to find or insert one |
//! | the maps of `dashmap` | the sets of namespaces and snapshots | to clone an `Arc` out, to insert, to remove |
//!
//! They are taken in this order:
//!
//! ```text
//! turn → reservations → shards, ascending by name → shared → requested, partitions or views (one at a time)
//! ```
//!
//! - A batch holds all locks that it needs until it is applied. A decision holds one shard and
//!   `shared`. So a decision sees all of a batch or nothing.
//! - No thread waits for another lock while holding a guard of a concurrent map: the `Arc` is
//!   cloned out first. A shard found that way may have been emptied and removed meanwhile. It is
//!   then marked `retired`, and the finder looks again.
//! - A missing namespace has no lock. A reader asks the map between two looks at the revision. A
//!   batch that creates the namespace puts it into the map before it increases the revision, and a
//!   batch that empties it removes it afterwards. So a namespace that is not found while the
//!   revision stays the same does not exist at that revision.
//! - Views and partitions are behind `Arc`s, so a decision reads them without their lock. A change
//!   copies a view or partition that a decision still reads. Nothing is built under the lock of a
//!   collection: it is built first and inserted afterwards.
//! - `Place` reads a read view to gather its plan, and picks without a lock. To reserve, it
//!   continues as a change: it takes the turn there, and plans again only if the revision
//!   has changed meanwhile.
//! - No lock is held across an `.await`: the core has none.
//!
//! Decisions share read locks only, and hold them for a few milliseconds at most. A decision waits
//! for a batch on its namespace, and for a batch that changes nodes, for a few milliseconds as
//! well. No decision waits for another. Batches on a snapshot take turns.

use std::thread;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::deadline::Stopped;

/// The number of times that [`write_between_reads`] checks for a moment without readers.
const LOOKS: usize = 100;

/// The pause between two of these checks.
const PAUSE: Duration = Duration::from_micros(50);

/// Takes a lock for reading. Where a writer holds it, this returns [`Stopped::Held`] instead of
/// waiting, unless it `waits`.
pub fn read<T>(lock: &RwLock<T>, waits: bool) -> Result<RwLockReadGuard<'_, T>, Stopped> {
    match waits {
        true => Ok(lock.read()),
        false => lock.try_read().ok_or(Stopped::Held),
    }
}

/// Takes a lock for writing, at a moment without readers. A writer that queues for the lock delays
/// all readers until it runs, and at a lower priority than theirs that takes milliseconds. So it
/// queues only when there was no such moment for long.
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
            // By now a writer that queues for the lock would hold up other readers.
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
