//! An open state directory, which is the journal of a registry.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::commit::{Asides, Transacted, write};
use super::counts::StoreCounts;
use super::disk::Durability;
use super::error::StoreError;
use super::file::File;
use super::objects;
use super::rows::EncodedEntry;
use evenkeel_core::snapshot::{Aside, Batch, Entry, GroupCommit, Journal, JournalError, Uptime};

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

    fn encode(&self, entry: &Entry<'_>) -> EncodedEntry {
        let holds = !(entry.held.is_empty() && entry.answers.is_empty());
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
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), JournalError> {
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
        let changes = objects::encode(changes);
        self.submit(Transacted::Aside(aside, changes))
    }

    fn drop_aside(&self, aside: Aside) {
        self.given_up.lock().push(aside);
    }
}
