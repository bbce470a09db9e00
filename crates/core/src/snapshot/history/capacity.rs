//! The limits that every state keeps to.

use super::error::Error;
use crate::account::Purpose;
use crate::limits::{Limit, Limits};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::revision::State;

/// Returns whether a state may have this many more objects of each kind.
fn is_roomy(state: &State, most: usize, limits: &Limits) -> bool {
    let now = state.sizes;
    now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners
}

/// Checks that a state may grow by a batch.
pub fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    if !is_roomy(state, batch.len(), limits) {
        check_counts(state, batch, limits)?;
    }
    if state.has_memory(batch) {
        return Ok(());
    }
    state.make_room();
    Ok(state.upkeep.account().check(Purpose::Objects, 0)?)
}

/// Checks the numbers of objects after a batch, which is applied to a clone.
fn check_counts(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let mut changed = state.clone();
    changed.apply(batch, state.revision);
    let (before, after) = (state.sizes, changed.sizes);
    let each = [
        (Limit::Nodes, before.nodes, after.nodes),
        (Limit::Pods, before.pods, after.pods),
        (Limit::LabelSets, before.label_sets, after.label_sets),
        (Limit::Owners, before.owners, after.owners),
    ];
    // A change that does not grow the state is allowed, whatever the limit.
    let mut growing = each.into_iter().filter(|(_, before, after)| after > before);
    growing.try_for_each(|(limit, _, after)| Ok(limits.check(limit, after)?))
}
