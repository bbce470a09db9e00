//! How a snapshot takes batches: in turn, checked, into the journal, applied.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::MutexGuard;

use super::book::Serial;
use super::error::Error;
use super::journal::Change;
use super::named::{Snapshot, Turn, Update};
use super::recording::Step;
use super::staged::{Staged, check_room, is_roomy};
use crate::account::Charge;
use crate::snapshot::clock::{Moment, Now};
use crate::snapshot::counters as tally;
use crate::snapshot::limits::Limits;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::shards::State;

/// A batch that a client wants applied.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The changes.
    pub batch: Arc<Batch>,
    /// Default constraints to set.
    pub defaults: Option<Arc<Defaults>>,
    /// The revision to apply at.
    pub expected_revision: Option<i64>,
    /// When the server had read it, by the clock of the registry.
    pub arrived: Moment,
}

/// What somebody wants to happen to a snapshot.
#[derive(Clone)]
pub(in crate::snapshot) enum Job {
    /// Batches, one after another until one is refused.
    Offers(Arc<[Offer]>),
    /// The end of the reservations whose time is over, if there are any.
    Ends,
}

/// What became of a job, in its order: of all, or of those up to the first
/// that was refused. `None` when the snapshot was deleted meanwhile.
pub(in crate::snapshot) type Outcomes = Option<Vec<Result<Update, Error>>>;

/// Batches are recorded together until they have so many changes.
const MAX_GROUP_CHANGES: usize = 100_000;

/// One thing that is wanted.
#[derive(Clone, Copy)]
enum Want<'a> {
    Batch(&'a Offer),
    Ends,
}

/// What passed its checks, and has its place in the order.
struct Planned {
    /// Whose it is: the index of its job.
    job: usize,
    /// The batch; `None` where only reservations end.
    offer: Option<Offer>,
    revision: i64,
    /// The reservations that end: its pods take over, or their time is over.
    ended: Vec<Serial>,
    /// Holds the memory that a batch will take.
    _room: Option<Charge>,
    at: Now,
}

/// What is recorded together and then applied one by one.
#[derive(Default)]
struct Group {
    planned: Vec<Planned>,
    changes: usize,
}

impl Snapshot {
    /// Applies batches to the live state, one after another, until one is
    /// refused. Those of callers that wait meanwhile are recorded together.
    pub(in crate::snapshot) fn update(&self, offers: Arc<[Offer]>, limits: &Limits) -> Outcomes {
        self.have_done(Job::Offers(offers), limits)
    }

    /// Has a job done, with those of callers that wait meanwhile.
    pub(in crate::snapshot) fn have_done(&self, job: Job, limits: &Limits) -> Outcomes {
        if self.journal.is_none() {
            return self.lead(vec![job], limits).pop().flatten();
        }
        self.convoy.join(job, |jobs| self.lead(jobs, limits))
    }

    /// The turn, unless the snapshot is deleted. Whoever changes a snapshot
    /// begins here.
    pub(in crate::snapshot) fn take_turn(&self) -> Option<MutexGuard<'_, Turn>> {
        Some(self.turn.lock()).filter(|turn| !turn.deleted)
    }

    fn lead(&self, jobs: Vec<Job>, limits: &Limits) -> Vec<Outcomes> {
        let Some(mut turn) = self.take_turn() else {
            return jobs.iter().map(|_| None).collect();
        };
        let live = self.live();
        let mut outcomes: Vec<Vec<_>> = jobs.iter().map(|_| Vec::new()).collect();
        let mut group = Group::default();
        for (job, want) in wants(&jobs) {
            let refused = |outcome: &Result<_, _>| outcome.is_err();
            if outcomes[job].last().is_some_and(refused) {
                continue;
            }
            let changes = group.changes + want.len();
            let fits =
                changes <= MAX_GROUP_CHANGES && is_roomy(&live, changes, want.bytes(), limits);
            let mut planned = self.plan(job, want, &live, &group, limits);
            // Alone it is judged by the state itself.
            if !group.planned.is_empty() && (!fits || planned.is_err()) {
                self.carry_out(&mut turn, &live, &mut group, &mut outcomes);
                if outcomes[job].last().is_some_and(refused) {
                    continue;
                }
                // What it holds of memory is looked for anew.
                drop(planned);
                planned = self.plan(job, want, &live, &group, limits);
            }
            match planned {
                Ok(planned) => {
                    group.changes += want.len();
                    group.planned.extend(planned);
                }
                Err(error) => outcomes[job].push(Err(error)),
            }
        }
        self.carry_out(&mut turn, &live, &mut group, &mut outcomes);
        outcomes.into_iter().map(Some).collect()
    }

    /// Checks what comes after a group. `None` when there is nothing to do.
    fn plan(
        &self,
        job: usize,
        want: Want<'_>,
        live: &State,
        group: &Group,
        limits: &Limits,
    ) -> Result<Option<Planned>, Error> {
        let at = (self.clock)();
        let before = live.revision() + group.planned.len() as i64;
        let mut room = None;
        let mut ended = match want {
            Want::Batch(offer) => {
                self.check_revision(before, offer.expected_revision)?;
                room = Some(check_room(live, &offer.batch, limits)?);
                self.book.lock().taken_over(offer.batch.objects())
            }
            Want::Ends => self.book.lock().expired(at.steady),
        };
        let is_planned = |serial: &Serial| {
            let mut planned = group.planned.iter();
            planned.any(|p| p.ended.binary_search(serial).is_ok())
        };
        ended.retain(|serial| !is_planned(serial));
        let offer = match want {
            Want::Batch(offer) => Some(offer.clone()),
            Want::Ends if ended.is_empty() => return Ok(None),
            Want::Ends => None,
        };
        Ok(Some(Planned {
            job,
            offer,
            revision: before + 1,
            ended,
            _room: room,
            at,
        }))
    }

    /// Records a group and applies it.
    fn carry_out(
        &self,
        turn: &mut Turn,
        live: &State,
        group: &mut Group,
        outcomes: &mut [Vec<Result<Update, Error>>],
    ) {
        let planned = std::mem::take(group).planned;
        if self.journal.is_some() {
            let before = self.standstill(live);
            let mut synced = before.synced;
            let mut steps = Vec::with_capacity(planned.len());
            for planned in &planned {
                // That reservations end says nothing of what a feed has told.
                synced |= planned.offer.is_some() && !self.is_expected();
                steps.push(planned.step(synced, &before));
            }
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
            ended,
            at,
            ..
        } = planned;
        let Some(offer) = offer else {
            tally::add(&self.tally.expired, ended.len());
            return self.apply_ends(live, &ended, revision, at);
        };
        let batch = self.with_deletions(&offer.batch, &ended);
        let mut applied = live.apply(&batch, offer.defaults, revision);
        // That reservations end is not the caller's doing.
        applied.changed = applied.changed.saturating_sub(ended.len());
        self.forget(&ended);
        self.fed(at, offer.arrived);
        self.moved_on(revision, applied, !self.is_expected())
    }

    /// A batch with the deletions of reservations.
    pub(in crate::snapshot) fn with_deletions<'b>(
        &self,
        batch: &'b Batch,
        taken: &[Serial],
    ) -> Cow<'b, Batch> {
        if taken.is_empty() {
            return Cow::Borrowed(batch);
        }
        Cow::Owned(batch.and(self.book.lock().deletions(taken)))
    }

    /// Swaps a new state in. `None` when the snapshot was deleted meanwhile.
    ///
    /// # Errors
    /// [`Error::RevisionMismatch`] and [`Error::NotStored`].
    pub(in crate::snapshot) fn replace(
        &self,
        staged: &mut Option<Staged>,
        expected_revision: Option<i64>,
        arrived: Moment,
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
                at: now.wall,
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
    pub(in crate::snapshot) fn swap_in(
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
    pub(in crate::snapshot) fn delete(&self) -> Result<bool, Error> {
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
}

/// What jobs want, in order, each with the index of its job.
fn wants(jobs: &[Job]) -> impl Iterator<Item = (usize, Want<'_>)> {
    jobs.iter().enumerate().flat_map(|(index, job)| {
        let (offers, ends) = match job {
            Job::Offers(offers) => (&**offers, None),
            Job::Ends => (&[][..], Some(Want::Ends)),
        };
        let wants = offers.iter().map(Want::Batch).chain(ends);
        wants.map(move |want| (index, want))
    })
}

impl Want<'_> {
    /// How many changes it brings, but for ends of reservations.
    fn len(&self) -> usize {
        match self {
            Self::Batch(offer) => offer.batch.len(),
            Self::Ends => 0,
        }
    }

    /// What these take in memory, at most.
    fn bytes(&self) -> usize {
        match self {
            Self::Batch(offer) => offer.batch.bytes(),
            Self::Ends => 0,
        }
    }
}

impl Planned {
    fn step(&self, synced: bool, before: &Step<'static>) -> Step<'_> {
        let objects = self.offer.as_ref().map(|offer| offer.batch.objects());
        let defaults = self.offer.as_ref().and_then(|o| o.defaults.as_deref());
        Step {
            revision: self.revision,
            at: self.at.wall,
            synced,
            change: Change::Batch(objects.unwrap_or_default()),
            defaults,
            ended: &self.ended,
            ..*before
        }
    }
}
