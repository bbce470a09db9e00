//! Commits batches to a snapshot: one after another, checked, recorded in the journal, applied.
//! Batches of waiting callers are recorded and published together.

use std::sync::Arc;

use super::capacity::{check_room, is_roomy};
use super::error::Error;
use super::following::ATTEMPTS;
use super::journal::{OwnedChange, OwnedEntry};
use super::named::Snapshot;
use super::offer::{FeedSign, Fence, Job, Offer, Outcomes, Update, check_revision};
use super::turn::{RecordedStep, WriteTurn};
use crate::limits::Limits;
use crate::snapshot::clock::Now;
use crate::snapshot::counters;
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::reservation::Serial;
use crate::snapshot::objects::resource_versions::ResourceVersions;

/// Batches are recorded together until they have this many changes.
const MAX_GROUP_CHANGES: usize = 100_000;

/// An offer that passed its checks, and has its place in the order.
struct Planned {
    /// The index of the job that wants this change.
    job: usize,
    /// The batch; `None` where only reservations end.
    offer: Option<Offer>,
    /// The entry of the batch, with the requests of pods by the rules of the snapshot's version.
    entry: OwnedEntry,
    /// The number of reservations that end because their time is over.
    expired: usize,
    at: Now,
}

/// The commit that one caller makes for all that wait.
struct Commit<'s> {
    turn: WriteTurn<'s>,
    limits: &'s Limits,
    /// The offers that are recorded together next, and then applied one by one.
    group: Vec<Planned>,
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
        turn,
        limits,
        group: Vec::new(),
        changes: 0,
        outcomes: jobs.iter().map(|_| Vec::new()).collect(),
        knows_all: !snapshot.around.is_shared(),
        attempts: 0,
    };
    // Entries that arrived meanwhile probably conflict with the next ones. If reading them fails,
    // recording fails, too.
    let _ = commit.turn.prepare();
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
    /// Adds a job's work to the group, unless the job was refused before: a batch, or the end of
    /// reservations.
    fn add(&mut self, job: usize, offer: Option<&Offer>) {
        if self.is_refused(job) || self.turn.position.deleted {
            return;
        }
        let len = offer.map_or(0, |o| o.batch.len());
        let changes = self.changes + len;
        let fits = changes <= MAX_GROUP_CHANGES && is_roomy(&self.turn.live, changes, self.limits);
        let mut planned = self.plan(job, offer);
        // Without a group before it, the work is judged by the state itself.
        if !self.group.is_empty() && (!fits || planned.is_err()) {
            self.carry_out();
            if self.is_refused(job) {
                return;
            }
            planned = self.plan(job, offer);
        }
        // A refusal is final only if no entry of others was missed.
        if planned.is_err() && !self.knows_all {
            planned = match self.turn.catch_up(true) {
                Ok(()) if self.turn.position.deleted => return,
                Ok(()) => self.plan(job, offer),
                Err(error) => Err(error),
            };
            self.knows_all = true;
        }
        match planned {
            Ok(planned) => {
                self.changes += len;
                self.group.extend(planned);
            }
            Err(error) => self.outcomes[job].push(Err(error)),
        }
    }

    fn is_refused(&self, job: usize) -> bool {
        self.outcomes[job].last().is_some_and(Result::is_err)
    }

    /// Checks work that follows the group. `None` when there is nothing to do.
    fn plan(&self, job: usize, offer: Option<&Offer>) -> Result<Option<Planned>, Error> {
        let snapshot = self.turn.snapshot;
        let live = &self.turn.live;
        let at = snapshot.now();
        let last = self.group.last();
        let before = last.map_or(live.revision, |planned| planned.entry.after.revision);
        let mut entry = self.turn.entry();
        let mut ended = match offer {
            Some(offer) => {
                Fence::check(offer.fence.as_ref(), snapshot.name())?;
                check_revision(snapshot.name(), before, offer.expected_revision)?;
                let known = self.defaults();
                let constraints = offer.defaults.clone().or_else(|| Defaults::first(before));
                let (mut after, news) = (self.resource_versions(), &offer.resource_versions);
                if !news.is_empty() {
                    let other = |other| Error::OtherCluster(snapshot.name().to_owned(), other);
                    after = Arc::new(after.after(news).map_err(other)?);
                }
                let defaults = known.after(constraints.as_ref(), offer.version, &after);
                // Stored defaults are read together with them.
                let read = (defaults.is_some() || !news.is_empty()).then_some(after);
                let rules = defaults.as_ref().unwrap_or(&known).rules();
                let batch = Batch::of_version(&offer.batch, rules);
                check_room(live, &batch, self.limits)?;
                let taken = live.reservations.taken_over(&batch);
                entry.change = OwnedChange::Batch(batch);
                entry.after.defaults = defaults;
                entry.after.resource_versions = read;
                taken
            }
            None => snapshot.due(at.steady),
        };
        let is_planned = |serial: &Serial| {
            let mut planned = self.group.iter();
            planned.any(|p| p.entry.ended.binary_search(serial).is_ok())
        };
        ended.retain(|serial| !is_planned(serial));
        let expired = match offer {
            Some(_) => 0,
            None if ended.is_empty() => return Ok(None),
            None => {
                let is_held = |serial: &&Serial| live.reservations.holds(**serial);
                ended.iter().filter(is_held).count()
            }
        };
        // The revision stays if only answers are forgotten, which no reader can see.
        let moves = offer.is_some() || expired > 0;
        entry.after.revision = before + i64::from(moves);
        if moves {
            entry.after.updated = at.wall;
        } else if let Some(last) = last {
            entry.after.updated = last.entry.after.updated;
        }
        // The end of reservations is no sign of a feed.
        entry.after.synced |= last.is_some_and(|last| last.entry.after.synced)
            || offer.is_some() && !snapshot.is_expected();
        entry.ended = ended;
        Ok(Some(Planned {
            job,
            offer: offer.cloned(),
            entry,
            expired,
            at,
        }))
    }

    /// The defaults after the group.
    fn defaults(&self) -> Arc<Defaults> {
        let mut planned = self.group.iter().rev();
        let set = planned.find_map(|planned| planned.entry.after.defaults.clone());
        set.unwrap_or_else(|| Arc::clone(self.turn.live.defaults()))
    }

    /// The versions up to which the feed has read after the group.
    fn resource_versions(&self) -> Arc<ResourceVersions> {
        let mut planned = self.group.iter().rev();
        let set = planned.find_map(|planned| planned.entry.after.resource_versions.clone());
        set.unwrap_or_else(|| Arc::clone(self.turn.live.resource_versions()))
    }

    /// Records the group and applies it. Where others came first, their entries
    /// are applied, and the group is planned again.
    fn carry_out(&mut self) {
        loop {
            let mut group = std::mem::take(&mut self.group);
            self.changes = 0;
            let entries = group.iter_mut().map(|planned| &mut planned.entry);
            let mut entries: Vec<&mut OwnedEntry> = entries.collect();
            match self.turn.record(&mut entries) {
                Ok(()) => {
                    self.attempts = 0;
                    return self.apply(group);
                }
                Err(error) if error.is_behind() => self.plan_again(group),
                Err(error) => return self.refuse(group, &error),
            }
        }
    }

    fn plan_again(&mut self, group: Vec<Planned>) {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            let name = self.turn.snapshot.name().to_owned();
            return self.refuse(group, &Error::Contended(name));
        }
        if let Err(error) = self.turn.catch_up(false) {
            return self.refuse(group, &error);
        }
        let wants: Vec<_> = group.into_iter().map(|p| (p.job, p.offer)).collect();
        for (job, offer) in &wants {
            self.add(*job, offer.as_ref());
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

    /// Applies a recorded group.
    fn apply(&mut self, group: Vec<Planned>) {
        if group.is_empty() {
            return;
        }
        let counters = &self.turn.snapshot.around.counters;
        let mut jobs = Vec::with_capacity(group.len());
        let steps = group.into_iter().map(|planned| {
            counters::add(&counters.expired, planned.expired);
            jobs.push(planned.job);
            let feed = planned.offer.map(|offer| FeedSign {
                arrived: offer.arrived,
                age: offer.age,
            });
            RecordedStep::own(planned.entry, planned.at, feed)
        });
        let updates = self.turn.apply(steps.collect::<Vec<_>>());
        for (job, update) in jobs.into_iter().zip(updates) {
            self.outcomes[job].push(Ok(update));
        }
    }
}
