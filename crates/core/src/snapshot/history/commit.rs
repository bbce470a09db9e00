//! Commits batches to a snapshot: one after another, checked, recorded in the journal, applied.
//! Batches of waiting callers are recorded and published together: work that waits while other work is
//! under way is done as a group.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::journal::Change;
use super::named::Snapshot;
use super::offer::{Error, FeedSign, Fence, Offer, Outcomes, Update, check_revision};
use super::turn::{Step, WriteTurn};
use crate::account::Purpose;
use crate::limits::{Limit, Limits};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::state::revision::{Sizes, State};

/// Batches are recorded together until they have this many changes.
const MAX_GROUP_CHANGES: usize = 100_000;

/// The offers of one caller.
type Job = Arc<[Offer]>;

/// Batches that wait, in order, each with the index of its job.
type Waiting<'j> = Vec<(usize, &'j Offer)>;

impl Snapshot {
    /// Applies batches one after another until one is refused, together with those of waiting callers.
    pub(super) fn commit(&self, job: Job, limits: &Limits) -> Outcomes {
        let lead = |jobs: Vec<Job>| commit_all(self, &jobs, limits);
        self.group_commit.join(job, lead)
    }
}

/// Does jobs in their order. A refusal is final only if all before it is recorded, so a group ends before
/// the first batch that is refused.
fn commit_all(snapshot: &Snapshot, jobs: &[Job], limits: &Limits) -> Vec<Outcomes> {
    let Some(mut turn) = WriteTurn::take_unless_deleted(snapshot) else {
        return jobs.iter().map(|_| None).collect();
    };
    let mut outcomes: Vec<Vec<Result<Update, Error>>> = jobs.iter().map(|_| Vec::new()).collect();
    let all = jobs.iter().enumerate();
    let all = all.flat_map(|(job, offers)| offers.iter().map(move |offer| (job, offer)));
    let mut waiting: Waiting<'_> = all.collect();
    while !waiting.is_empty() {
        let mut group = waiting.len();
        let done = turn.attempt(|turn| commit_group(turn, &waiting, limits, &mut group));
        let done: Vec<Result<Update, Error>> = match done {
            Ok(None) => break,
            Ok(Some(updates)) => updates.into_iter().map(Ok).collect(),
            Err(error) => (0..group).map(|_| Err(error.clone())).collect(),
        };
        for ((job, _), done) in waiting.drain(..group).zip(done) {
            if !is_refused(&outcomes[job]) {
                outcomes[job].push(done);
            }
        }
        waiting.retain(|(job, _)| !is_refused(&outcomes[*job]));
    }
    let is_over = turn.position.deleted;
    let outcomes = jobs.iter().zip(outcomes);
    let outcomes = outcomes.map(|(job, outcomes)| finished(job, outcomes, is_over, snapshot));
    outcomes.collect()
}

fn is_refused(outcomes: &[Result<Update, Error>]) -> bool {
    outcomes.last().is_some_and(Result::is_err)
}

/// The outcomes of a job. If the snapshot is over, a job that has not begun begins again with the next
/// snapshot of its name.
fn finished(
    job: &[Offer],
    mut outcomes: Vec<Result<Update, Error>>,
    is_over: bool,
    snapshot: &Snapshot,
) -> Outcomes {
    if is_over && !is_refused(&outcomes) && outcomes.len() < job.len() {
        if outcomes.is_empty() {
            return None;
        }
        outcomes.push(Err(Error::NotFound(snapshot.name().to_owned())));
    }
    Some(outcomes)
}

/// Records the first of the batches that wait, and publishes the state after them. `group` becomes their
/// number, or that of those to which an error belongs.
fn commit_group(
    turn: &mut WriteTurn<'_>,
    waiting: &Waiting<'_>,
    limits: &Limits,
    group: &mut usize,
) -> Result<Vec<Update>, Error> {
    let mut next = Arc::clone(&turn.live);
    let (mut steps, mut changes) = (Vec::new(), 0);
    for (_, offer) in waiting {
        match plan(turn, &mut next, offer, limits) {
            Ok(step) => steps.push(step),
            Err(error) if steps.is_empty() => {
                *group = 1;
                return Err(error);
            }
            Err(_) => break,
        }
        changes += offer.batch.len();
        if changes >= MAX_GROUP_CHANGES {
            break;
        }
    }
    *group = steps.len();
    turn.commit(next, steps)
}

/// Checks a batch that follows a state, and applies it to that.
fn plan(
    turn: &WriteTurn<'_>,
    next: &mut Arc<State>,
    offer: &Offer,
    limits: &Limits,
) -> Result<Step, Error> {
    let (snapshot, at) = (turn.snapshot, turn.snapshot.now());
    let name = snapshot.name();
    Fence::check(offer.fence.as_ref(), name)?;
    check_revision(name, next.revision, offer.expected_revision)?;
    let constraints = offer.defaults.clone();
    let constraints = constraints.or_else(|| Defaults::first(next.revision));
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
    check_room(next, &batch, limits)?;
    let mut entry = turn.entry_after(next);
    entry.ended = next.reservations.taken_over(&batch);
    entry.change = Change::Batch(batch);
    entry.after.revision += 1;
    entry.after.updated = at.wall;
    entry.after.synced |= !snapshot.is_expected();
    // Stored defaults are read together with the versions.
    let is_read = defaults.is_some() || !news.is_empty();
    entry.after.resource_versions = is_read.then(|| Arc::clone(read));
    entry.after.defaults = defaults;
    let feed = FeedSign {
        arrived: offer.arrived,
        age: offer.age,
    };
    let next = Arc::make_mut(next);
    Ok(Step::apply(next, entry, at, at.steady, Some(feed)))
}

/// Checks that a state may grow by a batch.
pub fn check_room(state: &State, batch: &Batch, limits: &Limits) -> Result<(), Error> {
    let counts = |sizes: Sizes| {
        [
            (Limit::Nodes, sizes.nodes),
            (Limit::Pods, sizes.pods),
            (Limit::LabelSets, sizes.label_sets),
            (Limit::Owners, sizes.owners),
        ]
    };
    let before = counts(state.sizes);
    let is_roomy = |(limit, count): &(Limit, usize)| count + batch.len() <= limits.get(*limit);
    if !before.iter().all(is_roomy) {
        let mut changed = state.clone();
        changed.apply(batch, state.revision);
        for ((limit, after), (_, before)) in counts(changed.sizes).into_iter().zip(before) {
            // A change that does not grow the state is allowed, whatever the limit.
            if after > before {
                limits.check(limit, after)?;
            }
        }
    }
    if state.has_memory(batch) {
        return Ok(());
    }
    state.make_room();
    Ok(state.upkeep.account().check(Purpose::Objects, 0)?)
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
