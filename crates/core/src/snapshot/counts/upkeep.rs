//! The views and partitions of a snapshot: their number, their memory, and when they are dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::usage::next_number;
use crate::account::{Account, Charge, Part};
use crate::snapshot::counters::{self, SnapshotCounters};

/// The most views of a snapshot.
const MAX_VIEWS: usize = 16_384;

/// The views and partitions of a snapshot, of all revisions that are read.
#[derive(Debug)]
pub struct Upkeep {
    view_bytes: Charge,
    partition_bytes: Charge,
    view_count: AtomicUsize,
    /// The most bytes of views; partitions may take as much again.
    max_view_bytes: usize,
    /// True if there was no room for a view since the last sweep.
    wanted: AtomicBool,
    /// The times of the last sweeps.
    sweeps: Mutex<VecDeque<u64>>,
    /// The counters of views that are built, cached and dropped.
    pub counters: Arc<SnapshotCounters>,
}

impl Upkeep {
    /// The upkeep of a snapshot whose views may take this many bytes, which are charged to the
    /// account.
    pub fn new(
        max_view_bytes: usize,
        account: &Arc<Account>,
        counters: Arc<SnapshotCounters>,
    ) -> Self {
        Self {
            view_bytes: account.open(Part::Views),
            partition_bytes: account.open(Part::Views),
            view_count: AtomicUsize::new(0),
            max_view_bytes,
            wanted: AtomicBool::new(false),
            sweeps: Mutex::default(),
            counters,
        }
    }

    /// The account that is charged.
    pub fn account(&self) -> &Arc<Account> {
        self.view_bytes.account()
    }

    /// Records a sweep. Returns the time of the sweep before which views and partitions that were
    /// not used since are idle: `idle_ticks` sweeps ago.
    pub fn idle_since(&self, idle_ticks: u64) -> u64 {
        let mut sweeps = self.sweeps.lock();
        sweeps.push_back(next_number() + 1);
        let wanted =
            usize::try_from(idle_ticks).map_or(usize::MAX, |ticks| ticks.saturating_add(1));
        while sweeps.len() > wanted {
            sweeps.pop_front();
        }
        match sweeps.len() == wanted {
            true => sweeps[0],
            false => 0,
        }
    }

    /// Returns the bytes of views.
    pub fn view_bytes(&self) -> usize {
        self.view_bytes.bytes()
    }

    /// Returns the bytes of topologies and partitions.
    pub fn partition_bytes(&self) -> usize {
        self.partition_bytes.bytes()
    }

    /// Records the bytes of topologies and partitions.
    pub fn note_partitions(&self, bytes: usize) {
        self.partition_bytes.set(bytes);
    }

    /// Returns whether topologies and partitions may take this many bytes.
    pub fn has_partition_room(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.partition_bytes());
        bytes <= self.max_view_bytes && self.account().has_room(Part::Views, more)
    }

    /// Returns whether the process has no room for anything.
    pub fn is_process_full(&self) -> bool {
        !self.account().has_room(Part::Views, 1)
    }

    /// Returns the number of views.
    pub fn view_count(&self) -> usize {
        self.view_count.load(Ordering::Relaxed)
    }

    /// Returns whether a view of this many bytes may be cached.
    pub fn has_view_room(&self, bytes: usize) -> bool {
        self.view_count() < MAX_VIEWS
            && self.view_bytes() + bytes <= self.max_view_bytes
            && self.account().has_room(Part::Views, bytes)
    }

    /// Records a view that is cached.
    pub(super) fn note_view(&self, bytes: usize) {
        self.view_bytes.change(0, bytes);
        self.view_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a cached view is dropped.
    pub(super) fn forget_view(&self, bytes: usize) {
        self.view_bytes.change(bytes, 0);
        self.view_count.fetch_sub(1, Ordering::Relaxed);
        counters::add(&self.counters.views_dropped, 1);
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
}
