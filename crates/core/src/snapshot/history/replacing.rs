//! Replaces the live state by one that a client built aside.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::journal::OwnedChange;
use super::named::Snapshot;
use super::offer::{FeedSign, Fence, Update, check_revision};
use super::staged::Staged;
use super::turn::WriteTurn;
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
        new: &Staged,
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
            entry.change = OwnedChange::Replaced(Box::new(new.new.clone()));
            let feed = FeedSign {
                arrived,
                age: Duration::ZERO,
            };
            turn.change(entry, at, Some(feed))
        })
    }
}
