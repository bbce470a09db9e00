//! The version, the age and the size of the views of a state, and their limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::discarded::Discarded;
use crate::account::{Account, Charge, Part};
use crate::snapshot::counters::{self, SnapshotCounters};

/// The accounts of the views of a state.
#[derive(Debug)]
pub struct Upkeep {
    /// Grows whenever nodes moved between domains. Views of another version did not follow, and are
    /// dropped when they are found.
    version: AtomicU64,
    /// Grows with each sweep: a clock for the time of last use.
    tick: AtomicU64,
    view_bytes: Charge,
    partition_bytes: Charge,
    view_count: AtomicUsize,
    /// The most bytes of views; partitions may take as much again.
    max_view_bytes: usize,
    /// True if a view was dropped for lack of room since the last sweep.
    wanted: AtomicBool,
    /// Views and partitions that were removed under a lock.
    pub discarded: Discarded,
    /// The counters of views that are built, kept and dropped.
    pub counters: Arc<SnapshotCounters>,
}

impl Upkeep {
    /// The upkeep of a state whose views may take this many bytes, which are charged to the
    /// account.
    pub fn new(max_view_bytes: usize, account: &Arc<Account>) -> Self {
        Self {
            version: AtomicU64::new(0),
            tick: AtomicU64::new(0),
            view_bytes: account.open(Part::Views),
            partition_bytes: account.open(Part::Views),
            view_count: AtomicUsize::new(0),
            max_view_bytes,
            wanted: AtomicBool::new(false),
            discarded: Discarded::on(account),
            counters: Arc::default(),
        }
    }

    /// The version of the nodes that views must follow.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Moves on to another version, under the lock of the nodes.
    pub fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The current tick.
    pub fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Moves on to the next tick.
    pub fn next_tick(&self) -> u64 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the bytes of views.
    pub fn view_bytes(&self) -> usize {
        self.view_bytes.bytes()
    }

    /// Returns the bytes of topologies and partitions.
    pub fn partition_bytes(&self) -> usize {
        self.partition_bytes.bytes()
    }

    /// Records the bytes of topologies and partitions. The caller has locked the partitions.
    pub fn note_partitions(&self, bytes: usize) {
        self.partition_bytes.set(bytes);
    }

    /// Returns whether topologies and partitions may take this many more bytes.
    pub fn has_partition_room(&self, bytes: usize) -> bool {
        self.partition_bytes() + bytes <= self.max_view_bytes
            && self.process().has_room(Part::Views, bytes)
    }

    /// Returns whether the process has no room for anything.
    pub fn is_process_full(&self) -> bool {
        !self.process().has_room(Part::Views, 1)
    }

    fn process(&self) -> &Account {
        self.view_bytes.account()
    }

    /// Returns the number of views.
    pub fn view_count(&self) -> usize {
        self.view_count.load(Ordering::Relaxed)
    }

    /// Returns whether a view of this many bytes may be kept.
    pub fn has_view_room(&self, bytes: usize) -> bool {
        self.view_bytes() + bytes <= self.max_view_bytes
            && self.process().has_room(Part::Views, bytes)
    }

    /// Records that there was no room for a view, or for something that takes precedence over
    /// views.
    pub fn note_want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Returns whether views should make room: there are too many, or there was no room for one
    /// since the last call.
    pub fn takes_want(&self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
            || self.view_bytes() > self.max_view_bytes
            || self.is_process_full()
    }

    /// Records that a copy replaces views with the bytes and count `gone`. The copy was made at
    /// `at_copy`, and its changes since then have been recorded already.
    pub fn replace_views(&self, gone: (usize, usize), at_copy: (usize, usize)) {
        self.view_bytes.change(gone.0, at_copy.0);
        let more = at_copy.1.wrapping_sub(gone.1);
        if more != 0 {
            self.view_count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Records the bytes and the count of the views of a namespace, before and after a change.
    pub fn note_views(&self, before: (usize, usize), now: (usize, usize)) {
        self.replace_views(before, now);
        let dropped = before.1.saturating_sub(now.1);
        counters::add(&self.counters.views_dropped, dropped);
    }
}
