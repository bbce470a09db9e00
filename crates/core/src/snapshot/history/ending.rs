//! Ends reservations whose time is over.

use std::time::Duration;

use super::error::Error;
use super::named::Snapshot;
use super::offer::Job;
use crate::limits::Limits;

impl Snapshot {
    /// Ends all reservations whose time is over, in one entry, together with the batches of waiting
    /// callers. They count until the entry is recorded. This call waits for the journal, so that
    /// readers need not.
    ///
    /// # Errors
    /// [`Error::NotStored`]. Then they still count.
    pub fn end_expired(&self, limits: &Limits) -> Result<(), Error> {
        if self.until_next_end() != Some(Duration::ZERO) {
            return Ok(());
        }
        let outcomes = self.commit(Job::Ends, limits);
        let mut outcomes = outcomes.into_iter().flatten();
        outcomes.try_for_each(|outcome| outcome.map(drop))
    }

    /// Returns the time until the next reservation ends; zero when its time is already over. `None`
    /// when there are none.
    pub fn until_next_end(&self) -> Option<Duration> {
        let next = self.state().reservations.next_expiry()?;
        Some(next.since(self.now().steady))
    }
}
