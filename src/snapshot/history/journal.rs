//! What happens between accepting a batch and applying it.
//!
//! Every change of a snapshot becomes an [`Entry`] first. Entries of a snapshot
//! are in order, each with the epoch and the revision that it leads to. An
//! entry is applied only after the journal took it. So everything that a
//! decision sees can be read back, and applying the same entries in the same
//! order gives the same state.

use std::sync::Arc;
use std::time::SystemTime;

use uuid::Uuid;

use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::held_row::HeldRow;
use crate::snapshot::objects::reservation::{KeptAnswer, Reservation, Serial};
use crate::snapshot::state::frozen::Frozen;
use crate::snapshot::state::shards::State;

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
    fn write_aside(&self, aside: Aside, changes: &Batch) -> Result<(), JournalError>;

    /// Gives a state aside up that was not made a snapshot's.
    fn drop_aside(&self, aside: Aside);

    /// Returns whether others append entries too. Then a snapshot asks for these with
    /// [`Self::missed`], and begins with the first entry of all.
    fn is_shared(&self) -> bool {
        false
    }

    /// The entries of a snapshot that others have appended since it was there. The
    /// caller has the turn of the snapshot, and applies them before anything
    /// else. Those are returned that have arrived; with `all`, every one that
    /// was acknowledged before this call.
    ///
    /// # Errors
    /// [`JournalError`].
    fn missed(&self, at: Standing<'_>, all: bool) -> Result<Missed, JournalError> {
        let _ = (at, all);
        Ok(Missed::default())
    }

    /// Waits for a moment if others are to append to a snapshot first. The caller has the
    /// turn of the snapshot and wants to append.
    fn let_others(&self, snapshot: &str) {
        let _ = snapshot;
    }

    /// Is told where a snapshot stands before anything else is read or appended, by
    /// whoever has its turn. `copy` makes a copy of it.
    fn stands(&self, at: Standing<'_>, copy: &dyn Fn() -> Whole) {
        let _ = (at, copy);
    }

    /// Is told that an entry which [`Self::missed`] returned does not fit the
    /// snapshot, which must not be used any more.
    fn diverged(&self, snapshot: &str, why: &str) {
        let _ = (snapshot, why);
    }
}

/// How far a snapshot has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Its name.
    pub snapshot: &'a str,
    /// Its epoch; empty before its first entry.
    pub epoch: &'a str,
    /// The number of its last entry.
    pub sequence: u64,
}

/// What a snapshot has missed.
#[derive(Default)]
pub struct Missed {
    /// Entries to apply, in order.
    pub entries: Vec<OwnedEntry>,
    /// Whether there are more of those that were asked for.
    pub has_more: bool,
    /// Whether the snapshot is over after them: another one has its name now,
    /// or none.
    pub is_over: bool,
}

/// A step of a snapshot that somebody else took: what [`Entry`] says.
pub struct OwnedEntry {
    /// The snapshot afterwards: of its defaults, reservations and answers only those that
    /// are new.
    pub after: SavedSnapshot,
    /// What happens to its objects.
    pub change: OwnedChange,
    /// Reservations that have ended, and answers that are forgotten, ascending.
    pub ended: Vec<Serial>,
    /// What [`Doubt::mark`] says of it, if it comes from this server; otherwise one that
    /// no doubt has.
    pub mark: Uuid,
}

/// What a step that somebody else took does to the objects of a snapshot.
pub enum OwnedChange {
    /// These changes, in order.
    Batch(Batch),
    /// The state becomes this one.
    Replaced(Box<NewState>),
    /// The snapshot ends.
    Deleted,
}

/// A state that nobody reads yet, of objects that were accepted elsewhere.
pub struct NewState(pub(super) State);

impl NewState {
    /// Adds objects. Limits do not apply: they were kept where these came.
    pub fn add(&self, batch: &Batch) {
        self.0.apply_unread(batch, 0);
    }
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

impl Entry<'_> {
    /// Reservations and answers as they are stored, with their numbers.
    pub fn rows(&self) -> impl Iterator<Item = (Serial, HeldRow)> {
        let held = self.held.iter();
        let held = held.map(|(serial, held)| (*serial, HeldRow::of(held)));
        let answers = self.answers.iter();
        let answers = answers.map(|(serial, answer)| (*serial, HeldRow::of_answer(answer)));
        held.chain(answers)
    }
}

/// Everything that a snapshot is, of one moment.
pub struct Whole {
    /// Its objects.
    pub frozen: Frozen,
    /// The rest.
    pub saved: SavedSnapshot,
}

/// What a step does to the objects of a snapshot.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// These changes, in order; `None` for none.
    Batch(Option<&'a Batch>),
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
    /// Somebody else was first: the entry does not follow on what the others have
    /// appended.
    #[error("other servers changed the snapshot first")]
    Behind,
    /// The log of the servers cannot be reached. Nothing was appended.
    #[error("the log of the servers cannot be reached: {0}")]
    Unreachable(String),
    /// What the log of the servers says cannot be true, or what was read of it
    /// before was not: the snapshot must not be used any more.
    #[error("the log of the servers cannot be followed: {0}")]
    Untrusted(String),
    /// No answer came in time: the entry may still be appended.
    #[error(transparent)]
    UnknownFate(Doubt),
    /// The log of the servers may not grow.
    #[error("the log of the servers is full: the update was not applied")]
    LogFull,
    /// The state aside was lost when the journal recovered from a fault.
    #[error("the replace was lost when the state directory failed; begin it again")]
    LostAside,
    /// Anything else.
    #[error("the state directory cannot be written: {0}; the update was not applied")]
    Failed(String),
}

/// That it is not known whether an entry is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the log of the servers did not answer: {why}; whether the update is applied is not known")]
pub struct Doubt {
    /// Why it is not known.
    pub why: String,
    /// What [`OwnedEntry::mark`] says of the entry if it is recorded after all.
    pub mark: Uuid,
    /// Whether the snapshot must not be used any more, as of [`JournalError::Untrusted`].
    pub is_untrusted: bool,
}

/// A snapshot as a journal keeps it, without its objects. In an [`OwnedEntry`] only what
/// is new of its defaults, reservations and answers.
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
    /// Its default constraints, where they are set.
    pub defaults: Option<Arc<Defaults>>,
    /// The number of the last reservation ever made.
    pub last_serial: Serial,
    /// Its reservations.
    pub held: Vec<(Serial, Reservation)>,
    /// The answers that it keeps.
    pub answers: Vec<(Serial, KeptAnswer)>,
}

impl SavedSnapshot {
    /// The step that leads to it.
    pub fn entry<'a>(&'a self, change: Change<'a>) -> Entry<'a> {
        Entry {
            snapshot: &self.name,
            epoch: &self.epoch,
            revision: self.revision,
            sequence: self.sequence,
            created: self.created,
            updated: self.updated,
            synced: self.synced,
            change,
            defaults: self.defaults.as_deref(),
            last_serial: self.last_serial,
            held: &self.held,
            answers: &self.answers,
            ended: &[],
        }
    }
}

/// A snapshot that is read back.
#[derive(Debug)]
pub struct Restoring {
    pub(super) saved: SavedSnapshot,
    pub(super) state: State,
}

impl Restoring {
    /// Adds objects. Limits do not apply: they were kept when these came.
    pub fn add(&self, batch: &Batch) {
        self.state.apply_unread(batch, 0);
    }
}
