//! How a snapshot comes back from a journal.

use std::sync::Arc;

use super::journal::SavedSnapshot;
use crate::account::{Account, Part};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::shards::State;

/// A snapshot that is read back.
#[derive(Debug)]
pub struct Restoring {
    pub(super) saved: SavedSnapshot,
    pub(super) state: State,
}

impl Restoring {
    /// One without objects yet, whose views may take this many bytes.
    pub(super) fn new(saved: SavedSnapshot, account: &Arc<Account>, max_view_bytes: usize) -> Self {
        Self {
            saved,
            state: State::on(account, Part::Objects, max_view_bytes),
        }
    }

    /// Adds objects. Limits do not apply: they were kept when these came.
    pub fn add(&self, batch: &Batch) {
        self.state.apply_unread(batch, 0);
    }

    /// Gives the state its place in the history, and what reservations hold.
    pub(super) fn finish(&mut self, reserved: &Batch) {
        self.state.apply_unread(reserved, 0);
        let defaults = self.saved.defaults.take().unwrap_or_default();
        self.state.adopt(self.saved.revision, defaults);
    }
}
