//! Places the replicas of a `Place` request: of one workload, or of several on one copy of the
//! snapshot.

use std::collections::VecDeque;

use super::answer;
use super::error::Error;
use super::place_workloads::{self, Elsewhere, Turns, ValidWorkload, WorkloadOrders};
use crate::limits::Limit;
use crate::proto::v1;
use crate::snapshot::{Batch, Deadline, Hold, Imagined, Limits, ReadView, Snapshot};
use crate::spread::{NodeChecks, Pick, PickStep, Picker, PlaceOptions};

/// The workloads to place, and the options for that.
#[derive(Debug)]
pub struct Placing {
    /// One workload, or a list.
    pub workloads: Vec<ValidWorkload>,
    /// True if the request has a list of workloads, even of one.
    pub is_list: bool,
    /// The form in which the picks of each workload count.
    pub holds: Vec<Hold>,
    /// True if nothing is placed when some replicas find no node.
    pub all_or_nothing: bool,
    /// The options for all workloads together.
    pub options: PlaceOptions,
    /// The nodes that the request names besides candidates.
    pub named: Vec<String>,
    /// The checks that nodes have to pass.
    pub checks: NodeChecks,
    /// The extent of the answer.
    pub view: v1::View,
    /// The number of domains that a report lists.
    pub max_domains: usize,
    /// The limits of the server.
    pub limits: Limits,
}

impl Placing {
    /// Places all workloads, and answers without the epoch and age of the snapshot.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` returned true, and [`Error::OverLimit`] for too many
    /// steps to list.
    pub fn answer(
        &self,
        snapshot: &Snapshot,
        overlay: Batch,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let mut answer = match &*self.workloads {
            [one] if !self.is_list => self.place_one(one, snapshot, overlay, cancelled)?,
            _ => self.place_list(snapshot, &overlay, cancelled)?,
        };
        if self.all_or_nothing && answer.unplaced > 0 {
            place_workloads::place_nothing(&mut answer);
        }
        Ok(answer)
    }

    /// Places one workload.
    fn place_one(
        &self,
        workload: &ValidWorkload,
        snapshot: &Snapshot,
        overlay: Batch,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let reach = workload.question.pod().reach();
        snapshot.read_until(reach, overlay, cancelled, |read_view| {
            Ok(self.place_on(workload, &self.options, &read_view, false))
        })?
    }

    /// Places several workloads in their order. If this leaves replicas over and all workloads are
    /// planned together, tries other orders, and then other nodes for workloads of one replica, and takes
    /// what places the most replicas.
    fn place_list(
        &self,
        snapshot: &Snapshot,
        overlay: &Batch,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let mut orders = WorkloadOrders::of(self.workloads.len());
        let mut best: Option<v1::PlaceResponse> = None;
        let mut in_order = None;
        let place = |order: &[usize], nodes: &[Vec<String>], away: &[Elsewhere]| {
            self.place_in((order, nodes, away), snapshot, overlay, cancelled)
        };
        let first: Vec<usize> = (0..self.workloads.len()).collect();
        let mut best = loop {
            let order = orders.next.clone();
            let mut answer = place(&order, &[], &[])?;
            if !order.is_sorted() && self.workloads.iter().any(|it| it.is_after_previous) {
                // These are placed in the order of the request, where that leaves them.
                answer = place(&first, &place_workloads::nodes_of(&answer), &[])?;
            }
            in_order.get_or_insert_with(|| answer.clone());
            let left_over = |at: usize| answer.workloads[at].unplaced > 0;
            let goes_on = self.options.jointly && orders.goes_on(left_over);
            let best_yet = match best.take() {
                Some(known) if known.unplaced <= answer.unplaced => known,
                _ => answer,
            };
            if !goes_on {
                break best_yet;
            }
            best = Some(best_yet);
        };
        // Then other nodes are tried, in the order of the request: beside those that brought more, else
        // beside those that brought as much.
        let mut tried = 0;
        let in_order = in_order.filter(|_| self.options.jointly);
        let mut tries: VecDeque<_> = in_order
            .map(|known| (Vec::new(), known))
            .into_iter()
            .collect();
        while let Some((away, known)) = tries.pop_front() {
            for other in Elsewhere::all(&self.workloads, &known) {
                if best.unplaced == 0 || tried == place_workloads::OTHER_NODES {
                    return Ok(best);
                }
                tried = tried.saturating_add(1);
                let is_in_other_domain = other.is_in_other_domain();
                let away = [&away[..], &[other]].concat();
                let answer = place(&first, &[], &away)?;
                if answer.unplaced < best.unplaced {
                    best = answer.clone();
                    tries.clear();
                    tries.push_back((away, answer));
                    break;
                }
                if answer.unplaced > known.unplaced {
                    continue;
                }
                match is_in_other_domain {
                    true => tries.push_front((away, answer)),
                    false => tries.push_back((away, answer)),
                }
            }
        }
        Ok(best)
    }

    /// Places workloads in this order on one revision, each on the room that those before it leave. What
    /// finds no node is tried again after others were placed.
    /// A workload for which there are `nodes` goes only to these, and one that is to go elsewhere only
    /// there.
    fn place_in(
        &self,
        (order, nodes, away): (&[usize], &[Vec<String>], &[Elsewhere]),
        snapshot: &Snapshot,
        overlay: &Batch,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let pods = self.workloads.iter().map(|it| it.question.pod());
        let namespaces: Vec<&str> = pods.map(|pod| pod.namespace.as_str()).collect();
        let place = |imagined: &mut Imagined<'_>| {
            let mut options = self.options.clone();
            let mut runs: Vec<(usize, v1::PlaceResponse)> = Vec::with_capacity(order.len());
            let mut turns = Turns::default();
            while let Some(at) = turns.next(order) {
                let workload = &self.workloads[at];
                options.replicas = turns.left(at).unwrap_or(workload.replicas);
                let own = nodes.get(at).filter(|nodes| !nodes.is_empty()).cloned();
                options.candidates = own.or_else(|| self.options.candidates.clone());
                let away: Vec<_> = away.iter().filter(|it| it.workload == at).collect();
                let before = at.checked_sub(1).and_then(|before| turns.left(before));
                let waits = workload.is_after_previous && before.is_some_and(|left| left > 0);
                let place = |read_view: ReadView<'_>| {
                    if !away.is_empty() {
                        let nodes = read_view.nodes;
                        let all = || nodes.names().map(str::to_owned).collect();
                        let own = options.candidates.take();
                        let mut left: Vec<String> = own.unwrap_or_else(all);
                        left.retain(|name| away.iter().all(|it| it.admits(name, nodes)));
                        options.candidates = Some(left);
                    }
                    self.place_on(workload, &options, &read_view, waits)
                };
                let answer = imagined.read(namespaces[at], place);
                let answer = answer.ok_or(Error::Internal)??;
                let nodes = answer.placements.iter().map(|pick| pick.node.as_str());
                imagined.hold(&self.holds[at], nodes.clone())?;
                for node in nodes {
                    if let Some(left) = options.capacities.get_mut(node) {
                        *left = left.saturating_sub(1);
                    }
                }
                turns.had(at, options.replicas, answer.placements.len());
                runs.push((at, answer));
            }
            Ok(place_workloads::answer_of(&self.workloads, runs))
        };
        snapshot.imagine(&namespaces, overlay, cancelled, place)
    }

    /// Places the replicas of a workload on a read view, unless it waits for another, and answers.
    fn place_on(
        &self,
        workload: &ValidWorkload,
        options: &PlaceOptions,
        read_view: &ReadView<'_>,
        waits: bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let unknown = |names: &[String]| {
            answer::unknown_nodes(names.iter().map(String::as_str), read_view.nodes)
        };
        let response = v1::PlaceResponse {
            revision: read_view.revision,
            unknown_candidates: unknown(options.candidates.as_deref().unwrap_or_default()),
            unknown_nodes: unknown(&self.named),
            unchecked: workload.question.pod().unchecked(self.checks, read_view)?,
            unknown_deletes: read_view.unknown_deletes.to_vec(),
            defaults: answer::defaults_kind(read_view.defaults),
            unplaced: i32::try_from(options.replicas).unwrap_or(i32::MAX),
            bound: options.jointly.then_some(0),
            ..Default::default()
        };
        let mut answer = None;
        let mut place = |picker: &mut dyn Picker| {
            let constraints = self.reports(workload, picker);
            let response = v1::PlaceResponse {
                constraints: constraints.clone(),
                constraints_before: constraints,
                ..response.clone()
            };
            answer = Some(match waits {
                true => Ok(response),
                false => self.pick(workload, picker, response, read_view.deadline),
            });
        };
        let question = &workload.question;
        question.place(self.checks, options, read_view, &mut place)?;
        answer.unwrap_or(Ok(response))
    }

    /// Picks, and completes the response.
    fn pick(
        &self,
        workload: &ValidWorkload,
        picker: &mut dyn Picker,
        response: v1::PlaceResponse,
        deadline: &Deadline<'_>,
    ) -> Result<v1::PlaceResponse, Error> {
        let with_steps = self.view == v1::View::Full;
        if with_steps {
            let scores = picker.step_scores();
            self.limits.check(Limit::StepScores, scores)?;
        }
        let outcome = picker.run(with_steps, deadline)?;
        let placement = |pick: Pick| v1::Placement {
            node: pick.node.into(),
            score: pick.score,
            ..Default::default()
        };
        let bound = outcome.bound;
        let bound = bound.map(|it| i32::try_from(it).unwrap_or(i32::MAX));
        Ok(v1::PlaceResponse {
            placements: outcome.picks.into_iter().map(placement).collect(),
            unplaced: i32::try_from(outcome.unplaced).unwrap_or(i32::MAX),
            bound,
            score_bound: outcome.total_bound,
            reasons: answer::reason_counts(&outcome.reasons),
            steps: outcome.steps.into_iter().map(step).collect(),
            removed: outcome.removed,
            constraints: self.reports(workload, picker),
            ..response
        })
    }

    fn reports(&self, workload: &ValidWorkload, picker: &dyn Picker) -> Vec<v1::ConstraintReport> {
        let reports = picker.reports(self.max_domains);
        let reports = reports.iter();
        reports.map(|r| workload.question.report(r)).collect()
    }
}

/// A step for the wire.
fn step(step: PickStep) -> v1::PlacementStep {
    let mut wire = v1::PlacementStep {
        ranking: step.ranking.into_iter().map(Into::into).collect(),
        picked: step.picked.into_iter().map(Into::into).collect(),
        ..Default::default()
    };
    for (node, verdict) in step.verdicts {
        match verdict {
            // A cluster's topology spread score is taken as it is.
            Ok(score) => wire.scores.push(v1::NodeScore {
                node: node.into(),
                score,
                raw: score,
                ignored: false,
            }),
            Err(refusal) => {
                let refused = answer::node_verdict(node.into(), &refusal);
                wire.violations.push(refused);
            }
        }
    }
    wire
}
