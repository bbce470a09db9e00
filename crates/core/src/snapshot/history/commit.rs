//! Commits batches to a snapshot: one after another, checked, recorded in the journal, applied.
//! Batches of waiting callers are recorded and published together: work that waits while other work is
//! under way is done as a group.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::journal::OwnedChange;
use super::named::Snapshot;
use super::offer::{Error, FeedSign, Fence, Job, Offer, Outcomes, Update, check_revision};
use super::turn::{ATTEMPTS, Step, WriteTurn};
use crate::account::Purpose;
use crate::limits::{Limit, Limits};
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::reservation::Serial;
use crate::snapshot::state::revision::State;

/// Batches are recorded together until they have this many changes.
const MAX_GROUP_CHANGES: usize = 100_000;

/// A part of the group: the job that wants it, and its batch, if it is no end of reservations.
struct Planned {
    /// The index of the job.
    job: usize,
    offer: Option<Offer>,
    /// The number of reservations that end because their time is over.
    expired: usize,
}

/// The commit that one caller makes for all that wait.
struct Commit<'s> {
    turn: WriteTurn<'s>,
    limits: &'s Limits,
    /// What is recorded together next.
    group: Vec<Planned>,
    /// The step of each part of the group, which is applied to `next` already.
    steps: Vec<Step>,
    /// The state after the group; the live one as long as the group is empty.
    next: Arc<State>,
    /// The number of changes in the group.
    changes: usize,
    /// The results of each job.
    outcomes: Vec<Vec<Result<Update, Error>>>,
    /// True if every entry that others had appended when the turn began has been read.
    knows_all: bool,
    /// The number of times in a row that others came first.
    attempts: usize,
}

impl Snapshot {
    /// Does a job, together with those of waiting callers.
    pub(super) fn commit(&self, job: Job, limits: &Limits) -> Outcomes {
        let lead = |jobs: Vec<Job>| commit_all(self, &jobs, limits);
        self.group_commit.join(job, lead)
    }
}

/// Does jobs in their order.
fn commit_all(snapshot: &Snapshot, jobs: &[Job], limits: &Limits) -> Vec<Outcomes> {
    let Some(turn) = WriteTurn::take_unless_deleted(snapshot) else {
        return jobs.iter().map(|_| None).collect();
    };
    let mut commit = Commit {
        next: Arc::clone(&turn.live),
        turn,
        limits,
        group: Vec::new(),
        steps: Vec::new(),
        changes: 0,
        outcomes: jobs.iter().map(|_| Vec::new()).collect(),
        knows_all: !snapshot.around.is_shared(),
        attempts: 0,
    };
    // Entries that arrived meanwhile probably conflict with the next ones. If reading them fails,
    // recording fails, too.
    let _ = commit.turn.catch_up(false);
    commit.begin();
    for (index, job) in jobs.iter().enumerate() {
        match job {
            Job::Offers(offers) => offers.iter().for_each(|o| commit.add(index, Some(o))),
            Job::Ends => commit.add(index, None),
        }
    }
    commit.carry_out();
    commit.finish(jobs)
}

impl Commit<'_> {
    /// Begins an empty group.
    fn begin(&mut self) {
        self.next = Arc::clone(&self.turn.live);
        self.steps.clear();
        self.changes = 0;
    }

    /// Adds a job's work to the group, unless the job was refused before: a batch, or the end of
    /// reservations.
    fn add(&mut self, job: usize, offer: Option<&Offer>) {
        if self.is_refused(job) || self.turn.position.deleted {
            return;
        }
        let mut planned = self.plan(job, offer);
        // A refusal is final only if all before it is recorded, and no entry of others was missed.
        if planned.is_err() && !self.group.is_empty() {
            self.carry_out();
            if self.is_refused(job) {
                return;
            }
            planned = self.plan(job, offer);
        }
        if planned.is_err() && !self.knows_all {
            let caught_up = self.turn.catch_up(true);
            self.begin();
            planned = match caught_up {
                Ok(()) if self.turn.position.deleted => return,
                Ok(()) => self.plan(job, offer),
                Err(error) => Err(error),
            };
            self.knows_all = true;
        }
        match planned {
            Ok(()) if self.changes >= MAX_GROUP_CHANGES => self.carry_out(),
            Ok(()) => {}
            Err(error) => self.outcomes[job].push(Err(error)),
        }
    }

    fn is_refused(&self, job: usize) -> bool {
        self.outcomes[job].last().is_some_and(Result::is_err)
    }

    /// Checks work that follows the group, and adds it to the group if there is anything to do.
    fn plan(&mut self, job: usize, offer: Option<&Offer>) -> Result<(), Error> {
        let snapshot = self.turn.snapshot;
        let at = snapshot.now();
        let next = &self.next;
        let mut entry = self.turn.entry_after(next);
        entry.ended = match offer {
            Some(offer) => {
                let name = snapshot.name();
                Fence::check(offer.fence.as_ref(), name)?;
                check_revision(name, next.revision, offer.expected_revision)?;
                let first = || Defaults::first(next.revision);
                let constraints = offer.defaults.clone().or_else(first);
                let (mut read, news) = (next.resource_versions(), &offer.resource_versions);
                let after;
                if !news.is_empty() {
                    let other = |other| Error::OtherCluster(name.to_owned(), other);
                    after = Arc::new(read.after(news).map_err(other)?);
                    read = &after;
                }
                let known = next.defaults();
                let defaults = known.after(constraints.as_ref(), offer.version, read);
                let rules = defaults.as_ref().unwrap_or(known).rules();
                let batch = Batch::of_version(&offer.batch, rules);
                check_room(next, &batch, self.limits)?;
                let taken = next.reservations.taken_over(&batch);
                entry.change = OwnedChange::Batch(batch);
                // Stored defaults are read together with them.
                let is_read = defaults.is_some() || !news.is_empty();
                entry.after.resource_versions = is_read.then(|| Arc::clone(read));
                entry.after.defaults = defaults;
                taken
            }
            None => next.reservations.expired(at.steady),
        };
        let expired = match offer {
            Some(_) => 0,
            None if entry.ended.is_empty() => return Ok(()),
            None => {
                let is_held = |serial: &&Serial| next.reservations.holds(**serial);
                entry.ended.iter().filter(is_held).count()
            }
        };
        let last = self.steps.last().map(|step| &step.entry.after);
        // The revision stays if only answers are forgotten, which no reader can see.
        if offer.is_some() || expired > 0 {
            entry.after.revision += 1;
            entry.after.updated = at.wall;
        } else if let Some(last) = last {
            entry.after.updated = last.updated;
        }
        // The end of reservations is no sign of a feed.
        entry.after.synced |=
            last.is_some_and(|last| last.synced) || offer.is_some() && !snapshot.is_expected();
        let feed = offer.map(|offer| FeedSign {
            arrived: offer.arrived,
            age: offer.age,
        });
        let next = Arc::make_mut(&mut self.next);
        self.steps
            .push(Step::apply(next, entry, at, at.steady, feed));
        self.changes += offer.map_or(0, |offer| offer.batch.len());
        self.group.push(Planned {
            job,
            offer: offer.cloned(),
            expired,
        });
        Ok(())
    }

    /// Records the group and publishes the state after it. Where others came first, their entries
    /// are applied, and the group is planned again.
    fn carry_out(&mut self) {
        while !self.group.is_empty() {
            let group = std::mem::take(&mut self.group);
            let steps = std::mem::take(&mut self.steps);
            let done = self.turn.commit(Arc::clone(&self.next), steps);
            self.begin();
            match done {
                Ok(updates) => {
                    self.attempts = 0;
                    let counters = &self.turn.snapshot.around.counters;
                    for (planned, update) in group.into_iter().zip(updates) {
                        counters::add(&counters.expired, planned.expired);
                        self.outcomes[planned.job].push(Ok(update));
                    }
                }
                Err(error) if error.is_behind() => self.plan_again(group),
                Err(error) => self.refuse(group, &error),
            }
        }
    }

    fn plan_again(&mut self, group: Vec<Planned>) {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            let name = self.turn.snapshot.name().to_owned();
            return self.refuse(group, &Error::Contended(name));
        }
        let caught_up = self.turn.catch_up(false);
        self.begin();
        if let Err(error) = caught_up {
            return self.refuse(group, &error);
        }
        for planned in &group {
            self.add(planned.job, planned.offer.as_ref());
        }
    }

    fn refuse(&mut self, group: Vec<Planned>, error: &Error) {
        for planned in group {
            self.outcomes[planned.job].push(Err(error.clone()));
        }
    }

    /// The outcomes. If the snapshot is over, jobs that have not begun begin again with the next
    /// snapshot of its name.
    fn finish(self, jobs: &[Job]) -> Vec<Outcomes> {
        let is_over = self.turn.position.deleted;
        let name = self.turn.snapshot.name();
        let outcome = |(job, mut outcomes): (&Job, Vec<Result<Update, Error>>)| {
            let is_refused = outcomes.last().is_some_and(Result::is_err);
            if !is_over || is_refused || outcomes.len() >= job.len() {
                return Some(outcomes);
            }
            if outcomes.is_empty() {
                return None;
            }
            outcomes.push(Err(Error::NotFound(name.to_owned())));
            Some(outcomes)
        };
        jobs.iter().zip(self.outcomes).map(outcome).collect()
    }
}

/// Returns whether a state may have this many more objects of each kind.
fn is_roomy(state: &State, most: usize, limits: &Limits) -> bool {
    let now = state.sizes;
    now.nodes + most <= limits.max_nodes
        && now.pods + most <= limits.max_pods
        && now.label_sets + most <= limits.max_label_sets
        && now.owners + most <= limits.max_owners
}

/// Checks that a state may grow by a batch.
pub fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    if !is_roomy(state, batch.len(), limits) {
        check_counts(state, batch, limits)?;
    }
    if state.has_memory(batch) {
        return Ok(());
    }
    state.make_room();
    Ok(state.upkeep.account().check(Purpose::Objects, 0)?)
}

/// Checks the numbers of objects after a batch, which is applied to a clone.
fn check_counts(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let mut changed = state.clone();
    changed.apply(batch, state.revision);
    let (before, after) = (state.sizes, changed.sizes);
    let each = [
        (Limit::Nodes, before.nodes, after.nodes),
        (Limit::Pods, before.pods, after.pods),
        (Limit::LabelSets, before.label_sets, after.label_sets),
        (Limit::Owners, before.owners, after.owners),
    ];
    // A change that does not grow the state is allowed, whatever the limit.
    let mut growing = each.into_iter().filter(|(_, before, after)| after > before);
    growing.try_for_each(|(limit, _, after)| Ok(limits.check(limit, after)?))
}

/// Callers that wait for a slow operation, such as a disk. One of them leads: it does the jobs of
/// all that wait, in the order in which they came.
#[derive(Debug)]
pub struct GroupCommit<J, O> {
    next: AtomicU64,
    waiting: Mutex<Vec<(u64, J)>>,
    done: Mutex<HashMap<u64, O>>,
    lead: Mutex<()>,
}

impl<J, O> Default for GroupCommit<J, O> {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(0),
            waiting: Mutex::default(),
            done: Mutex::default(),
            lead: Mutex::default(),
        }
    }
}

impl<J, O> GroupCommit<J, O> {
    /// Does a job, by `lead` or by that of another caller, and returns its
    /// outcome. `lead` gets jobs and returns as many outcomes, in the same
    /// order.
    pub fn join(&self, job: J, lead: impl FnOnce(Vec<J>) -> Vec<O>) -> O {
        let ticket = {
            let mut waiting = self.waiting.lock();
            // The ticket is drawn under the lock, so that tickets are in the order of jobs.
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            waiting.push((ticket, job));
            ticket
        };
        let _leading = self.lead.lock();
        if let Some(outcome) = self.done.lock().remove(&ticket) {
            return outcome;
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let (tickets, jobs): (Vec<u64>, Vec<J>) = waiting.into_iter().unzip();
        let mut outcomes = tickets.into_iter().zip(lead(jobs));
        // The leader's own job is mostly the first: others come while the leader waits.
        let mut own = None;
        let mut done = self.done.lock();
        for (other, outcome) in &mut outcomes {
            if other == ticket {
                own = Some(outcome);
            } else {
                done.insert(other, outcome);
            }
        }
        own.expect("who leads finds its own job among those that wait")
    }
}
