//! How a snapshot tells the journal what is going to happen to it.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use super::book::{Held, Serial};
use super::error::Error;
use super::journal::{Change, Entry, Journal, Refusal};
use super::named::{Snapshot, Turn};
use crate::proto::v1::change::Object;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::shards::State;

/// Objects are copied so many at a time when a snapshot is rewritten.
const REWRITE_OBJECTS: usize = 10_000;

/// What a step does, beside what every entry says of its snapshot.
pub(in crate::snapshot) struct Step<'a> {
    pub revision: i64,
    pub at: SystemTime,
    pub synced: bool,
    pub change: Change<'a>,
    pub defaults: Option<&'a Defaults>,
    pub last_serial: Serial,
    pub held: &'a [(Serial, Held)],
    pub ended: &'a [Serial],
}

impl Snapshot {
    /// A step that changes nothing.
    pub(in crate::snapshot) fn standstill(&self, live: &State) -> Step<'static> {
        Step {
            revision: live.revision(),
            at: self.updated.lock().wall,
            synced: self.synced.load(Ordering::Acquire),
            change: Change::Batch(&[]),
            defaults: None,
            last_serial: self.book.lock().last(),
            held: &[],
            ended: &[],
        }
    }

    /// Puts steps into the journal, if there is one, before they are taken.
    ///
    /// # Errors
    /// [`Error::NotStored`]; then they must not be taken.
    pub(in crate::snapshot) fn record(
        &self,
        turn: &mut Turn,
        live: &State,
        steps: &[Step<'_>],
    ) -> Result<(), Error> {
        let journal = self.journal.as_deref();
        // One that is deleted is in the journal no more.
        let Some(journal) = journal.filter(|_| !steps.is_empty() && !turn.deleted) else {
            return Ok(());
        };
        let numbers = turn.sequence + 1..;
        let entries: Vec<Entry<'_>> = steps
            .iter()
            .zip(numbers)
            .map(|(step, sequence)| self.entry(step, sequence))
            .collect();
        let mut appended = journal.append(&entries);
        if appended == Err(Refusal::OutOfStep) {
            appended = self
                .rewrite(journal, turn, live)
                .and_then(|()| journal.append(&entries));
        }
        if appended.is_ok() {
            turn.sequence += steps.len() as u64;
        }
        appended.map_err(Error::NotStored)
    }

    fn entry<'a>(&'a self, step: &Step<'a>, sequence: u64) -> Entry<'a> {
        Entry {
            snapshot: self.name(),
            epoch: self.epoch(),
            revision: step.revision,
            sequence,
            created: self.created,
            updated: step.at,
            synced: step.synced,
            change: step.change,
            defaults: step.defaults,
            last_serial: step.last_serial,
            held: step.held,
            ended: step.ended,
        }
    }

    /// Writes the whole snapshot anew, as it is after the last entry.
    fn rewrite(&self, journal: &dyn Journal, turn: &Turn, live: &State) -> Result<(), Refusal> {
        let aside = journal.open_aside()?;
        let held = self.book.lock().entries();
        let write = || {
            let frozen = live.freeze(turn);
            let mut objects = frozen.changes().filter_map(|change| change.object);
            loop {
                let part: Vec<Object> = objects.by_ref().take(REWRITE_OBJECTS).collect();
                if part.is_empty() {
                    break;
                }
                journal.write_aside(aside, &part)?;
            }
            let step = Step {
                change: Change::Rewritten(aside),
                defaults: Some(&frozen.defaults),
                held: &held,
                ..self.standstill(live)
            };
            journal.append(&[self.entry(&step, turn.sequence)])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }
}
