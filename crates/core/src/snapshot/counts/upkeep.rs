//! The views and partitions of a snapshot: their number, and when they are dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::usage::next_number;
use crate::account::{Account, Purpose};
use crate::snapshot::counters::{self, SnapshotCounters};

/// The most views of a snapshot.
const MAX_VIEWS: usize = 16_384;

/// The views and partitions of a snapshot, of all revisions that are read.
#[derive(Debug)]
pub struct Upkeep {
    account: Arc<Account>,
    view_count: AtomicUsize,
    /// The times of the last sweeps.
    sweeps: Mutex<VecDeque<u64>>,
    /// The counters of views that are built, cached and dropped.
    pub counters: Arc<SnapshotCounters>,
}

impl Upkeep {
    /// The upkeep of a snapshot whose process has this account.
    pub fn new(account: &Arc<Account>, counters: Arc<SnapshotCounters>) -> Self {
        Self {
            account: Arc::clone(account),
            view_count: AtomicUsize::new(0),
            sweeps: Mutex::default(),
            counters,
        }
    }

    /// The account of the process.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
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

    /// Returns whether the process has memory for views and partitions.
    pub fn has_memory(&self) -> bool {
        self.account.has_room(Purpose::Cache, 0)
    }

    /// Returns the number of views.
    pub fn view_count(&self) -> usize {
        self.view_count.load(Ordering::Relaxed)
    }

    /// Returns whether one more view may be cached.
    pub fn has_view_room(&self) -> bool {
        self.view_count() < MAX_VIEWS && self.has_memory()
    }

    /// Records a view that is cached.
    pub(super) fn note_view(&self) {
        self.view_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a cached view is dropped.
    pub(super) fn forget_view(&self) {
        self.view_count.fetch_sub(1, Ordering::Relaxed);
        counters::add(&self.counters.views_dropped, 1);
    }
}
