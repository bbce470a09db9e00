//! Replaces the live state by another: one that a client built aside, or one made of the live
//! state's own objects.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::journal::{Change, OwnedChange};
use super::named::Snapshot;
use super::offer::{FeedSign, Fence, Update, check_revision};
use super::staged::Staged;
use super::turn::{RecordedStep, WriteTurn};
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::defaults::Defaults;

impl Snapshot {
    /// Puts a new state in place. `None` when the snapshot was deleted
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::RevisionMismatch`], [`Error::OtherCluster`],
    /// [`Error::Contended`] and [`Error::NotStored`].
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
            let at = self.now();
            let before = turn.live.revision;
            check_revision(self.name(), before, expected_revision)?;
            let new = staged.as_ref().expect("a state is swapped in once");
            let other = |other| Error::OtherCluster(self.name().to_owned(), other);
            let read = turn.live.resource_versions();
            let read = read.replaced_by(&new.resource_versions).map_err(other)?;
            let constraints = new.defaults.clone().or_else(|| Defaults::first(before));
            let known = turn.live.defaults();
            let defaults = known.after(constraints.as_ref(), new.version, &read);
            let mut entry = turn.entry();
            entry.after.revision = before + 1;
            entry.after.updated = at.wall;
            entry.after.synced = true;
            entry.after.defaults = Some(defaults.unwrap_or_else(|| Arc::clone(known)));
            entry.after.resource_versions = Some(Arc::new(read));
            let confirmed = turn.live.reservations.confirmed();
            entry.ended = new.new.state.arrived(confirmed);
            if let Some(aside) = new.aside() {
                turn.record_as(&mut [&mut entry], |_| Change::Replaced(aside))?;
            }
            let new = staged.take().expect("it was there");
            entry.change = OwnedChange::Replaced(Box::new(new.into_new()));
            let feed = Some(FeedSign {
                arrived,
                age: Duration::ZERO,
            });
            let mut updates = turn.apply([RecordedStep::own(entry, at, feed)]);
            Ok(updates.pop().expect("each entry has an update"))
        })
    }

    /// Rebuilds the live state from its nodes, pods, owners and reservations, at the same revision,
    /// when its counts have drifted. Changes wait, decisions read the old state. `false` when the
    /// snapshot was deleted.
    pub fn rebuild(&self) -> bool {
        let Some(mut turn) = WriteTurn::take_unless_deleted(self) else {
            return false;
        };
        let mut fresh = self.around.empty_state();
        for batch in turn.live.batches() {
            fresh.apply(&batch, 0);
        }
        fresh.reservations = turn.live.reservations.clone();
        fresh.add_reserved_pods();
        let defaults = Arc::clone(turn.live.defaults());
        fresh.adopt(turn.live.revision, defaults, &turn.live);
        fresh.resource_versions = Arc::clone(turn.live.resource_versions());
        turn.publish(fresh);
        true
    }
}
