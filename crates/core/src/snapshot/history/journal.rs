//! The journal: the step between accepting a batch and publishing the state after it.
//!
//! Every change of a snapshot becomes an [`Entry`] first. Entries of a snapshot are in order, each
//! with the epoch and the revision that it leads to. The state after an entry is published only
//! after the journal took the entry. So everything that a decision sees can be read back, and
//! applying the same entries in the same order gives the same state.
//!
//! - The core itself writes nothing.
//! - A journal that refuses leaves everything as it was.
//! - **Group commit.** Batches that arrive while others are being recorded form a group, which is
//!   recorded together.
//! - A replace writes its objects aside while they arrive. Its commit is one small entry.
//! - After a fault a journal may be out of step with the snapshot. The snapshot then writes itself
//!   again with one entry.
//! - The answer to a request that may be repeated is in the entry of its reservations: both are
//!   there or neither.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::held_row::HeldRow;
use crate::snapshot::objects::reservation::{Numbered, Serial};
use crate::snapshot::objects::resource_versions::ResourceVersions;
use crate::snapshot::state::revision::{Applied, State};

/// Keeps the steps of snapshots. Its methods may wait for a disk, so threads that serve connections
/// never call them.
pub trait Journal: Send + Sync {
    /// Takes entries: all of them or none. They are as durable as promised
    /// when it returns.
    ///
    /// # Errors
    /// [`JournalError`]; the state after the entries must not be published then.
    fn append(&self, entries: &[&Entry]) -> Result<(), JournalError>;

    /// Begins a state aside, to become a snapshot's by
    /// [`Change::Replaced`] later.
    ///
    /// # Errors
    /// [`JournalError`].
    fn open_aside(&self) -> Result<Aside, JournalError>;

    /// Applies changes to a state aside.
    ///
    /// # Errors
    /// [`JournalError`]; then the state aside is useless.
    fn write_aside(&self, aside: Aside, changes: &Batch) -> Result<(), JournalError>;

    /// Gives up a state aside that became no snapshot's.
    fn drop_aside(&self, aside: Aside);

    /// Returns whether others append entries, too. Then a snapshot asks for these with
    /// [`Self::missed`], and begins with the first entry of all.
    fn is_shared(&self) -> bool {
        false
    }

    /// The entries of a snapshot that others have appended since it had this standing. The caller
    /// has the turn of the snapshot, and applies them before anything else. Returns those that have
    /// arrived; with `all`, every one that was acknowledged before this call.
    ///
    /// # Errors
    /// [`JournalError`].
    fn missed(&self, at: Standing<'_>, all: bool) -> Result<Missed, JournalError> {
        let _ = (at, all);
        Ok(Missed::default())
    }

    /// Returns whether others have appended anything to a snapshot, as far as can be found out.
    fn has(&self, snapshot: &str) -> bool {
        let _ = snapshot;
        false
    }

    /// Learns that an entry which [`Self::missed`] returned does not fit the snapshot, which must
    /// not be used any more.
    fn diverged(&self, snapshot: &str, why: &str) {
        let _ = (snapshot, why);
    }
}

/// The position of a snapshot in its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The snapshot's name.
    pub snapshot: &'a str,
    /// The snapshot's epoch; empty before its first entry.
    pub epoch: &'a str,
    /// The number of its last entry.
    pub sequence: u64,
}

/// The steps that a snapshot has missed.
#[derive(Default)]
pub struct Missed {
    /// Entries to apply, in order.
    pub entries: Vec<Entry>,
    /// True if there are more entries than were returned.
    pub has_more: bool,
    /// True if the snapshot is over after these entries: another snapshot has its name, or none
    /// has.
    pub is_over: bool,
}

/// A step of a snapshot, as a journal records it.
pub struct Entry {
    /// The snapshot afterwards, with only those defaults, resource versions, reservations and
    /// answers that are new.
    pub after: SavedSnapshot,
    /// The change of its objects.
    pub change: Change,
    /// Reservations that have ended, and answers that are forgotten, ascending.
    pub ended: Vec<Serial>,
}

/// The effect of a step on the objects of a snapshot.
pub enum Change {
    /// These changes, in order.
    Batch(Arc<Batch>),
    /// The state becomes this one.
    Replaced(Box<NewState>),
    /// The snapshot becomes this one, whatever the journal contains, with only the reservations of
    /// the entry. Repairs a journal that is out of step.
    Rewritten(Aside),
    /// The snapshot ends.
    Deleted,
}

impl Deref for Entry {
    type Target = SavedSnapshot;

    fn deref(&self) -> &SavedSnapshot {
        &self.after
    }
}

impl Entry {
    /// The state aside that a journal makes the snapshot's.
    pub fn aside(&self) -> Option<Aside> {
        match &self.change {
            Change::Replaced(new) => new.aside,
            Change::Rewritten(aside) => Some(*aside),
            Change::Batch(_) | Change::Deleted => None,
        }
    }

    /// Reservations and answers as they are stored, with their numbers.
    pub fn rows(&self) -> impl Iterator<Item = (Serial, HeldRow)> {
        let held = self.held.iter();
        held.map(|(serial, held)| (*serial, HeldRow::of(held)))
    }
}

/// An unpublished state of objects that were accepted elsewhere, or that are read back.
#[derive(Debug, Clone)]
pub struct NewState {
    pub(super) state: State,
    /// What building it changed.
    pub(super) applied: Applied,
    /// The same state in the journal, if it is to be recorded.
    pub(super) aside: Option<Aside>,
}

impl NewState {
    /// An empty state.
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            applied: Applied::default(),
            aside: None,
        }
    }

    /// Adds objects. Limits do not apply: they were checked when and where the objects came.
    pub fn add(&mut self, batch: &Batch) {
        self.state.apply(batch, 0);
    }
}

/// A state that is written aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aside(pub u64);

/// The whole content of a snapshot, at one moment.
pub struct Whole {
    /// The snapshot's objects.
    pub state: Arc<State>,
    /// Everything else of the snapshot.
    pub saved: SavedSnapshot,
}

/// The reason why a journal does not take an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The disk is full.
    #[error("no space left in the state directory: the update was not stored and not applied")]
    NoSpace,
    /// The journal does not have the entries that this one follows; a [`Change::Rewritten`] mends
    /// that.
    #[error("the state directory is out of step with the snapshot")]
    OutOfStep,
    /// Another server was first: the entry does not follow the last one that others have appended.
    #[error("other servers changed the snapshot first")]
    Behind,
    /// The log of the servers cannot be reached. Nothing was appended.
    #[error("the log of the servers cannot be reached: {0}")]
    Unreachable(String),
    /// The log of the servers has entries that cannot be right, or had them before: the snapshot
    /// must not be used any more.
    #[error("the log of the servers cannot be followed: {0}")]
    Untrusted(String),
    /// No answer came in time: the entry may still be appended.
    #[error(
        "the log of the servers did not answer: {why}; whether the update is applied is not known"
    )]
    UnknownFate {
        /// The reason why that is unknown.
        why: String,
        /// True if the snapshot must not be used any more, as with [`JournalError::Untrusted`].
        is_untrusted: bool,
    },
    /// The log of the servers may not grow. Nothing was appended.
    #[error("the log of the servers is full: {0}")]
    LogFull(String),
    /// The state aside was lost when the journal recovered from a fault.
    #[error("the replace was lost when the state directory failed; begin it again")]
    LostAside,
    /// Any other fault.
    #[error("the state directory cannot be written: {0}; the update was not applied")]
    Failed(String),
}

/// A snapshot as a journal keeps it, without its objects. In an [`Entry`], it has only those
/// defaults, resource versions, reservations and answers that are new.
#[derive(Debug, Clone)]
pub struct SavedSnapshot {
    /// The snapshot's name.
    pub name: String,
    /// The snapshot's epoch.
    pub epoch: String,
    /// The snapshot's revision.
    pub revision: i64,
    /// The number of its last entry.
    pub sequence: u64,
    /// The time when it was created.
    pub created: SystemTime,
    /// The time when its last batch was applied, by the wall clock of the server that did so.
    pub updated: SystemTime,
    /// The time that has passed since then.
    pub age: Duration,
    /// True if decisions were answered.
    pub synced: bool,
    /// The snapshot's default constraints, where they are set.
    pub defaults: Option<Arc<Defaults>>,
    /// The versions up to which the snapshot's feed has read all kinds, where they are set.
    pub resource_versions: Option<Arc<ResourceVersions>>,
    /// The number of the last reservation ever made.
    pub last_serial: Serial,
    /// The snapshot's reservations, and the answers that it keeps.
    pub held: Vec<(Serial, Numbered)>,
}

impl SavedSnapshot {
    /// Notes that time has passed since the snapshot was saved: it is older, and less of
    /// reservations and answers is left.
    pub fn pass(&mut self, passed: Duration) {
        self.age = self.age.saturating_add(passed);
        for (_, held) in &mut self.held {
            let left = held.left().saturating_sub(passed);
            held.set_left(left);
        }
    }
}

/// A snapshot that is read back.
#[derive(Debug)]
pub struct Restoring {
    /// The snapshot without its objects.
    pub saved: SavedSnapshot,
    /// The snapshot's objects.
    pub state: NewState,
}
