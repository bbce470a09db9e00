//! Opens the file of a store: at the start, and again after a fault.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::commit::{Asides, Transacted};
use super::counts::StoreCounts;
use super::disk::{Disk, Durability};
use super::error::{self, StoreError};
use super::file::{self, File};
use super::journal::{PAUSE, Store, StoreState};
use evenkeel_core::snapshot::{self, GroupCommit, JournalError};

impl Store {
    /// Opens a state directory, creates it if it does not exist, and locks it.
    ///
    /// # Errors
    /// [`StoreError`]; a damaged directory is never treated as an empty one.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, StoreError> {
        file::prepare(directory)?;
        let store = Self {
            directory: directory.to_owned(),
            durability,
            counts: Arc::new(StoreCounts::default()),
            group_commit: GroupCommit::default(),
            inner: Mutex::new(StoreState {
                file: None,
                has_begun: false,
                asides: Asides {
                    open: HashSet::new(),
                    dropped: Vec::new(),
                    next: 1,
                },
                written_out: Instant::now(),
                is_buffered: false,
                paused: None,
            }),
            given_up: Mutex::default(),
            uptime: Box::new(snapshot::uptime),
        };
        store.open_file(&mut store.inner.lock())?;
        Ok(store)
    }

    /// Opens the file, at the start or again after a fault.
    fn open_file(&self, inner: &mut StoreState) -> Result<(), StoreError> {
        let disk = Disk::open(&self.directory, self.durability, &self.counts)?;
        let file = File::open(&self.directory, disk)?;
        let failed = StoreError::redb(&self.directory);
        if !inner.has_begun {
            file.begin_session(self.durability).map_err(&failed)?;
            inner.has_begun = true;
        }
        let next = file.next_aside().map_err(&failed)?;
        inner.asides.next = inner.asides.next.max(next);
        inner.file = Some(file);
        Ok(())
    }

    /// Makes sure that the file is open. For a short time after a fault it
    /// refuses.
    pub(super) fn ready(&self, inner: &mut StoreState) -> Result<(), JournalError> {
        match &inner.paused {
            Some((until, refusal)) if Instant::now() < *until => return Err(refusal.clone()),
            _ => inner.paused = None,
        }
        if inner.file.is_none() {
            self.reopen(inner)?;
        }
        Ok(())
    }

    /// Finds out after a fault which entries the file contains. Each write is there as a whole or
    /// not at all.
    pub(super) fn recover(
        &self,
        inner: &mut StoreState,
        works: &[Transacted],
        error: &redb::Error,
    ) -> Vec<Result<(), JournalError>> {
        let refusal = error::refusal(error);
        tracing::error!(error = %error, "the state directory cannot be written");
        self.counts.note_trouble(Some(&refusal));
        inner.file = None;
        let reopened = self.reopen(inner);
        let outcome = |work: &Transacted| match (&inner.file, work) {
            (Some(file), Transacted::Entries(entries))
                if reopened.is_ok() && file.holds(entries) =>
            {
                Ok(())
            }
            _ => Err(refusal.clone()),
        };
        let outcomes: Vec<_> = works.iter().map(outcome).collect();
        inner.paused = Some((Instant::now() + PAUSE, refusal));
        outcomes
    }

    /// Opens the file again. Unfinished states aside are lost.
    fn reopen(&self, inner: &mut StoreState) -> Result<(), JournalError> {
        inner.asides.open.clear();
        inner.asides.dropped.clear();
        let opened = self.open_file(inner).map_err(|error| error.refusal());
        match &opened {
            Ok(()) => tracing::warn!("the state directory is open again after a fault"),
            Err(refusal) => inner.paused = Some((Instant::now() + PAUSE, refusal.clone())),
        }
        opened
    }
}
