//! How a snapshot takes batches: in turn, checked, into the journal, applied.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime};

use parking_lot::MutexGuard;

use super::change::Batch;
use super::defaults::Defaults;
use super::error::Error;
use super::journal::{Change, Entry, Journal, Refusal};
use super::limits::Limits;
use super::named::{Snapshot, Turn, Update};
use super::reservations::{Held, Serial};
use super::staged::{Staged, check_room, is_roomy};
use super::state::State;
use super::tally;
use crate::proto::v1::change::Object;

/// A batch that a client wants applied.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The changes.
    pub batch: Arc<Batch>,
    /// Default constraints to set.
    pub defaults: Option<Arc<Defaults>>,
    /// The revision to apply at.
    pub expected_revision: Option<i64>,
    /// When the server had read it.
    pub arrived: Instant,
}

/// What became of offers, in their order: of all, or of those up to the first
/// that was refused. `None` when the snapshot was deleted meanwhile.
pub(super) type Outcomes = Option<Vec<Result<Update, Error>>>;

/// Batches are recorded together until they have so many changes.
const MAX_GROUP_CHANGES: usize = 100_000;

/// Objects are copied so many at a time when a snapshot is rewritten.
const REWRITE_OBJECTS: usize = 10_000;

/// A batch that passed its checks, and has its place in the order.
struct Planned {
    /// Whose it is: the index of its job.
    job: usize,
    offer: Offer,
    revision: i64,
    /// The reservations that its pods take over.
    taken: Vec<Serial>,
    at: SystemTime,
}

/// Batches that are recorded together and then applied one by one.
#[derive(Default)]
struct Group {
    planned: Vec<Planned>,
    changes: usize,
}

/// What a step does, beside what every entry says of its snapshot.
pub(super) struct Step<'a> {
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
    /// Applies batches to the live state, one after another, until one is
    /// refused. Those of callers that wait meanwhile are recorded together.
    pub(super) fn update(&self, offers: Arc<[Offer]>, limits: &Limits) -> Outcomes {
        if self.journal.is_none() {
            return self.lead(vec![offers], limits).pop().flatten();
        }
        self.convoy.join(offers, |jobs| self.lead(jobs, limits))
    }

    /// The turn, unless the snapshot is deleted. Whoever changes a snapshot
    /// begins here.
    pub(super) fn take_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        Some(self.turn.lock()).filter(|turn| !turn.deleted)
    }

    fn lead(&self, jobs: Vec<Arc<[Offer]>>, limits: &Limits) -> Vec<Outcomes> {
        let Some(mut turn) = self.take_turn() else {
            return jobs.iter().map(|_| None).collect();
        };
        let live = self.live();
        let mut outcomes: Vec<Vec<_>> = jobs.iter().map(|_| Vec::new()).collect();
        let mut group = Group::default();
        for (job, offers) in jobs.iter().enumerate() {
            for offer in offers.iter() {
                let changes = group.changes + offer.batch.len();
                let fits = changes <= MAX_GROUP_CHANGES && is_roomy(&live, changes, limits);
                let mut planned = self.plan(job, offer, &live, &group, limits);
                // Alone it is judged by the state itself.
                if !group.planned.is_empty() && (!fits || planned.is_err()) {
                    self.carry_out(&mut turn, &live, &mut group, &mut outcomes);
                    planned = self.plan(job, offer, &live, &group, limits);
                }
                let refused = |outcome: &Result<_, _>| outcome.is_err();
                if outcomes[job].last().is_some_and(refused) {
                    break;
                }
                match planned {
                    Ok(planned) => group.add(planned),
                    Err(error) => {
                        outcomes[job].push(Err(error));
                        break;
                    }
                }
            }
        }
        self.carry_out(&mut turn, &live, &mut group, &mut outcomes);
        outcomes.into_iter().map(Some).collect()
    }

    /// Checks a batch that comes after those of a group.
    fn plan(
        &self,
        job: usize,
        offer: &Offer,
        live: &State,
        group: &Group,
        limits: &Limits,
    ) -> Result<Planned, Error> {
        let before = live.revision() + group.planned.len() as i64;
        self.check_revision(before, offer.expected_revision)?;
        check_room(live, &offer.batch, limits)?;
        let mut taken = self.book.lock().taken_over(offer.batch.objects());
        taken.retain(|serial| !group.planned.iter().any(|p| p.taken.contains(serial)));
        Ok(Planned {
            job,
            offer: offer.clone(),
            revision: before + 1,
            taken,
            at: (self.clock)(),
        })
    }

    /// Records the batches of a group and applies them.
    fn carry_out(
        &self,
        turn: &mut Turn,
        live: &State,
        group: &mut Group,
        outcomes: &mut [Vec<Result<Update, Error>>],
    ) {
        let planned = std::mem::take(group).planned;
        if self.journal.is_some() {
            let synced = self.is_synced() || !self.is_expected();
            let last_serial = self.book.lock().last();
            let steps = planned.iter().map(|planned| Step {
                revision: planned.revision,
                at: planned.at,
                synced,
                change: Change::Batch(planned.offer.batch.objects()),
                defaults: planned.offer.defaults.as_deref(),
                last_serial,
                held: &[],
                ended: &planned.taken,
            });
            let steps: Vec<Step<'_>> = steps.collect();
            if let Err(error) = self.record(turn, live, &steps) {
                for planned in planned {
                    outcomes[planned.job].push(Err(error.clone()));
                }
                return;
            }
        }
        for planned in planned {
            let job = planned.job;
            outcomes[job].push(Ok(self.apply_planned(live, planned)));
        }
    }

    fn apply_planned(&self, live: &State, planned: Planned) -> Update {
        let Planned {
            offer,
            revision,
            taken,
            at,
            ..
        } = planned;
        let batch = self.with_deletions(&offer.batch, &taken);
        let mut applied = live.apply(&batch, offer.defaults, revision);
        // That reservations end is not the caller's doing.
        applied.changed = applied.changed.saturating_sub(taken.len());
        self.forget(&taken);
        self.fed(at, offer.arrived);
        self.moved_on(revision, applied, !self.is_expected())
    }

    /// A batch with the deletions of reservations.
    pub(super) fn with_deletions<'b>(&self, batch: &'b Batch, taken: &[Serial]) -> Cow<'b, Batch> {
        if taken.is_empty() {
            return Cow::Borrowed(batch);
        }
        Cow::Owned(batch.and(self.book.lock().deletions(taken)))
    }

    /// Swaps a new state in. `None` when the snapshot was deleted meanwhile.
    ///
    /// # Errors
    /// [`Error::RevisionMismatch`] and [`Error::NotStored`].
    pub(super) fn replace(
        &self,
        staged: &mut Option<Staged>,
        expected_revision: Option<i64>,
        arrived: Instant,
    ) -> Result<Option<Update>, Error> {
        let Some(mut turn) = self.take_turn() else {
            return Ok(None);
        };
        let now = (self.clock)();
        let live = self.live();
        self.check_revision(live.revision(), expected_revision)?;
        let new = staged.take().expect("a state is swapped in once");
        let revision = live.revision() + 1;
        let defaults = new.defaults.clone().unwrap_or_else(|| live.defaults());
        let (taken, last_serial) = {
            let book = self.book.lock();
            (new.state.arrived(book.confirmed()), book.last())
        };
        if let Some(aside) = new.aside() {
            let step = Step {
                revision,
                at: now,
                synced: true,
                change: Change::Replaced(aside),
                defaults: Some(&defaults),
                last_serial,
                held: &[],
                ended: &taken,
            };
            self.record(&mut turn, &live, &[step])?;
        }
        let (state, applied) = new.into_state();
        self.swap_in(&live, state, (revision, defaults), &taken);
        self.forget(&taken);
        tally::add(&self.tally.replaces, 1);
        self.fed(now, arrived);
        Ok(Some(self.moved_on(revision, applied, true)))
    }

    /// Puts a new state in the place of the live one, with the reservations but
    /// for those that its pods take over. For whoever has the turn.
    pub(super) fn swap_in(
        &self,
        live: &State,
        mut state: State,
        (revision, defaults): (i64, Arc<Defaults>),
        taken: &[Serial],
    ) {
        self.carry_over(&state, taken);
        state.adopt(revision, defaults);
        state.upkeep.set_tally(Arc::clone(&self.tally));
        tally::add(&self.tally.views_dropped, live.view_count());
        self.put_live(state);
    }

    /// Gives a new state the reservations that none of its pods takes over.
    fn carry_over(&self, state: &State, taken: &[Serial]) {
        let book = self.book.lock();
        let mut held = book.serials();
        held.retain(|serial| taken.binary_search(serial).is_err());
        state.apply(&Batch::trusted(book.pods(&held)), None, 0);
    }

    /// Marks it deleted, so that later updates look for another of the name;
    /// whether it was not deleted already.
    ///
    /// # Errors
    /// [`Error::NotStored`].
    pub(super) fn delete(&self) -> Result<bool, Error> {
        let Some(mut turn) = self.take_turn() else {
            return Ok(false);
        };
        let live = self.live();
        let step = Step {
            change: Change::Deleted,
            ..self.standstill(&live)
        };
        self.record(&mut turn, &live, &[step])?;
        turn.deleted = true;
        self.note_deleted();
        Ok(true)
    }

    /// A step that changes nothing.
    pub(super) fn standstill(&self, live: &State) -> Step<'static> {
        Step {
            revision: live.revision(),
            at: *self.updated.lock(),
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
    pub(super) fn record(
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
        // What has ended by itself is told with what comes next.
        let owed = std::mem::take(&mut turn.owed);
        let ended = [&owed, steps[0].ended].concat();
        let numbers = turn.sequence + 1..;
        let mut entries: Vec<Entry<'_>> = steps
            .iter()
            .zip(numbers)
            .map(|(step, sequence)| self.entry(step, sequence))
            .collect();
        entries[0].ended = &ended;
        let mut appended = journal.append(&entries);
        if appended == Err(Refusal::OutOfStep) {
            appended = self
                .rewrite(journal, turn.sequence, live)
                .and_then(|()| journal.append(&entries));
        }
        match appended {
            Ok(()) => turn.sequence += steps.len() as u64,
            Err(_) => turn.owed = owed,
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

    /// Writes the whole snapshot anew, as it is after entry `sequence`.
    fn rewrite(&self, journal: &dyn Journal, sequence: u64, live: &State) -> Result<(), Refusal> {
        let aside = journal.open_aside()?;
        let held = self.book.lock().entries();
        let write = || {
            let frozen = live.freeze();
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
            journal.append(&[self.entry(&step, sequence)])
        };
        write().inspect_err(|_| journal.drop_aside(aside))
    }
}

impl Group {
    fn add(&mut self, planned: Planned) {
        self.changes += planned.offer.batch.len();
        self.planned.push(planned);
    }
}
