//! What happens between accepting a batch and applying it.
//!
//! Every change of a snapshot becomes an [`Entry`] first. Entries of a snapshot
//! are in order, each with the epoch and the revision that it leads to. An
//! entry is applied only after the journal took it. So everything that a
//! decision sees can be read back, and applying the same entries in the same
//! order gives the same state.

use std::time::SystemTime;

use crate::proto::v1::change::Object;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::kept_answer::KeptAnswer;
use crate::snapshot::objects::reservation::{Reservation, Serial};

/// Keeps what happens to snapshots. Its methods may wait for a disk, so threads
/// that serve connections never call them.
pub trait Journal: Send + Sync {
    /// Takes entries: all of them or none. They are as durable as promised
    /// when it returns.
    ///
    /// # Errors
    /// [`JournalError`]; the entries must not be applied then.
    fn append(&self, entries: &[Entry<'_>]) -> Result<(), JournalError>;

    /// Begins a state aside, to become a snapshot's by
    /// [`Change::Replaced`] later.
    ///
    /// # Errors
    /// [`JournalError`].
    fn open_aside(&self) -> Result<Aside, JournalError>;

    /// Applies changes to a state aside.
    ///
    /// # Errors
    /// [`JournalError`]; the state aside is of no use then.
    fn write_aside(&self, aside: Aside, objects: &[Object]) -> Result<(), JournalError>;

    /// Gives a state aside up that was not made a snapshot's.
    fn drop_aside(&self, aside: Aside);
}

/// A state that is written aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aside(pub u64);

/// A step of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Name of the snapshot.
    pub snapshot: &'a str,
    /// Its epoch.
    pub epoch: &'a str,
    /// Its revision afterwards.
    pub revision: i64,
    /// Number of the step in the epoch, from 1. Unlike the revision it grows
    /// with every step, so a gap shows.
    pub sequence: u64,
    /// When the snapshot was created.
    pub created: SystemTime,
    /// When its last batch was applied, this one included.
    pub updated: SystemTime,
    /// Whether decisions are answered afterwards.
    pub synced: bool,
    /// What happens to its objects.
    pub change: Change<'a>,
    /// Default constraints, where they are set.
    pub defaults: Option<&'a Defaults>,
    /// The number of the last reservation ever made.
    pub last_serial: Serial,
    /// Reservations as they are from now on.
    pub held: &'a [(Serial, Reservation)],
    /// Answers that are kept from now on.
    pub answers: &'a [(Serial, KeptAnswer)],
    /// Reservations that have ended, and answers that are forgotten.
    pub ended: &'a [Serial],
}

/// What a step does to the objects of a snapshot.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// These changes, in order; may be none.
    Batch(&'a [Object]),
    /// The state becomes this one.
    Replaced(Aside),
    /// The snapshot becomes this one, whatever the journal holds, with only the
    /// reservations of the entry. Repairs a journal that is out of step.
    Rewritten(Aside),
    /// The snapshot ends.
    Deleted,
}

/// Why a journal does not take an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The disk is full.
    #[error("no space left in the state directory: the update was not stored and not applied")]
    NoSpace,
    /// The journal does not hold what the entry follows on; a
    /// [`Change::Rewritten`] mends that.
    #[error("the state directory is out of step with the snapshot")]
    OutOfStep,
    /// The journal is not where it was.
    #[error(
        "the state directory was removed or replaced under the server: the update was not applied; \
         put it back, or start the server anew"
    )]
    Gone,
    /// The state aside was lost when the journal recovered from a fault.
    #[error("the replace was lost when the state directory failed; begin it again")]
    LostAside,
    /// Anything else.
    #[error("the state directory cannot be written: {0}; the update was not applied")]
    Failed(String),
}

/// A snapshot as a journal restores it, without its objects.
#[derive(Debug, Clone)]
pub struct SavedSnapshot {
    /// Its name.
    pub name: String,
    /// Its epoch.
    pub epoch: String,
    /// Its revision.
    pub revision: i64,
    /// The number of its last entry.
    pub sequence: u64,
    /// When it was created.
    pub created: SystemTime,
    /// When its last batch was applied.
    pub updated: SystemTime,
    /// Whether decisions were answered.
    pub synced: bool,
    /// Its default constraints.
    pub defaults: Defaults,
    /// The number of the last reservation ever made.
    pub last_serial: Serial,
    /// Its reservations.
    pub held: Vec<(Serial, Reservation)>,
    /// The answers that it keeps.
    pub answers: Vec<(Serial, KeptAnswer)>,
}
