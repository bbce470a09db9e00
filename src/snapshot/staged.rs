//! A state that is built aside, and the limits that every state keeps to.

use std::sync::Arc;

use super::change::Batch;
use super::defaults::Defaults;
use super::error::{Error, check_limit};
use super::limits::Limits;
use super::state::{Applied, State};

/// A new state that is built aside, to be swapped in whole.
#[derive(Debug)]
pub struct Staged {
    pub(super) state: State,
    pub(super) applied: Applied,
    pub(super) defaults: Option<Arc<Defaults>>,
    batches: i64,
}

impl Staged {
    /// An empty state.
    pub fn new(limits: &Limits) -> Self {
        Self {
            state: State::new(limits.max_view_bytes),
            applied: Applied::default(),
            defaults: None,
            batches: 0,
        }
    }

    /// Applies a batch to it.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when it would grow too large.
    pub fn apply(
        &mut self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        limits: &Limits,
    ) -> Result<Applied, Error> {
        check_room(&self.state, batch, limits)?;
        self.batches += 1;
        let applied = self.state.apply(batch, None, self.batches);
        self.applied.add(applied);
        self.defaults = defaults.or(self.defaults.take());
        Ok(applied)
    }
}

/// Checks that a state may grow by a batch.
pub(super) fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let (now, most) = (state.sizes(), batch.len());
    let roomy = now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners;
    if roomy {
        return Ok(());
    }
    let new = state.additions(batch);
    let check = |what, name, limit, now: usize, new: usize| {
        // What only shrinks or stays is let through, whatever the limit.
        if new == 0 {
            Ok(())
        } else {
            check_limit(what, name, limit, now + new)
        }
    };
    check("nodes", "max-nodes", limits.max_nodes, now.nodes, new.nodes)?;
    check("pods", "max-pods", limits.max_pods, now.pods, new.pods)?;
    check(
        "label sets",
        "max-label-sets",
        limits.max_label_sets,
        now.label_sets,
        new.label_sets,
    )?;
    check(
        "services and owners",
        "max-owners",
        limits.max_owners,
        now.owners,
        new.owners,
    )
}
