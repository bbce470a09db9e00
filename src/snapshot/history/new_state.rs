//! A state that somebody else decided on, made here.

use std::sync::Arc;

use crate::account::{Account, Part};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::state::shards::State;

/// A state that nobody reads yet, of objects that were accepted elsewhere.
pub struct NewState(pub(super) State);

impl NewState {
    /// An empty one, whose views may take this many bytes.
    pub(super) fn new(account: &Arc<Account>, max_view_bytes: usize) -> Self {
        Self(State::on(account, Part::Objects, max_view_bytes))
    }

    /// Adds objects. Limits do not apply: they were kept where these came.
    pub fn add(&self, batch: &Batch) {
        self.0.apply_unread(batch, 0);
    }
}
