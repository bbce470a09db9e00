//! A state that is built aside, and the limits that every state keeps to.

use std::sync::Arc;

use super::error::{Error, check_limit};
use super::journal::{Aside, Journal, Refusal};
use crate::account::{Account, Charge, Part};
use crate::snapshot::limits::Limits;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::footprint::state_bytes;
use crate::snapshot::state::shards::{Applied, State};

/// A new state that is built aside, to be swapped in whole.
pub struct Staged {
    pub(in crate::snapshot) state: State,
    pub(in crate::snapshot) applied: Applied,
    pub(in crate::snapshot) defaults: Option<Arc<Defaults>>,
    batches: i64,
    /// The same state in the journal, if there is one.
    written: Option<Written>,
}

/// A state aside in a journal, given up unless it is taken.
struct Written {
    journal: Arc<dyn Journal>,
    aside: Aside,
    is_kept: bool,
}

impl Staged {
    /// An empty state.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub fn new(limits: &Limits, account: &Arc<Account>) -> Result<Self, Error> {
        // What every state takes is little, but there may be many.
        account.charge(Part::Staged, state_bytes())?;
        Ok(Self {
            state: State::on(account, Part::Staged, limits.max_view_bytes),
            applied: Applied::default(),
            defaults: None,
            batches: 0,
            written: None,
        })
    }

    /// An empty state that is written to a journal as well.
    ///
    /// # Errors
    /// [`Error::OverLimit`] and [`Error::NotStored`].
    pub(in crate::snapshot) fn journaled(
        limits: &Limits,
        account: &Arc<Account>,
        journal: &Arc<dyn Journal>,
    ) -> Result<Self, Error> {
        let staged = Self::new(limits, account)?;
        let aside = journal.open_aside().map_err(not_stored)?;
        let written = Written {
            journal: Arc::clone(journal),
            aside,
            is_kept: false,
        };
        Ok(Self {
            written: Some(written),
            ..staged
        })
    }

    /// The state in the journal.
    pub(in crate::snapshot) fn aside(&self) -> Option<Aside> {
        self.written.as_ref().map(|written| written.aside)
    }

    /// The state, and what was done to it; the journal keeps its own.
    pub(in crate::snapshot) fn into_state(mut self) -> (State, Applied) {
        if let Some(written) = &mut self.written {
            written.is_kept = true;
        }
        self.state.footprint.move_to(Part::Objects);
        (self.state, self.applied)
    }

    /// Applies a batch to it.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when it would grow too large, and
    /// [`Error::NotStored`].
    pub fn apply(
        &mut self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        limits: &Limits,
    ) -> Result<Applied, Error> {
        let _room = check_room(&self.state, batch, limits)?;
        if let Some(Written { journal, aside, .. }) = &self.written {
            let written = journal.write_aside(*aside, batch.objects());
            written.map_err(not_stored)?;
        }
        self.batches += 1;
        let applied = self.state.apply(batch, None, self.batches);
        self.applied.add(applied);
        self.defaults = defaults.or(self.defaults.take());
        Ok(applied)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if !self.is_kept {
            self.journal.drop_aside(self.aside);
        }
    }
}

fn not_stored(refusal: Refusal) -> Error {
    Error::NotStored(refusal)
}

/// Whether a state may grow by so many changes that take so many bytes, whatever
/// they are.
pub(in crate::snapshot) fn is_roomy(
    state: &State,
    most: usize,
    bytes: usize,
    limits: &Limits,
) -> bool {
    let now = state.sizes();
    now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners
        && state.footprint.account().has_room(Part::Objects, bytes)
}

/// Checks that a state may grow by a batch; room in memory for it, to be held
/// until it is applied.
pub(in crate::snapshot) fn check_room(
    state: &State,
    batch: &Batch,
    limits: &Limits,
) -> Result<Charge, Error> {
    if !is_roomy(state, batch.len(), 0, limits) {
        check_counts(state, batch, limits)?;
    }
    let room = state.room_for(batch);
    Ok(room.inspect_err(|_| state.upkeep.note_want())?)
}

/// Checks that a state may have as many objects more.
fn check_counts(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let now = state.sizes();
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
