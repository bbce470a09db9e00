//! Ends reservations without a request: their time is over, or their caller was never told of them.

use std::time::Duration;

use super::error::Error;
use super::named::Snapshot;
use super::offer::Job;
use crate::limits::Limits;
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::reservation::Serial;

impl Snapshot {
    /// The reservations and answers that are to end at a moment, ascending: those whose time is
    /// over, and those whose caller was never told.
    pub(super) fn due(&self, now: Moment) -> Vec<Serial> {
        let state = self.state();
        let reservations = &state.reservations;
        let mut due = self.unclaimed.lock().made.clone();
        due.retain(|serial| reservations.holds(*serial));
        due.extend(reservations.expired(now));
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Releases reservations in the background whose caller was never told of them.
    pub fn abandon(&self, ids: &[String]) {
        let serials = ids.iter().filter_map(|id| self.serial(id));
        self.unclaimed.lock().made.extend(serials);
        self.around.ends_changed.notify(usize::MAX);
    }

    /// Ends all reservations that are due at this moment, or whose caller was never told, in one
    /// entry, together with the batches of waiting callers. They count until the entry is recorded.
    /// This call waits for the journal, so that readers need not.
    ///
    /// # Errors
    /// [`Error::NotStored`]. Then they still count.
    pub fn end_expired(&self, limits: &Limits) -> Result<(), Error> {
        if self.until_next_end() != Some(Duration::ZERO) {
            return Ok(());
        }
        let outcomes = self.commit(Job::Ends, limits);
        let mut outcomes = outcomes.into_iter().flatten();
        let ended = outcomes.try_for_each(|outcome| outcome.map(drop));
        let mut unclaimed = self.unclaimed.lock();
        if !unclaimed.made.is_empty() {
            // The state is read under the lock of `unclaimed`, so it has every reservation that
            // `made` can have.
            let state = self.state();
            unclaimed
                .made
                .retain(|serial| state.reservations.holds(*serial));
        }
        ended
    }

    /// Returns the time until the next reservation ends; zero when its time is already over. `None`
    /// when there are none.
    pub fn until_next_end(&self) -> Option<Duration> {
        if !self.unclaimed.lock().made.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = self.state().reservations.next_expiry()?;
        Some(next.since(self.now().steady))
    }
}
