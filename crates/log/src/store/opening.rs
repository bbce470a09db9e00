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
use super::file::{self, File, FileLocation};
use super::journal::{PAUSE, Store, StoreState};
use super::last_commit::LastCommit;
use evenkeel_core::snapshot::{self, GroupCommit, JournalError};

impl Store {
    /// Opens a state directory, creates it if it does not exist, and locks it.
    /// When the disk is full, the store reads the file as it is, and refuses to
    /// record anything until there is room.
    ///
    /// # Errors
    /// [`StoreError`]; a damaged directory is never treated as an empty one.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, StoreError> {
        file::prepare(directory)?;
        let last_commit = LastCommit::open(directory)?;
        let place = FileLocation::of(directory).map_err(StoreError::io(directory))?;
        let store = Self {
            directory: directory.to_owned(),
            durability,
            counts: Arc::new(StoreCounts::default()),
            group_commit: GroupCommit::default(),
            inner: Mutex::new(StoreState {
                file: None,
                unwritten: None,
                has_begun: false,
                place,
                last_commit,
                number: 0,
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
        store.open_first()?;
        Ok(store)
    }

    /// Turns the state of servers that share a log into that of a single server without one.
    ///
    /// # Errors
    /// [`StoreError`] if the state cannot be written.
    pub fn leave_log(&self) -> Result<(), StoreError> {
        let inner = self.inner.lock();
        let file = inner.file.as_ref().or(inner.unwritten.as_ref());
        let left = file.map_or(Ok(()), File::leave_log);
        left.map_err(StoreError::redb(&self.directory))
    }

    /// Opens the file, or reads it as it is when the disk is full.
    fn open_first(&self) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        let Err(error) = self.open_file(&mut inner) else {
            return Ok(());
        };
        let refusal = error.refusal();
        if refusal != JournalError::NoSpace {
            return Err(error);
        }
        let disk = Disk::open_unwritten(&self.directory, &self.counts)?;
        let file = File::open(&self.directory, disk)?;
        // New epochs begin as in a file that can be written.
        let noted = inner.last_commit.noted(&self.directory)?;
        let begun = file.begin_session(self.durability, noted);
        let (_, loss) = begun.map_err(StoreError::redb(&self.directory))?;
        if let Some(loss) = loss {
            self.counts.note_loss(loss);
        }
        self.counts.note_trouble(Some(&refusal));
        inner.unwritten = Some(file);
        inner.paused = Some((Instant::now() + PAUSE, refusal));
        Ok(())
    }

    /// Opens the file, which must still be the first one, and checks that it has every commit that
    /// the record beside it names.
    fn open_file(&self, inner: &mut StoreState) -> Result<(), StoreError> {
        let disk = Disk::open(&self.directory, self.durability, &self.counts)?;
        let file = File::open(&self.directory, disk)?;
        let noted = inner.last_commit.noted(&self.directory)?;
        let failed = StoreError::redb(&self.directory);
        if inner.has_begun {
            inner.number = file.number().map_err(&failed)?.max(noted).unwrap_or(0);
            // Commits that the file has lost are still in memory, and are rewritten with the next
            // entry. Until then the file must not count as complete.
            if let Some(loss) = file.renew_if_lost(noted).map_err(&failed)? {
                tracing::error!(%loss, "the state directory lost commits");
                self.counts.note_loss(loss);
            }
        } else {
            if noted.is_none() && file.number().map_err(&failed)?.is_none() {
                // The file is new. The record has to be on the disk before the first number is.
                let first = inner.last_commit.note(0);
                let first = first.and_then(|()| inner.last_commit.sync());
                first.map_err(StoreError::io(&self.directory))?;
            }
            let begun = file.begin_session(self.durability, noted);
            let (number, loss) = begun.map_err(&failed)?;
            inner.number = number;
            inner.has_begun = true;
            inner.note_commit();
            if let Some(loss) = loss {
                self.counts.note_loss(loss);
            }
        }
        let next = file.next_aside().map_err(&failed)?;
        inner.asides.next = inner.asides.next.max(next);
        inner.file = Some(file);
        inner.unwritten = None;
        Ok(())
    }

    /// Makes sure that the file is open and in its place. For a short time after a fault it
    /// refuses.
    pub(super) fn ready(&self, inner: &mut StoreState) -> Result<(), JournalError> {
        match &inner.paused {
            Some((until, refusal)) if Instant::now() < *until => return Err(refusal.clone()),
            _ => inner.paused = None,
        }
        if !inner.place.is_kept() {
            return Err(JournalError::Gone);
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
        let reopened = match inner.place.is_kept() {
            true => self.reopen(inner),
            false => Err(JournalError::Gone),
        };
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

impl StoreState {
    /// Records the last commit, which is in the file. A commit that cannot be recorded still
    /// counts; then the record is behind.
    pub(super) fn note_commit(&self) {
        if let Err(error) = self.last_commit.note(self.number) {
            tracing::warn!(%error, "the last commit cannot be noted");
        }
    }
}
