//! The state directory of a replica.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;

use super::track::CheckpointRow;
use crate::store::{Store, StoredSnapshot};
use evenkeel_core::snapshot::{Change, Journal, JournalError, Whole};

/// A state directory beside the log.
pub struct Local {
    pub store: Arc<Store>,
    /// Snapshots that the directory has only in part: they are written whole before it takes their
    /// records again.
    pub behind: Mutex<HashSet<String>>,
    /// The restored snapshots, until their logs are followed.
    pub found: Mutex<Vec<FoundSnapshot>>,
}

/// A snapshot of the directory that its log continues.
pub struct FoundSnapshot {
    pub stored: StoredSnapshot,
    /// Its place in the log.
    pub place: CheckpointRow,
    /// The time that has passed since its last record.
    pub age: Duration,
}

impl Local {
    /// Returns whether the directory has a snapshot only in part.
    pub fn is_behind(&self, snapshot: &str) -> bool {
        self.behind.lock().contains(snapshot)
    }

    /// Notes that a snapshot has to be written whole before any more of its records.
    pub fn note_behind(&self, snapshot: &str) {
        self.behind.lock().insert(snapshot.to_owned());
    }

    /// Writes a snapshot whole, as it is at a place of its log.
    pub fn rewrite(&self, whole: &Whole, place: &CheckpointRow) -> Result<(), JournalError> {
        let aside = self.store.open_aside()?;
        let write = || {
            for batch in whole.state.batches() {
                self.store.write_aside(aside, &batch)?;
            }
            let entry = whole.saved.entry(Change::Rewritten(aside));
            self.store.append_at(&[entry], place.encode_to_vec())
        };
        write().inspect_err(|_| self.store.drop_aside(aside))
    }
}
