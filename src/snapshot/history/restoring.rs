//! How a snapshot comes back from a journal.

use std::sync::Arc;

use super::journal::Saved;
use super::registry::Registry;
use crate::account::Part;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::shards::State;

/// A snapshot that is read back.
#[derive(Debug)]
pub struct Restoring {
    pub(in crate::snapshot) saved: Saved,
    pub(in crate::snapshot) state: State,
}

impl Restoring {
    /// One without objects yet, of a registry to be.
    pub fn new(saved: Saved, registry: &Registry) -> Self {
        let max_view_bytes = registry.limits().max_view_bytes;
        Self {
            saved,
            state: State::on(registry.account(), Part::Objects, max_view_bytes),
        }
    }

    /// Adds objects. Limits do not apply: they were kept when these came.
    pub fn add(&self, batch: &Batch) {
        self.state.apply(batch, None, 0);
    }

    /// Gives the state its place in the history, and what reservations hold.
    pub(in crate::snapshot) fn finish(&mut self, reserved: &Batch) {
        self.state.apply(reserved, None, 0);
        let defaults = Arc::new(self.saved.defaults.clone());
        self.state.adopt(self.saved.revision, defaults);
    }
}
