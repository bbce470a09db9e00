//! Deciding on one revision of a namespace: at once, under its locks; or aside,
//! on a fork of it, for as long as the caller waits.

use std::sync::atomic::Ordering;

use super::fork::Fork;
use super::read_view::{LockedViews, ReadView, ViewStore};
use super::shards::State;
use crate::account::Part;
use crate::snapshot::budget::{Attempt, Budget, Delay};
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::objects::requested::RequestedTable;

impl State {
    /// The budget of a decision aside, which lasts until `is_given_up` says so.
    pub fn budget<'a>(&self, is_given_up: &'a dyn Fn() -> bool) -> Budget<'a> {
        Budget::until(is_given_up, self.footprint.account().open(Part::Requests))
    }

    /// Runs a decision on a fork, within a budget. Holds no lock while it decides.
    ///
    /// # Errors
    /// It was given up, or [`Delay::Full`].
    pub(in crate::snapshot) fn decide_on<T>(
        &self,
        fork: &Fork<'_>,
        budget: &Budget<'_>,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        let decided = decide(fork.read_view(budget));
        self.upkeep.discarded().drop_all();
        budget.delay().map_or(Ok(decided), Err)
    }

    /// Decides on one revision of a namespace, if it costs no more than this attempt
    /// may. Unless that waits, it also gives up when somebody holds a lock that it
    /// needs. `decide` may have run in vain then.
    ///
    /// # Errors
    /// Why it was not possible.
    pub fn read_at_once<T>(
        &self,
        namespace: &str,
        attempt: Attempt,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        let (budget, waits) = (attempt.budget(), attempt.waits());
        let decided = self.try_locked(namespace, waits, |locked| {
            if let Some(shard) = locked.shard
                && !shard.viewed.load(Ordering::Relaxed)
            {
                shard.viewed.store(true, Ordering::Relaxed);
            }
            let views = LockedViews {
                views: locked.namespace.views(),
                waits,
            };
            decide(ReadView {
                revision: locked.revision,
                nodes: locked.shared.nodes.nodes(),
                shared: locked.shared,
                requested: (locked.requested.as_deref())
                    .filter(|_| locked.shared.nodes.nodes().know_room()),
                keeping_away: locked
                    .requested
                    .as_deref()
                    .map(RequestedTable::anti_affinity),
                storage_use: locked.requested.as_deref().map(RequestedTable::storage_use),
                defaults: &locked.shared.defaults,
                namespace: locked.namespace,
                upkeep: &self.upkeep,
                id: DecisionId::next(),
                budget: &budget,
                views: locked.shard.map(|_| &views as &dyn ViewStore),
                others: None,
                unknown_deletes: &[],
            })
        })?;
        budget.delay().map_or(Ok(decided), Err)
    }
}
