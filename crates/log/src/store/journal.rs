//! An open state directory, which is the journal of a registry: it is opened at the start and again
//! after a fault, and records entries.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::commit::{Asides, Transacted, write};
use super::disk::{Disk, Durability};
use super::error::{self, StoreError};
use super::file::{self, File};
use super::rows::{EncodedEntry, encode};
use evenkeel_core::snapshot::clock::Uptime;
use evenkeel_core::snapshot::commit::GroupCommit;
use evenkeel_core::snapshot::{self, Aside, Batch, Entry, Journal, JournalError};

/// The time between two writes of a store that buffers, while there is something to write.
const BUFFERED: Duration = Duration::from_secs(1);

/// The time after a fault in which updates are refused at once, before the disk is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// An open state directory.
pub struct Store {
    pub(super) directory: PathBuf,
    pub(super) durability: Durability,
    pub(super) counts: Arc<StoreCounts>,
    /// The group commit of callers that have something to write.
    pub(super) group_commit: GroupCommit<Transacted, Result<(), JournalError>>,
    pub(super) inner: Mutex<StoreState>,
    /// Staged states that were given up. They have a lock of their own, because giving one up must
    /// not wait for a disk.
    pub(super) given_up: Mutex<Vec<Aside>>,
    /// Tells how long the machine has been running.
    pub(super) uptime: Box<dyn Fn() -> Option<Uptime> + Send + Sync>,
}

pub(super) struct StoreState {
    /// `None` while the file cannot be opened after a fault.
    pub(super) file: Option<File>,
    /// True if the file records that this process has it open.
    pub(super) has_begun: bool,
    pub(super) asides: Asides,
    /// The time when the last transaction reached the file.
    pub(super) written_out: Instant,
    /// True if later transactions are only in memory.
    pub(super) is_buffered: bool,
    /// The time until which everything is refused after a fault, and the error.
    pub(super) paused: Option<(Instant, JournalError)>,
}

impl Store {
    /// The same store, which reads the machine's running time from `uptime`.
    #[must_use]
    pub fn with_uptime(self, uptime: impl Fn() -> Option<Uptime> + Send + Sync + 'static) -> Self {
        Self {
            uptime: Box::new(uptime),
            ..self
        }
    }

    /// Returns the counters of the store.
    pub fn counts(&self) -> &Arc<StoreCounts> {
        &self.counts
    }

    /// Writes everything out and closes the file. Nothing can be recorded afterwards.
    ///
    /// # Errors
    /// An error of the disk. The next start takes this for a crash.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut inner = self.inner.lock();
        inner.paused = Some((
            Instant::now() + Duration::from_secs(3_600),
            JournalError::Failed("it is closed".to_owned()),
        ));
        match inner.file.take() {
            Some(file) => file.end_session(&self.directory),
            None => Ok(()),
        }
    }

    /// Writes out the buffer of a store that buffers, and retries failed writes. It is meant to be
    /// called at a steady pace.
    pub fn tick(&self) {
        let inner = self.inner.lock();
        let due = inner.is_buffered && inner.written_out.elapsed() >= BUFFERED;
        drop(inner);
        if due || self.counts.trouble().is_some() {
            // The next caller that records something gets this error.
            let _ = self
                .group_commit
                .join(Transacted::WriteOut, |works| self.lead(works));
        }
    }

    fn encode(&self, entry: &Entry) -> EncodedEntry {
        let holds = !entry.held.is_empty();
        let now = holds.then(|| (self.uptime)()).flatten();
        EncodedEntry::of(entry, now.as_ref())
    }

    fn submit(&self, work: Transacted) -> Result<(), JournalError> {
        let done = self.group_commit.join(work, |works| self.lead(works));
        if done == Err(JournalError::NoSpace) {
            let refused = &self.counts.refused_for_space;
            refused.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Does the work of all waiting callers in one transaction.
    fn lead(&self, works: Vec<Transacted>) -> Vec<Result<(), JournalError>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if let Err(refusal) = self.ready(inner) {
            self.counts.note_trouble(Some(&refusal));
            return works.iter().map(|_| Err(refusal.clone())).collect();
        }
        for aside in std::mem::take(&mut *self.given_up.lock()) {
            if inner.asides.open.remove(&aside) {
                inner.asides.dropped.push(aside);
            }
        }
        let start = Instant::now();
        let buffers = match self.durability {
            Durability::None => inner.written_out.elapsed() < BUFFERED,
            Durability::Relaxed | Durability::Full => works
                .iter()
                .all(|work| matches!(work, Transacted::Aside(..))),
        };
        let file = inner.file.as_ref();
        let file = file.expect("a store that is ready has its file open");
        match write(file, &works, &mut inner.asides, buffers) {
            Ok(outcomes) => {
                inner.is_buffered = buffers;
                if !buffers {
                    inner.written_out = Instant::now();
                }
                self.counts.note_trouble(None);
                self.counts.note_commit(start.elapsed());
                outcomes
            }
            Err(error) => self.recover(inner, &works, &error),
        }
    }
}

impl Journal for Store {
    fn append(&self, entries: &[&Entry]) -> Result<(), JournalError> {
        let encoded = entries.iter().map(|entry| self.encode(entry));
        self.submit(Transacted::Entries(encoded.collect()))
    }

    fn open_aside(&self) -> Result<Aside, JournalError> {
        let mut inner = self.inner.lock();
        self.ready(&mut inner)?;
        let aside = Aside(inner.asides.next_number());
        inner.asides.open.insert(aside);
        Ok(aside)
    }

    fn write_aside(&self, aside: Aside, changes: &Batch) -> Result<(), JournalError> {
        let changes = encode(changes);
        self.submit(Transacted::Aside(aside, changes))
    }

    fn drop_aside(&self, aside: Aside) {
        self.given_up.lock().push(aside);
    }
}

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
            uptime: Box::new(snapshot::clock::uptime),
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

/// Counters of a store, for metrics.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Transactions committed.
    pub commits: AtomicU64,
    /// The total time of these commits in nanoseconds.
    pub commit_nanos: AtomicU64,
    /// Bytes of the state on the disk.
    pub bytes: AtomicU64,
    /// Calls that were refused because the disk was full.
    pub refused_for_space: AtomicU64,
    /// The time in nanoseconds that reading the state back took at the start.
    pub restore_nanos: AtomicU64,
    /// The reason why the store cannot write, while it cannot.
    trouble: Mutex<Option<JournalError>>,
}

impl StoreCounts {
    /// The reason why updates are refused; `None` while they are taken.
    pub fn trouble(&self) -> Option<JournalError> {
        self.trouble.lock().clone()
    }

    /// Records whether a write succeeded, and logs when that changes.
    pub(super) fn note_trouble(&self, trouble: Option<&JournalError>) {
        let before = std::mem::replace(&mut *self.trouble.lock(), trouble.cloned());
        match (before, trouble) {
            (None, Some(why)) => {
                tracing::error!(%why, "read-only: the state directory cannot be written");
            }
            (Some(_), None) => tracing::info!("the state directory is written again"),
            _ => {}
        }
    }

    pub(super) fn note_commit(&self, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_nanos.fetch_add(nanos(took), Ordering::Relaxed);
    }

    pub(super) fn note_restored(&self, took: Duration) {
        self.restore_nanos.store(nanos(took), Ordering::Relaxed);
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
