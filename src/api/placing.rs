//! Places the replicas of a `Place` request: of one workload, or of several on one copy of the
//! snapshot, where each is placed on the room that the workloads before it leave.

use std::collections::{HashMap, HashSet, VecDeque};

use super::answer;
use super::dialect::{self, Dialect};
use super::error::Error;
use super::read_your_writes::AskedSnapshot;
use super::request_context::RequestContext;
use crate::limits::Limit;
use crate::matching::{Path, Violations};
use crate::plan;
use crate::proto::v1;
use crate::snapshot::{Batch, Hold, Imagined, Limits, Nodes, ReadView, Retryable, Snapshot};
use crate::spread::{NodeChecks, Pick, Picker, PlaceOptions, Report};

/// A valid `Place` request.
#[derive(Debug)]
pub struct ValidPlacement {
    /// The snapshot, and the revision to wait for.
    pub asked: AskedSnapshot,
    /// Changes that the placement assumes.
    pub overlay: Batch,
    /// True if the picks are reserved.
    pub reserves: bool,
    /// The identity of a request that may be repeated.
    pub retry: Option<Retryable>,
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

impl ValidPlacement {
    /// Places all workloads, and answers without the epoch and age of the snapshot.
    ///
    /// # Errors
    /// [`Error::Deadline`] when `cancelled` returned true, and [`Error::OverLimit`] for too many
    /// steps to list.
    pub fn answer(
        &self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let mut answer = match &*self.workloads {
            [one] if !self.is_list => self.place_one(one, snapshot, cancelled)?,
            _ => self.place_list(snapshot, cancelled)?,
        };
        if self.all_or_nothing && answer.unplaced > 0 {
            place_nothing(&mut answer);
        }
        Ok(answer)
    }

    /// Places one workload.
    fn place_one(
        &self,
        workload: &ValidWorkload,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let namespace = &workload.question.pod().namespace;
        snapshot.read_until(namespace, &self.overlay, cancelled, |read_view| {
            Ok(self.place_on(workload, &self.options, &read_view, false))
        })?
    }

    /// Places several workloads in their order. If this leaves replicas over and all workloads are
    /// planned together, tries other orders, and then other nodes for workloads of one replica, and takes
    /// what places the most replicas.
    fn place_list(
        &self,
        snapshot: &Snapshot,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
        let mut orders = WorkloadOrders::of(self.workloads.len());
        let mut best: Option<v1::PlaceResponse> = None;
        let mut in_order = None;
        let place = |order: &[usize], nodes: &[Vec<String>], away: &[Elsewhere]| {
            self.place_in((order, nodes, away), snapshot, cancelled)
        };
        let first: Vec<usize> = (0..self.workloads.len()).collect();
        let mut best = loop {
            let order = orders.next.clone();
            let mut answer = place(&order, &[], &[])?;
            if !order.is_sorted() && self.workloads.iter().any(|it| it.is_after_previous) {
                // These are placed in the order of the request, where that leaves them.
                answer = place(&first, &nodes_of(&answer), &[])?;
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
                if best.unplaced == 0 || tried == OTHER_NODES {
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
        cancelled: &dyn Fn() -> bool,
    ) -> Result<v1::PlaceResponse, Error> {
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
                let read_view = imagined.read(&workload.question.pod().namespace);
                if !away.is_empty() {
                    let nodes = read_view.nodes;
                    let all = || nodes.names().map(str::to_owned).collect();
                    let own = options.candidates.take();
                    let mut left: Vec<String> = own.unwrap_or_else(all);
                    left.retain(|name| away.iter().all(|it| it.admits(name, nodes)));
                    options.candidates = Some(left);
                }
                let answer = self.place_on(workload, &options, &read_view, waits)?;
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
            Ok(answer_of(&self.workloads, runs))
        };
        snapshot.imagine(&self.overlay, cancelled, place)
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
        let question = &workload.question;
        question.place(self, options, waits, response, read_view)
    }

    /// Picks, unless the workload waits for another, and completes the answer that was begun.
    pub fn pick<P: Picker>(
        &self,
        mut picker: P,
        report: fn(&Report<'_>) -> v1::ConstraintReport,
        waits: bool,
        begun: v1::PlaceResponse,
        read_view: &ReadView<'_>,
    ) -> Result<v1::PlaceResponse, Error> {
        let reports = |picker: &P| -> Vec<v1::ConstraintReport> {
            let reports = picker.reports(self.max_domains);
            reports.iter().map(report).collect()
        };
        let before = reports(&picker);
        if waits {
            return Ok(v1::PlaceResponse {
                constraints: before.clone(),
                constraints_before: before,
                ..begun
            });
        }
        let with_steps = self.view == v1::View::Full;
        if with_steps {
            let scores = picker.step_scores();
            self.limits.check(Limit::StepScores, scores)?;
        }
        let jointly = self.options.jointly;
        let outcome = plan::pick(&mut picker, jointly, with_steps, read_view.deadline)?;
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
            steps: outcome.steps,
            removed: outcome.removed,
            constraints: reports(&picker),
            constraints_before: before,
            ..begun
        })
    }
}

/// The most orders of workloads that are tried.
const ORDERS: usize = 8;

/// A workload that is placed.
#[derive(Debug)]
pub struct ValidWorkload {
    /// The workload's pod, checked.
    pub question: Box<dyn Dialect>,
    /// The number of replicas to place.
    pub replicas: usize,
    /// True if none is placed unless all replicas of the workload before it are.
    pub is_after_previous: bool,
    /// The name of the pod; empty if it has none.
    pub pod_name: String,
}

/// Checks the one workload of a request, or its list of workloads. Returns nothing if any of them
/// is not valid.
pub fn workloads(
    wire: &mut v1::PlaceRequest,
    by: &RequestContext,
    limits: &Limits,
    faults: &mut Violations,
) -> Vec<ValidWorkload> {
    let list = Path::root("workloads");
    if !faults.within(list, limits, Limit::PlacedWorkloads, wire.workloads.len()) {
        return Vec::new();
    }
    let in_dialect = wire.dialect;
    let mut valid = |pod: Option<v1::Pod>, replicas: i32, path: Path<'_>| {
        let metadata = pod.as_ref().and_then(|pod| pod.metadata.as_ref());
        let pod_name = metadata.map_or_else(String::new, |metadata| metadata.name.clone());
        Some(ValidWorkload {
            question: faults.collect(dialect::compile(in_dialect, pod, limits, path))?,
            replicas: usize::try_from(replicas).unwrap_or(0),
            is_after_previous: false,
            pod_name,
        })
    };
    if wire.workloads.is_empty() {
        let one = valid(wire.pod.take(), wire.replicas, Path::root("pod"));
        return one.into_iter().collect();
    }
    let all = by.awaited(&mut wire.workloads).enumerate();
    let all = all.map(|(index, it)| {
        let path = list.index(index);
        valid(it.pod.take(), it.replicas, path.field("pod"))
    });
    // Collects the faults of all workloads before the result tells whether all are valid.
    let all: Vec<_> = all.collect();
    if wire.workloads.first().is_some_and(|it| it.after_previous) {
        let path = list.index(0);
        faults.add(path.field("afterPrevious"), "there is none before it");
    }
    let mut all: Vec<ValidWorkload> = all.into_iter().collect::<Option<_>>().unwrap_or_default();
    for (valid, wire) in all.iter_mut().zip(&wire.workloads) {
        valid.is_after_previous = wire.after_previous;
    }
    all
}

/// Orders in which workloads are placed. Workloads with replicas left over come first in the next
/// order.
#[derive(Debug)]
pub struct WorkloadOrders {
    /// The next order.
    pub next: Vec<usize>,
    tried: HashSet<Vec<usize>>,
}

impl WorkloadOrders {
    /// Begins with the order of the request.
    pub fn of(workloads: usize) -> Self {
        Self {
            next: (0..workloads).collect(),
            tried: HashSet::new(),
        }
    }

    /// Returns whether there is another order to try, after one that left replicas of some
    /// workloads over.
    pub fn goes_on(&mut self, left_over: impl Fn(usize) -> bool) -> bool {
        let (first, then): (Vec<_>, Vec<_>) = self.next.iter().partition(|it| left_over(**it));
        let is_last = first.is_empty();
        let tried = std::mem::replace(&mut self.next, [first, then].concat());
        self.tried.insert(tried);
        !is_last && self.tried.len() < ORDERS && !self.tried.contains(&self.next)
    }
}

/// The most turns of one workload.
const TURNS: usize = 64;

/// Whose turn it is to be placed: each workload once, in an order, and then again those with replicas left
/// over after others were placed, as kube-scheduler tries pods again.
#[derive(Debug, Default)]
pub struct Turns {
    /// The workloads that had a turn.
    had: HashMap<usize, HadTurn>,
    /// The number of turns.
    taken: usize,
    /// The number of replicas that were placed.
    placed: usize,
}

/// The turns of a workload.
#[derive(Debug, Default)]
struct HadTurn {
    turns: usize,
    /// Its replicas that are left over.
    left: usize,
    /// The number of replicas of all workloads that were placed until its last turn.
    placed: usize,
}

impl Turns {
    /// The next workload of an order, if any is to be placed.
    pub fn next(&mut self, order: &[usize]) -> Option<usize> {
        let may_run = |at: &usize| match self.had.get(at) {
            None => true,
            Some(it) => it.left > 0 && it.placed < self.placed && it.turns < TURNS,
        };
        let start = self.taken.checked_rem(order.len())?;
        let mut rest = order[start..].iter().chain(&order[..start]).enumerate();
        let (passed, next) = rest.find(|(_, at)| may_run(at))?;
        self.taken = self.taken.saturating_add(passed).saturating_add(1);
        Some(*next)
    }

    /// The replicas of a workload that are left over, if it had a turn.
    pub fn left(&self, workload: usize) -> Option<usize> {
        self.had.get(&workload).map(|it| it.left)
    }

    /// A workload had its turn, in which so many of its replicas were placed.
    pub fn had(&mut self, workload: usize, replicas: usize, placed: usize) {
        self.placed = self.placed.saturating_add(placed);
        let it = self.had.entry(workload).or_default();
        it.turns = it.turns.saturating_add(1);
        it.left = replicas.saturating_sub(placed);
        it.placed = self.placed;
    }
}

/// The most other nodes that are tried for replicas that are one by themselves.
pub const OTHER_NODES: usize = 64;

/// A workload of one replica is to go elsewhere: not to a node, or not to the nodes with the same value
/// of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// The index of the workload.
    pub workload: usize,
    node: String,
    key: Option<String>,
}

impl Elsewhere {
    /// The other nodes that could be tried for the replicas of an answer, those of later replicas
    /// first: in another domain of each hard constraint, and then in the same.
    pub fn all(workloads: &[ValidWorkload], answer: &v1::PlaceResponse) -> Vec<Self> {
        let (mut all, mut in_the_same) = (Vec::new(), Vec::new());
        for placement in answer.placements.iter().rev() {
            let Ok(workload) = usize::try_from(placement.workload) else {
                continue;
            };
            if workloads[workload].replicas != 1 {
                continue;
            }
            let elsewhere = |key| Self {
                workload,
                node: placement.node.clone(),
                key,
            };
            let reports = &answer.workloads[workload].constraints;
            let constraints = reports.iter().filter_map(|it| it.constraint.as_ref());
            let hard = constraints.filter(|it| it.when_unsatisfiable != "ScheduleAnyway");
            all.extend(hard.map(|it| elsewhere(Some(it.topology_key.clone()))));
            in_the_same.push(elsewhere(None));
        }
        all.append(&mut in_the_same);
        all
    }

    /// Returns whether it is to go to another domain, not only to another node.
    pub fn is_in_other_domain(&self) -> bool {
        self.key.is_some()
    }

    /// Returns whether a node is elsewhere.
    pub fn admits(&self, node: &str, nodes: &Nodes) -> bool {
        let label = |node: &str| {
            let found = nodes.find(node).and_then(|slot| nodes.get(slot))?;
            found.label_text(self.key.as_deref()?)
        };
        let away = label(&self.node);
        node != self.node && (away.is_none() || label(node) != away)
    }
}

/// The answer about several workloads, from the answer about each turn with the index of its workload,
/// in order.
pub fn answer_of(
    valid: &[ValidWorkload],
    mut turns: Vec<(usize, v1::PlaceResponse)>,
) -> v1::PlaceResponse {
    let mut all = v1::PlaceResponse::default();
    if let Some((_, first)) = turns.first_mut() {
        all.revision = first.revision;
        all.unknown_candidates = std::mem::take(&mut first.unknown_candidates);
        all.unknown_nodes = std::mem::take(&mut first.unknown_nodes);
        all.unknown_deletes = std::mem::take(&mut first.unknown_deletes);
        all.defaults = first.defaults;
    }
    let mut workloads: Vec<Option<v1::WorkloadPlacement>> = vec![None; valid.len()];
    let is_joint = turns.iter().all(|(_, answer)| answer.bound.is_some());
    for (at, answer) in turns {
        let placed = i32::try_from(answer.placements.len()).unwrap_or(i32::MAX);
        let workload = i32::try_from(at).unwrap_or(i32::MAX);
        let placements = answer.placements.into_iter();
        all.placements.extend(placements.map(|it| v1::Placement {
            workload,
            pod_name: valid[at].pod_name.clone(),
            ..it
        }));
        all.unchecked.extend(answer.unchecked.iter().cloned());
        let turn = v1::WorkloadPlacement {
            placed_count: placed,
            unplaced: answer.unplaced,
            reasons: answer.reasons,
            constraints: answer.constraints,
            constraints_before: answer.constraints_before,
            unchecked: answer.unchecked,
            bound: answer.bound,
            score_bound: answer.score_bound,
            pod_name: valid[at].pod_name.clone(),
        };
        workloads[at] = Some(match workloads[at].take() {
            None => turn,
            Some(before) => v1::WorkloadPlacement {
                placed_count: before.placed_count.saturating_add(placed),
                constraints_before: before.constraints_before,
                bound: turn.bound.map(|it| it.saturating_add(before.placed_count)),
                score_bound: before
                    .score_bound
                    .zip(turn.score_bound)
                    .map(|(a, b)| a.saturating_add(b)),
                ..turn
            },
        });
    }
    all.unchecked.sort_unstable();
    all.unchecked.dedup();
    all.workloads = workloads
        .into_iter()
        .map(Option::unwrap_or_default)
        .collect();
    let unplaced = all.workloads.iter().map(|it| it.unplaced);
    all.unplaced = unplaced.fold(0, i32::saturating_add);
    all.bound = is_joint.then(|| wanted(&all));
    all
}

/// The nodes of the placements of each workload.
pub fn nodes_of(answer: &v1::PlaceResponse) -> Vec<Vec<String>> {
    let mut nodes = vec![Vec::new(); answer.workloads.len()];
    for placement in &answer.placements {
        let of = usize::try_from(placement.workload).ok();
        if let Some(nodes) = of.and_then(|of| nodes.get_mut(of)) {
            nodes.push(placement.node.clone());
        }
    }
    nodes
}

/// Takes all placements of an answer back: every replica is unplaced, for the reasons in the
/// answer.
pub fn place_nothing(answer: &mut v1::PlaceResponse) {
    answer.unplaced = wanted(answer);
    answer.placements.clear();
    answer.score_bound = None;
    answer.constraints.clone_from(&answer.constraints_before);
    for workload in &mut answer.workloads {
        workload.unplaced = workload.unplaced.saturating_add(workload.placed_count);
        workload.placed_count = 0;
        workload.score_bound = None;
        workload
            .constraints
            .clone_from(&workload.constraints_before);
    }
}

/// Returns the number of replicas that were asked for.
fn wanted(answer: &v1::PlaceResponse) -> i32 {
    let placed = i32::try_from(answer.placements.len()).unwrap_or(i32::MAX);
    placed.saturating_add(answer.unplaced)
}
