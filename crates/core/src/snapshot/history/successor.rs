//! A snapshot that is built beside the current one of its name, which answers meanwhile.

use std::sync::Arc;

use super::following::follow;
use super::journal::{OwnedEntry, Restoring, Whole};
use super::named::{Snapshot, Surroundings};
use super::observer::Unobserved;
use super::registry::Registry;
use super::turn::WriteTurn;

/// An unpublished snapshot. [`Registry::supersede`] replaces the current one of its name by it.
pub struct Successor {
    /// The snapshot, with the services of the registry except its observer.
    snapshot: Snapshot,
}

impl Successor {
    /// Begins with the next snapshot of the name: this one is over.
    pub fn begin_again(&mut self) {
        let (name, expected) = (self.snapshot.name(), self.snapshot.is_expected());
        self.snapshot = Snapshot::new(name, expected, Arc::clone(&self.snapshot.around));
    }

    /// Applies entries. An entry that ends the snapshot is the last one.
    ///
    /// # Errors
    /// The reason why an entry does not fit. Then the successor is useless.
    pub fn apply(&mut self, entries: Vec<OwnedEntry>) -> Result<(), String> {
        let mut turn = WriteTurn::take(&self.snapshot);
        follow(&mut turn, entries)?;
        let is_over = turn.position.deleted;
        drop(turn);
        if is_over {
            self.begin_again();
        }
        Ok(())
    }

    /// A copy of everything; `None` where there is no snapshot.
    pub fn whole(&self) -> Option<Whole> {
        self.has_begun()
            .then(|| WriteTurn::take(&self.snapshot).whole())
    }

    fn has_begun(&self) -> bool {
        !self.snapshot.epoch().is_empty()
    }
}

impl Registry {
    /// Begins a snapshot that is built beside the one of this name: from a restored one, or without
    /// any history.
    pub fn successor(&self, name: &str, restoring: Option<Restoring>) -> Successor {
        let expected = self.expected.read().contains(name);
        let around = Arc::new(Surroundings {
            observer: Arc::new(Unobserved),
            ..Surroundings::clone(&self.around)
        });
        let snapshot = match restoring {
            Some(restoring) => Snapshot::restored(restoring, expected, around),
            None => Snapshot::new(name, expected, around),
        };
        Successor { snapshot }
    }

    /// Replaces the snapshot of its name, which is over. `then` is called before the old or the new
    /// snapshot can change.
    pub fn supersede(&self, successor: Successor, then: impl FnOnce()) {
        let has_begun = successor.has_begun();
        let mut snapshot = successor.snapshot;
        snapshot.around = Arc::clone(&self.around);
        let (name, synced) = (snapshot.name().to_owned(), snapshot.is_synced());
        let snapshot = Arc::new(snapshot);
        let old = self.get(&name).ok();
        let turn = old.as_deref().map(WriteTurn::take);
        let own = WriteTurn::take(&snapshot);
        if has_begun {
            self.snapshots.insert(name.clone(), Arc::clone(&snapshot));
            self.around.observer.snapshot_changed(&name, synced);
        }
        then();
        drop(own);
        if let Some(mut turn) = turn.filter(|turn| has_begun || !turn.snapshot.epoch().is_empty()) {
            turn.position.deleted = true;
            match has_begun {
                true => turn.snapshot.note_replaced(),
                false => turn.snapshot.note_deleted(),
            }
        }
        if let Some(old) = old.filter(|old| !has_begun && !old.epoch().is_empty()) {
            self.remove(&old);
        }
    }
}
