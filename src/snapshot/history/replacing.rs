//! Replaces the live state by another: one that a client built aside, or one made of the live
//! state's own objects.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::journal::{Change, Entry};
use super::named::Snapshot;
use super::offer::{Fence, Update, check_revision};
use super::staged::Staged;
use super::turn::WriteTurn;
use crate::snapshot::clock::Moment;
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::reservation::Serial;
use crate::snapshot::state::shards::State;

impl Snapshot {
    /// Puts a new state in place. `None` when the snapshot was deleted
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::RevisionMismatch`], [`Error::Contended`] and
    /// [`Error::NotStored`].
    pub(super) fn replace(
        &self,
        staged: &mut Option<Staged>,
        (expected_revision, fence): (Option<i64>, Option<&Fence>),
        arrived: Moment,
    ) -> Result<Option<Update>, Error> {
        let Some(mut turn) = WriteTurn::take_unless_deleted(self) else {
            return Ok(None);
        };
        turn.attempt(|turn| {
            Fence::check(fence, self.name())?;
            let now = self.now();
            let before = turn.live.revision();
            check_revision(self.name(), before, expected_revision)?;
            let new = staged.as_ref().expect("a state is swapped in once");
            let revision = before + 1;
            let constraints = new.defaults.clone().or_else(|| Defaults::first(before));
            let known = turn.live.defaults();
            let defaults = known.after(constraints.as_ref(), new.version, &new.resource_versions);
            let defaults = defaults.unwrap_or(known);
            let read = Arc::clone(&new.resource_versions);
            let taken = new.state.arrived(self.reservation_table().confirmed());
            if let Some(aside) = new.aside() {
                turn.record(vec![Entry {
                    revision,
                    updated: now.wall,
                    synced: true,
                    change: Change::Replaced(aside),
                    defaults: Some(&defaults),
                    resource_versions: Some(&read),
                    ended: &taken,
                    ..turn.entry()
                }])?;
            }
            let new = staged.take().expect("it was there");
            let (state, applied) = new.into_state();
            swap_in(turn, state, (revision, defaults), &taken);
            self.forget(&taken);
            self.read_up_to(read);
            counters::add(&self.around.counters.replaces, 1);
            self.fed(now, arrived, Duration::ZERO);
            Ok(self.moved_on(revision, applied, true))
        })
    }

    /// Rebuilds the live state from its nodes, pods, owners and reservations,
    /// at the same revision, when its counts have drifted. Batches wait,
    /// decisions continue on the old state. `false` when the snapshot was
    /// deleted.
    pub fn rebuild(&self) -> bool {
        let Some(mut turn) = WriteTurn::take_unless_deleted(self) else {
            return false;
        };
        let frozen = turn.live.freeze(&turn.position);
        let fresh = self.around.empty_state();
        for batch in frozen.batches() {
            fresh.apply_unread(&batch, 0);
        }
        let place = (turn.live.revision(), turn.live.defaults());
        swap_in(&mut turn, fresh, place, &[]);
        true
    }
}

/// Replaces the live state by a new one. The new state gets the reservations, except those that its
/// pods take over.
pub(super) fn swap_in(
    turn: &mut WriteTurn<'_>,
    mut state: State,
    (revision, defaults): (i64, Arc<Defaults>),
    taken: &[Serial],
) {
    let snapshot = turn.snapshot;
    let reservations = snapshot.reservation_table();
    let mut held = reservations.serials();
    held.retain(|serial| taken.binary_search(serial).is_err());
    state.apply_unread(&Batch::trusted(reservations.pods(&held)), 0);
    state.adopt(revision, defaults, Some(&turn.live));
    state.upkeep.counters = Arc::clone(&snapshot.around.counters);
    counters::add(
        &snapshot.around.counters.views_dropped,
        turn.live.upkeep.view_count(),
    );
    turn.live = snapshot.put_live(state);
}
