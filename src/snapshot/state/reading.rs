//! Deciding on one revision of a namespace: at once, under its locks; or aside,
//! on a fork of it, for as long as the caller waits.

use std::sync::atomic::Ordering;

use super::fork::Fork;
use super::frozen::NoBatch;
use super::pod_groups::PodGroups;
use super::read_view::{LockedViews, ReadView, ViewStore};
use super::shards::State;
use crate::account::Part;
use crate::snapshot::budget::{Attempt, Budget, Delay};
use crate::snapshot::counts::usage::DecisionId;
use crate::snapshot::objects::change::Batch;

impl State {
    /// Runs a decision on one revision of a namespace, until `is_given_up` says
    /// so. Holds no lock while it decides.
    ///
    /// # Errors
    /// It was given up, or [`Delay::Full`].
    pub fn read_until<T>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        let (fork, budget) = (self.fork(namespace, true), self.budget(is_given_up));
        self.decide_on(&fork, &budget, decide)
    }

    /// As [`Self::read_until`], as if a batch had been applied.
    ///
    /// # Errors
    /// Those of [`Self::read_until`].
    pub fn read_overlaid<T>(
        &self,
        namespace: &str,
        overlay: &Batch,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        let budget = self.budget(is_given_up);
        let fork = self.overlaid_fork(namespace, overlay, &budget)?;
        self.decide_on(&fork, &budget, decide)
    }

    /// A fork of each of some namespaces, of one revision.
    pub(in crate::snapshot) fn fork_each(
        &self,
        _no_batch: &impl NoBatch,
        namespaces: &[String],
    ) -> Vec<Fork<'_>> {
        let forks = namespaces.iter().map(|name| self.fork(name, true));
        forks.collect()
    }

    /// Runs a decision on a fork, until `is_given_up` says so.
    ///
    /// # Errors
    /// Those of [`Self::read_until`].
    pub(in crate::snapshot) fn read_fork<T>(
        &self,
        fork: &Fork<'_>,
        is_given_up: &dyn Fn() -> bool,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        self.decide_on(fork, &self.budget(is_given_up), decide)
    }

    /// Looks at all pods of one revision of a namespace, until `is_given_up`
    /// says so.
    ///
    /// # Errors
    /// Those of [`Self::read_until`].
    pub fn survey<T>(
        &self,
        namespace: &str,
        is_given_up: &dyn Fn() -> bool,
        look: impl FnOnce(PodGroups<'_>) -> T,
    ) -> Result<T, Delay> {
        let (fork, budget) = (self.fork(namespace, false), self.budget(is_given_up));
        self.decide_on(&fork, &budget, |read_view| look(read_view.pod_groups()))
    }

    /// Runs a decision on a fork, within a budget.
    fn decide_on<T>(
        &self,
        fork: &Fork<'_>,
        budget: &Budget<'_>,
        decide: impl FnOnce(ReadView<'_>) -> T,
    ) -> Result<T, Delay> {
        let decided = decide(fork.read_view(budget));
        self.upkeep.discarded().drop_all();
        budget.delay().map_or(Ok(decided), Err)
    }

    /// The budget of a decision aside.
    fn budget<'a>(&self, is_given_up: &'a dyn Fn() -> bool) -> Budget<'a> {
        Budget::until(is_given_up, self.footprint.account().open(Part::Requests))
    }

    /// As [`Self::read_until`], if it costs no more than this attempt may. Unless
    /// that waits, it also gives up when somebody holds a lock that it needs.
    /// `decide` may have run in vain then.
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
                partitioned: &locked.shared.nodes,
                requested: locked.requested.as_deref(),
                nominations: &locked.shared.nominations,
                defaults: &locked.shared.defaults,
                namespace: locked.namespace,
                upkeep: &self.upkeep,
                id: DecisionId::next(),
                budget: &budget,
                views: locked.shard.map(|_| &views as &dyn ViewStore),
                unknown_deletes: &[],
            })
        })?;
        budget.delay().map_or(Ok(decided), Err)
    }
}
