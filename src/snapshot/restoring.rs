//! How a snapshot comes back from a journal.

use std::sync::Arc;

use super::change::Batch;
use super::journal::Saved;
use super::limits::Limits;
use super::state::State;

/// A snapshot that is read back.
#[derive(Debug)]
pub struct Restoring {
    pub(super) saved: Saved,
    pub(super) state: State,
}

impl Restoring {
    /// One without objects yet.
    pub fn new(saved: Saved, limits: &Limits) -> Self {
        Self {
            saved,
            state: State::new(limits.max_view_bytes),
        }
    }

    /// Adds objects. Limits do not apply: they were kept when these came.
    pub fn add(&self, batch: &Batch) {
        self.state.apply(batch, None, 0);
    }

    /// Gives the state its place in the history, and what reservations hold.
    pub(super) fn finish(&mut self, reserved: &Batch) {
        self.state.apply(reserved, None, 0);
        let defaults = Arc::new(self.saved.defaults.clone());
        self.state.adopt(self.saved.revision, defaults);
    }
}
