//! `Place`: a request becomes a plan, which is run and answered.

use std::sync::Arc;
use std::time::Duration;

use tonic::Response;

use super::error::Error;
use super::export::timestamp;
use super::measured::try_measured;
use super::{answer, fleet as fleet_answer, request, wish};
use crate::access::Role;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, DecidedPicks, Hold, Limits, ReadView, Snapshot};
use crate::spread::{NodeChecks, Question, fleet, place};

/// The role that a request needs: to hold what was picked changes a snapshot.
pub fn role(wire: &v1::PlaceRequest) -> Role {
    match wire.reserve {
        Some(_) => Role::Feeder,
        None => Role::Reader,
    }
}

/// A valid `Place` request.
#[derive(Debug)]
pub struct Checked {
    /// The snapshot that it means.
    pub snapshot: String,
    /// The revision to wait for.
    pub min_revision: i64,
    ask: Ask,
    candidates: Option<v1::NodeNames>,
    checks: NodeChecks,
    view: v1::View,
    overlay: Batch,
    max_domains: usize,
    reserve: Option<Hold>,
    limits: Limits,
}

/// What is asked, by dialect.
#[derive(Debug)]
enum Ask {
    Kubernetes(Box<Question>, place::Wish),
    Fleet(Box<fleet::Question>, fleet::Wish),
}

/// What is planned, by dialect.
enum Plan {
    Kubernetes(place::Plan),
    Fleet(fleet::Plan),
}

impl Checked {
    /// Checks a request.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(mut wire: v1::PlaceRequest, limits: &Limits) -> Result<Self, Error> {
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, Path::root("snapshot"), &mut faults);
        request::check_candidates(wire.candidates.as_ref(), limits, &mut faults);
        let checks = request::node_checks(wire.node_checks, &mut faults);
        let dialect: v1::Dialect = request::known(wire.dialect, Path::root("dialect"), &mut faults);
        request::check_not_negative(wire.min_revision, Path::root("minRevision"), &mut faults);
        let max_domains = request::max_domains(wire.max_domains, &mut faults);
        let overlay = request::overlay(std::mem::take(&mut wire.overlay), limits, &mut faults);
        let view = request::known(wire.view, Path::root("view"), &mut faults);
        if view == v1::View::Bitmap {
            faults.add(Path::root("view"), "must not be VIEW_BITMAP");
        }
        let ask = if dialect == v1::Dialect::Fleet {
            Ask::fleet(&mut wire, limits, &mut faults)
        } else {
            Ask::kubernetes(&mut wire, limits, &mut faults)
        };
        let reserve = wish::hold(wire.reserve.take(), limits, &mut faults);
        if reserve.is_some() && !overlay.is_empty() {
            faults.add(Path::root("reserve"), "must not be set with an overlay");
        }
        let Some(ask) = ask else {
            return Err(faults.into());
        };
        let reserve = reserve.map(|(owner, ttl)| ask.hold(owner, ttl));
        Ok(faults.finish(Self {
            snapshot,
            min_revision: wire.min_revision,
            ask,
            candidates: wire.candidates,
            checks,
            view,
            overlay,
            max_domains,
            reserve,
            limits: limits.clone(),
        })?)
    }

    /// Whether the picks are to be held.
    pub fn reserves(&self) -> bool {
        self.reserve.is_some()
    }

    /// Places and answers, without holding anything.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` said so, and
    /// [`Error::OverLimit`] for too many steps to list.
    pub fn answer(
        &mut self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let overlay = std::mem::take(&mut self.overlay);
        let namespace = self.ask.namespace();
        let planned = snapshot.read_until(namespace, overlay, cancelled, |read_view| {
            self.plan(&read_view)
        });
        let response = self.run(planned.map_err(|_| Error::Deadline)?, cancelled)?;
        Ok(said_of(snapshot, response))
    }

    /// Whether the answer lists what was placed.
    pub fn lists_placements(&self) -> bool {
        self.view != v1::View::Domains
    }

    /// Holds what an [answer](Self::answer) has picked, if that is to be held;
    /// places again when the snapshot has moved on since. Waits for others who
    /// write, and for a disk.
    ///
    /// # Errors
    /// As for [`Self::answer`], and those of [`Snapshot::reserve`].
    pub fn hold(
        &self,
        answer: Response<v1::PlaceResponse>,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Response<v1::PlaceResponse>, Error> {
        let Some(hold) = &self.reserve else {
            return Ok(answer);
        };
        let again = || {
            let answer = try_measured(|| {
                let plan = |read_view: ReadView<'_>| self.plan(&read_view);
                let as_it_is = Batch::default();
                let planned = snapshot.read_until(&hold.namespace, as_it_is, cancelled, plan);
                self.run(planned.map_err(|_| Error::Deadline)?, cancelled)
            })?;
            Ok::<_, Error>(decided(answer.map(|r| said_of(snapshot, r))))
        };
        let reserved = snapshot.reserve(hold, &self.limits, decided(answer), again);
        let (reserved, mut answer) = reserved?;
        if cancelled() {
            // Nobody is there to learn what is held. What cannot be released
            // ends by itself.
            let _ = snapshot.release(reserved.ids);
            return Err(Error::Deadline);
        }
        let response = answer.get_mut();
        response.revision = reserved.revision;
        response.reserved_until = Some(timestamp(reserved.until));
        for (pick, id) in response.placements.iter_mut().zip(reserved.ids) {
            pick.reservation_id = id;
        }
        Ok(answer)
    }

    /// What is gathered from a read view: a plan, and what can be answered already.
    fn plan(&self, read_view: &ReadView<'_>) -> (Plan, v1::PlaceResponse) {
        let plan = match &self.ask {
            Ask::Kubernetes(question, wish) => {
                Plan::Kubernetes(place::Plan::of(question, self.checks, wish, read_view))
            }
            Ask::Fleet(question, wish) => {
                Plan::Fleet(fleet::Plan::of(question, self.checks, wish, read_view))
            }
        };
        let names = self.candidates.iter().flat_map(|c| &c.names);
        let unknown = names.filter(|name| read_view.nodes.find(name).is_none());
        let response = v1::PlaceResponse {
            revision: read_view.revision,
            constraints_before: plan.reports(self.max_domains),
            unknown_candidates: unknown.cloned().collect(),
            ..Default::default()
        };
        (plan, response)
    }

    fn run(
        &self,
        (plan, mut response): (Plan, v1::PlaceResponse),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        match plan {
            Plan::Kubernetes(mut plan) => {
                let outcome = plan.run(cancelled).ok_or(Error::Deadline)?;
                let picks = outcome.picks.into_iter();
                response.placements = picks.map(|p| placement(p.node, p.score)).collect();
                response.unplaced = small(outcome.unplaced);
                response.reasons = answer::reason_counts(&outcome.reasons);
                response.constraints = Plan::Kubernetes(plan).reports(self.max_domains);
            }
            Plan::Fleet(mut plan) => {
                let with_steps = self.view == v1::View::Full;
                if with_steps {
                    let scores = plan.step_scores();
                    self.limits.check(Limit::StepScores, scores)?;
                }
                let policy = fleet::Policy { with_steps };
                let outcome = plan.run(policy, cancelled).ok_or(Error::Deadline)?;
                let picks = outcome.picks.into_iter();
                response.placements = picks.map(|p| placement(p.node, p.score)).collect();
                response.unplaced = small(outcome.unplaced);
                response.reasons = answer::reason_counts(&outcome.reasons);
                response.steps = outcome.steps.into_iter().map(step).collect();
                response.removed = std::mem::take(&mut plan.removed);
                response.constraints = Plan::Fleet(plan).reports(self.max_domains);
            }
        }
        Ok(response)
    }
}

impl Ask {
    fn kubernetes(
        wire: &mut v1::PlaceRequest,
        limits: &Limits,
        faults: &mut Violations,
    ) -> Option<Self> {
        let question = Question::compile(wire.pod.as_ref(), limits, Path::root("pod"));
        let question = faults.collect(question);
        if !wire.holders.is_empty() {
            faults.add(Path::root("holders"), "applies in the Fleet dialect only");
        }
        if !wire.sticky.is_empty() {
            faults.add(Path::root("sticky"), "applies in the Fleet dialect only");
        }
        let wished = place::Wish {
            replicas: wish::replicas(wire.replicas, limits, faults),
            candidates: wire.candidates.as_ref().map(|c| c.names.clone()),
            bonuses: wish::bonuses(&wire.bonuses, limits, faults),
            capacities: wish::capacities(&wire.capacities, limits, faults),
        };
        Some(Self::Kubernetes(Box::new(question?), wished))
    }

    fn fleet(
        wire: &mut v1::PlaceRequest,
        limits: &Limits,
        faults: &mut Violations,
    ) -> Option<Self> {
        let question = fleet::Question::compile(wire.pod.clone(), limits, Path::root("pod"));
        let question = faults.collect(question);
        if !wire.capacities.is_empty() {
            let rule = "does not apply in the Fleet dialect: a cluster takes one";
            faults.add(Path::root("capacities"), rule);
        }
        let wished = fleet::Wish {
            replicas: wish::replicas(wire.replicas, limits, faults),
            candidates: wire.candidates.as_ref().map(|c| c.names.clone()),
            bonuses: wish::bonuses(&wire.bonuses, limits, faults),
            holders: wish::holders(&wire.holders, limits, faults),
            sticky: wish::sticky(&wire.sticky, limits, faults),
        };
        Some(Self::Fleet(Box::new(question?), wished))
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Kubernetes(question, _) => &question.namespace,
            Self::Fleet(question, _) => &question.placement.namespace,
        }
    }

    /// What its picks count as while they are held.
    fn hold(&self, owner: String, ttl: Duration) -> Hold {
        let labels = match self {
            Self::Kubernetes(question, _) => &question.labels,
            Self::Fleet(question, _) => &question.placement.labels,
        };
        Hold {
            owner: owner.into(),
            ttl,
            namespace: self.namespace().into(),
            labels: Arc::new(labels.clone()),
        }
    }
}

impl Plan {
    fn reports(&self, max_domains: usize) -> Vec<v1::ConstraintReport> {
        match self {
            Self::Kubernetes(plan) => {
                let reports = plan.reports(max_domains);
                reports.iter().map(answer::constraint_report).collect()
            }
            Self::Fleet(plan) => {
                let reports = plan.reports(max_domains);
                reports
                    .iter()
                    .map(fleet_answer::constraint_report)
                    .collect()
            }
        }
    }
}

/// An answer with what it says of the snapshot, but for the revision.
fn said_of(snapshot: &Snapshot, response: v1::PlaceResponse) -> v1::PlaceResponse {
    v1::PlaceResponse {
        epoch: snapshot.epoch().to_owned(),
        age: answer::age(snapshot.age()),
        ..response
    }
}

/// What an answer wants to be held.
fn decided(answer: Response<v1::PlaceResponse>) -> DecidedPicks<Response<v1::PlaceResponse>> {
    let picks = answer.get_ref().placements.iter();
    DecidedPicks {
        revision: answer.get_ref().revision,
        nodes: picks.map(|pick| pick.node.as_str().into()).collect(),
        answer,
    }
}

fn placement(node: Box<str>, score: i64) -> v1::Placement {
    v1::Placement {
        node: node.into(),
        score,
        reservation_id: String::new(),
    }
}

/// A step for the wire.
fn step(step: fleet::Step) -> v1::PlacementStep {
    let mut wire = v1::PlacementStep {
        ranking: step.ranking.into_iter().map(Into::into).collect(),
        picked: step.picked.into_iter().map(Into::into).collect(),
        ..Default::default()
    };
    for (node, verdict) in step.verdicts {
        match verdict {
            Ok(score) => wire
                .scores
                .push(fleet_answer::node_score(node.into(), score)),
            Err(refused) => wire.violations.push(fleet_answer::spread_verdict(
                node.into(),
                refused.reason,
                refused.constraint_index,
                refused.holders,
                refused.skew,
            )),
        }
    }
    wire
}

/// At most `max-replicas`, which a request counts in 32 bits.
fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
