//! `Place`: a request becomes a plan, which is run and answered.

use std::collections::{HashMap, HashSet};

use super::error::Error;
use super::{answer, fleet as fleet_answer, request};
use crate::matching::{Path, Violations};
use crate::proto::v1;
use crate::snapshot::{Batch, Cut, Limits, Snapshot};
use crate::spread::{NodeChecks, Question, fleet, place};

/// How far a bonus may be from 0, so that no sum overflows.
const MAX_BONUS: i64 = 1_000_000_000;

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
    max_step_scores: usize,
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
        let Some(ask) = ask else {
            return Err(faults.into());
        };
        Ok(faults.finish(Self {
            snapshot,
            min_revision: wire.min_revision,
            ask,
            candidates: wire.candidates,
            checks,
            view,
            overlay,
            max_domains,
            max_step_scores: limits.max_step_scores,
        })?)
    }

    /// Places and answers.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` said so, and
    /// [`Error::OverLimit`] for too many steps to list.
    pub fn answer(
        mut self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let overlay = std::mem::take(&mut self.overlay);
        let namespace = self.ask.namespace().to_owned();
        let (plan, response) = snapshot.read(&namespace, overlay, |cut| self.plan(&cut));
        let response = v1::PlaceResponse {
            epoch: snapshot.epoch().to_owned(),
            ..response
        };
        self.run(plan, response, cancelled)
    }

    /// What is gathered from a cut: a plan, and what can be answered already.
    fn plan(&self, cut: &Cut<'_>) -> (Plan, v1::PlaceResponse) {
        let plan = match &self.ask {
            Ask::Kubernetes(question, wish) => {
                Plan::Kubernetes(place::Plan::of(question, self.checks, wish, cut))
            }
            Ask::Fleet(question, wish) => {
                Plan::Fleet(fleet::Plan::of(question, self.checks, wish, cut))
            }
        };
        let names = self.candidates.iter().flat_map(|c| &c.names);
        let unknown = names.filter(|name| cut.nodes.find(name).is_none());
        let response = v1::PlaceResponse {
            revision: cut.revision,
            constraints_before: plan.reports(self.max_domains),
            unknown_candidates: unknown.cloned().collect(),
            ..Default::default()
        };
        (plan, response)
    }

    fn run(
        &self,
        plan: Plan,
        mut response: v1::PlaceResponse,
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
                if with_steps && plan.step_scores() > self.max_step_scores {
                    return Err(Error::OverLimit {
                        what: "scores of all steps",
                        name: "max-step-scores",
                        limit: self.max_step_scores,
                        retry_after: None,
                    });
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
        if self.view == v1::View::Domains {
            response.placements.clear();
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
        let wish = place::Wish {
            replicas: replicas(wire.replicas, limits, faults),
            candidates: wire.candidates.as_ref().map(|c| c.names.clone()),
            bonuses: bonuses(&wire.bonuses, limits, faults),
            capacities: capacities(&wire.capacities, limits, faults),
        };
        Some(Self::Kubernetes(Box::new(question?), wish))
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
        let wish = fleet::Wish {
            replicas: replicas(wire.replicas, limits, faults),
            candidates: wire.candidates.as_ref().map(|c| c.names.clone()),
            bonuses: bonuses(&wire.bonuses, limits, faults),
            holders: holders(&wire.holders, limits, faults),
            sticky: sticky(&wire.sticky, limits, faults),
        };
        Some(Self::Fleet(Box::new(question?), wish))
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Kubernetes(question, _) => &question.namespace,
            Self::Fleet(question, _) => &question.placement.namespace,
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

fn replicas(wire: i32, limits: &Limits, faults: &mut Violations) -> usize {
    let path = Path::root("replicas");
    request::check_not_negative(wire.into(), path, faults);
    let replicas = usize::try_from(wire).unwrap_or(0);
    if replicas > limits.max_replicas {
        faults.over_limit(path, "max-replicas", limits.max_replicas, replicas);
    }
    replicas
}

/// A list with at most one entry per node, as a map.
fn by_node<W, T>(
    list: &[W],
    field: &str,
    limits: &Limits,
    faults: &mut Violations,
    node: impl Fn(&W) -> &str,
    mut value: impl FnMut(&W, Path<'_>, &mut Violations) -> T,
) -> HashMap<String, T> {
    let path = Path::root(field);
    if list.len() > limits.max_nodes {
        faults.over_limit(path, "max-nodes", limits.max_nodes, list.len());
        return HashMap::new();
    }
    let mut map = HashMap::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let path = path.index(i);
        let name = node(entry);
        let value = value(entry, path, faults);
        if name.is_empty() {
            faults.add(path.field("node"), "is required");
        } else if map.insert(name.to_owned(), value).is_some() {
            faults.add(path.field("node"), "is in the list more than once");
        }
    }
    map
}

fn bonuses(
    list: &[v1::NodeBonus],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, i64> {
    let value = |bonus: &v1::NodeBonus, path: Path<'_>, faults: &mut Violations| {
        if bonus.score.abs_diff(0) > MAX_BONUS.unsigned_abs() {
            let rule = format!("must be from -{MAX_BONUS} to {MAX_BONUS}");
            faults.add(path.field("score"), rule);
        }
        bonus.score
    };
    by_node(list, "bonuses", limits, faults, |b| &b.node, value)
}

fn capacities(
    list: &[v1::NodeCapacity],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, u32> {
    let value = |capacity: &v1::NodeCapacity, path: Path<'_>, faults: &mut Violations| {
        request::check_not_negative(capacity.replicas.into(), path.field("replicas"), faults);
        u32::try_from(capacity.replicas).unwrap_or(0)
    };
    by_node(list, "capacities", limits, faults, |c| &c.node, value)
}

fn holders(
    list: &[v1::Holder],
    limits: &Limits,
    faults: &mut Violations,
) -> HashMap<String, fleet::Holding> {
    let value = |holder: &v1::Holder, path: Path<'_>, faults: &mut Violations| {
        let state: v1::HolderState = request::known(holder.state, path.field("state"), faults);
        fleet::Holding {
            bound: state != v1::HolderState::Scheduled,
            spread_score: holder.spread_score,
            bonus: holder.bonus,
        }
    };
    by_node(list, "holders", limits, faults, |h| &h.node, value)
}

fn sticky(list: &[String], limits: &Limits, faults: &mut Violations) -> HashSet<String> {
    let names = by_node(list, "sticky", limits, faults, |name| name, |_, _, _| ());
    names.into_keys().collect()
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
