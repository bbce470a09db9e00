//! The state directory: what servers remember across restarts.
//!
//! [`Store`] is the [`Journal`] of a registry. It
//! keeps the objects of each snapshot by key in one file of `redb`, an
//! embedded store whose transactions are whole or not at all. Every group of
//! entries is a transaction.

mod commit;
mod counts;
mod disk;
mod error;
mod file;
mod inspect;
mod objects;
mod pending;
mod restore;
mod rows;
mod salvage;
mod session;
mod tables;

pub use counts::{Counts, Figures};
pub use error::Error;
pub use file::FILE;
pub use inspect::{Described, check, show};
pub use restore::Progress;
pub use salvage::{Repaired, repair};

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::proto::v1::change::Object;
use crate::snapshot::{Aside, Convoy, Entry, Journal, Refusal};

use commit::{Asides, Work, write};
use disk::Disk;
use file::File;
use rows::Encoded;

/// What an acknowledged update survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Durability {
    /// A stop of the server. The store writes when it sees fit, at least once
    /// a second: a killed process may lose that much.
    None,
    /// A killed process, but not a power cut: the system writes when it sees
    /// fit.
    Relaxed,
    /// A power cut: an update is on the disk before it is acknowledged.
    Full,
}

/// How often a store that buffers writes, while there is something to write.
const BUFFERED: Duration = Duration::from_secs(1);

/// How long updates are refused at once after a fault, before the disk is
/// tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// An open state directory.
pub struct Store {
    directory: PathBuf,
    durability: Durability,
    counts: Arc<Counts>,
    /// Where those wait who have something to write.
    convoy: Convoy<Work, Result<(), Refusal>>,
    inner: Mutex<Inner>,
    /// States aside that were given up. Apart from the rest, because whoever
    /// gives one up must not wait for a disk.
    given_up: Mutex<Vec<Aside>>,
}

struct Inner {
    /// None while the file could not be opened again after a fault.
    file: Option<File>,
    asides: Asides,
    /// When the last transaction was written out.
    written_out: Instant,
    /// Whether there are later ones.
    is_buffered: bool,
    /// Why and until when everything is refused after a fault.
    paused: Option<(Instant, Refusal)>,
}

impl Store {
    /// Opens a state directory, which is created if need be, and keeps others
    /// out of it.
    ///
    /// # Errors
    /// [`Error`]; it is never taken for an empty one.
    pub fn open(directory: &Path, durability: Durability) -> Result<Self, Error> {
        file::prepare(directory)?;
        let counts = Arc::new(Counts::default());
        let disk = Disk::open(directory, durability, &counts)?;
        let file = File::open(directory, disk)?;
        let begun = file.begin_session(durability);
        let next = begun.and_then(|()| file.next_aside());
        let next = next.map_err(|error| file::error(directory, error))?;
        Ok(Self {
            directory: directory.to_owned(),
            durability,
            counts,
            convoy: Convoy::default(),
            inner: Mutex::new(Inner {
                file: Some(file),
                asides: Asides {
                    open: HashSet::new(),
                    dropped: Vec::new(),
                    next,
                },
                written_out: Instant::now(),
                is_buffered: false,
                paused: None,
            }),
            given_up: Mutex::default(),
        })
    }

    /// What it has done so far, and how much it holds.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Writes everything out and closes the file. Nothing can be recorded any
    /// more.
    ///
    /// # Errors
    /// When the disk fails; the next start takes it for a crash then.
    pub fn close(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        let Some(file) = inner.file.take() else {
            return Ok(());
        };
        inner.paused = Some((
            Instant::now() + Duration::from_secs(3_600),
            Refusal::Failed("it is closed".to_owned()),
        ));
        file.end_session(&self.directory)
    }

    /// Writes out what a store that buffers has not written yet. Meant to be
    /// called at a steady pace.
    pub fn tick(&self) {
        let inner = self.inner.lock();
        let due = inner.is_buffered && inner.written_out.elapsed() >= BUFFERED;
        drop(inner);
        if due {
            // What fails now is told to whoever records something next.
            let _ = self.convoy.join(Work::WriteOut, |works| self.lead(works));
        }
    }

    fn submit(&self, work: Work) -> Result<(), Refusal> {
        let done = self.convoy.join(work, |works| self.lead(works));
        if done == Err(Refusal::NoSpace) {
            self.counts.note_refused();
        }
        done
    }

    /// Does the work of all who wait, in one transaction.
    fn lead(&self, works: Vec<Work>) -> Vec<Result<(), Refusal>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if let Err(refusal) = self.ready(inner) {
            return works.iter().map(|_| Err(refusal.clone())).collect();
        }
        for aside in std::mem::take(&mut *self.given_up.lock()) {
            if inner.asides.open.remove(&aside) {
                inner.asides.dropped.push(aside);
            }
        }
        let start = Instant::now();
        let Inner {
            file: Some(file),
            asides,
            ..
        } = inner
        else {
            unreachable!("a store that is ready has its file open");
        };
        let buffers = match self.durability {
            Durability::None => inner.written_out.elapsed() < BUFFERED,
            Durability::Relaxed | Durability::Full => works.iter().all(Work::is_aside),
        };
        match write(file, &works, asides, buffers) {
            Ok(outcomes) => {
                inner.is_buffered = buffers;
                if !buffers {
                    inner.written_out = Instant::now();
                }
                self.counts.note_commit(start.elapsed());
                outcomes
            }
            Err(error) => self.recover(inner, &works, &error),
        }
    }

    /// Makes sure that the file is open, unless a fault is too fresh.
    fn ready(&self, inner: &mut Inner) -> Result<(), Refusal> {
        match &inner.paused {
            Some((until, refusal)) if Instant::now() < *until => return Err(refusal.clone()),
            _ => inner.paused = None,
        }
        if inner.file.is_none() {
            self.reopen(inner)?;
        }
        Ok(())
    }

    /// After a fault: finds out what the file holds now. What was to be
    /// written is there as a whole or not at all.
    fn recover(
        &self,
        inner: &mut Inner,
        works: &[Work],
        error: &redb::Error,
    ) -> Vec<Result<(), Refusal>> {
        let refusal = error::refusal(error);
        tracing::error!(error = %error, "the state directory cannot be written");
        inner.file = None;
        let reopened = self.reopen(inner);
        let outcome = |work: &Work| match (&inner.file, work) {
            (Some(file), Work::Entries(entries)) if reopened.is_ok() && file.holds(entries) => {
                Ok(())
            }
            _ => Err(refusal.clone()),
        };
        let outcomes: Vec<_> = works.iter().map(outcome).collect();
        inner.paused = Some((Instant::now() + PAUSE, refusal));
        outcomes
    }

    /// Opens the file again. States aside that were not finished are lost.
    fn reopen(&self, inner: &mut Inner) -> Result<(), Refusal> {
        inner.asides.open.clear();
        inner.asides.dropped.clear();
        let opened = Disk::open(&self.directory, self.durability, &self.counts)
            .and_then(|disk| File::open(&self.directory, disk));
        match opened {
            Ok(file) => {
                tracing::warn!("the state directory is open again after a fault");
                inner.file = Some(file);
                Ok(())
            }
            Err(error) => {
                let refusal = error.refusal();
                inner.paused = Some((Instant::now() + PAUSE, refusal.clone()));
                Err(refusal)
            }
        }
    }
}

impl Journal for Store {
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), Refusal> {
        let encoded = entries.iter().map(Encoded::of).collect();
        self.submit(Work::Entries(encoded))
    }

    fn open_aside(&self) -> Result<Aside, Refusal> {
        let mut inner = self.inner.lock();
        self.ready(&mut inner)?;
        let aside = Aside(inner.asides.next_number());
        inner.asides.open.insert(aside);
        Ok(aside)
    }

    fn write_aside(&self, aside: Aside, objects: &[Object]) -> Result<(), Refusal> {
        self.submit(Work::Aside(aside, objects::encode(objects)))
    }

    fn drop_aside(&self, aside: Aside) {
        self.given_up.lock().push(aside);
    }
}
