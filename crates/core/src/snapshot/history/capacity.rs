//! The limits that every state keeps to.

use super::error::Error;
use crate::account::{Charge, Part};
use crate::limits::{Limit, Limits};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::revision::State;

/// Returns whether a state has room for this many changes of this many bytes, whatever they are.
pub fn is_roomy(state: &State, most: usize, bytes: usize, limits: &Limits) -> bool {
    let now = state.sizes;
    now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners
        && state.upkeep.account().has_room(Part::Objects, bytes)
}

/// Checks that a state may grow by a batch. Returns room in memory for it, to be held until it is
/// applied.
pub fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<Charge, Error> {
    if !is_roomy(state, batch.len(), 0, limits) {
        check_counts(state, batch, limits)?;
    }
    let room = state.room_for(batch);
    Ok(room.inspect_err(|_| state.upkeep.note_want())?)
}

/// Checks that a state may have this many more objects.
fn check_counts(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let now = state.sizes;
    let new = state.additions(batch);
    let each = [
        (Limit::Nodes, now.nodes, new.nodes),
        (Limit::Pods, now.pods, new.pods),
        (Limit::LabelSets, now.label_sets, new.label_sets),
        (Limit::Owners, now.owners, new.owners),
    ];
    // A change that does not grow the state is allowed, whatever the limit.
    let mut growing = each.into_iter().filter(|(_, _, new)| *new > 0);
    growing.try_for_each(|(limit, now, new)| Ok(limits.check(limit, now + new)?))
}
