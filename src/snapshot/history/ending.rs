//! How reservations end that nobody ends: their time is over, or nobody was told of
//! them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::error::Error;
use super::named::Snapshot;
use super::offer::Job;
use crate::limits::Limits;
use crate::snapshot::clock::Moment;
use crate::snapshot::objects::reservation::Serial;

impl Snapshot {
    /// The reservations and answers that are to end at a moment, ascending: those whose
    /// time is over, and those that nobody was told of.
    pub(super) fn due(&self, now: Moment) -> Vec<Serial> {
        let book = self.book();
        let mut due = self.unclaimed.lock().made.clone();
        due.retain(|serial| book.holds(*serial));
        due.extend(book.expired(now));
        due.sort_unstable();
        due.dedup();
        due
    }

    /// Has reservations released in the background that nobody was told of.
    pub fn abandon(&self, ids: &[String]) {
        let serials = ids.iter().filter_map(|id| self.serial(id));
        self.unclaimed.lock().made.extend(serials);
        self.around.ends_changed.notify(usize::MAX);
    }

    /// Ends all reservations that are due at this moment, or that nobody was told of, in
    /// one entry, together with the batches of waiting callers. They count until that is recorded.
    /// It waits for the journal, so that readers need not.
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
            // Read under the lock: none can be added that it does not have yet.
            let book = self.book();
            unclaimed.made.retain(|serial| book.holds(*serial));
        }
        ended
    }

    /// Returns how long it is until the time of a reservation is over; nothing when it
    /// is already. `None` when nothing is held.
    pub fn until_next_end(&self) -> Option<Duration> {
        if !self.unclaimed.lock().made.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = Moment::of_number(self.next_expiry.load(Ordering::Acquire));
        (next != Moment::NEVER).then(|| next.since(self.now().steady))
    }
}
