//! Plans which pods to move so that constraints are satisfied, with the causes that keep a workload from
//! being even.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::movable::{EvictionRules, MovablePod, PodClass};
use super::spread_model::{Moving, RefusedSteps, SpreadModel, Stepped, replay};
use crate::matching::{Selector, TaintedNode};
use crate::proto::v1::move_blocker::Kind;
use crate::proto::{count, v1};
use crate::snapshot::{DomainId, Imagined, PodGroups, ReadView, Stopped};
use crate::spread::describe::{Balance, JudgedWorkload, NamedWorkload, WorkloadId, WorkloadPods};
use crate::spread::{Filter, NodeChecks, Reason};

/// The most rounds over all namespaces. After a workload has moved, another may find room.
const MOST_ROUNDS: usize = 8;

/// The number of refused steps after which no more steps are planned for a workload.
const MOST_REFUSALS: usize = 64;

/// The options of a plan that repairs constraints.
#[derive(Debug, Clone)]
pub struct RebalanceOptions {
    /// The namespace; `None` means all.
    pub namespace: Option<String>,
    /// The workload; `None` means all.
    pub workload: Option<NamedWorkload>,
    /// Selects pods; only their workloads are repaired. `None` means all.
    pub selector: Option<Selector>,
    /// True if soft constraints are repaired too.
    pub soft: bool,
    /// The topology key over which workloads without constraints are made even.
    pub by: Option<Arc<str>>,
    /// The largest number of moves.
    pub most_moves: usize,
    /// The largest number of moves for each workload.
    pub most_of_workload: usize,
    /// The largest number of moves out of each node.
    pub most_of_node: usize,
    /// The rules about the pods.
    pub rules: EvictionRules,
}

impl RebalanceOptions {
    /// Returns whether a workload is to be repaired.
    ///
    /// # Errors
    /// The decision ends here.
    pub(super) fn means(
        &self,
        namespace: &str,
        id: &WorkloadId,
        workload: &WorkloadPods<'_>,
        pods: &PodGroups<'_>,
    ) -> Result<bool, Stopped> {
        let is_named = self.namespace.as_ref().is_none_or(|it| *it == *namespace)
            && self
                .workload
                .as_ref()
                .is_none_or(|named| id.kind == named.kind && id.name == named.name);
        let Some(selector) = self.selector.as_ref().filter(|_| is_named) else {
            return Ok(is_named);
        };
        for group in &workload.groups {
            if pods.selects(selector, group)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The workloads of a plan by namespace, each with the key by which it is judged, if not by constraints.
type PlannedWorkloads = BTreeMap<(String, WorkloadId), (Option<Arc<str>>, v1::RebalancedWorkload)>;

/// A workload without moves, as it was judged before these.
pub(super) fn unmoved(namespace: &str, before: JudgedWorkload) -> v1::RebalancedWorkload {
    v1::RebalancedWorkload {
        namespace: namespace.to_owned(),
        kind: before.workload.kind,
        name: before.workload.name,
        labels: before.workload.labels,
        fault: before.fault.unwrap_or_default(),
        selected_count: count(before.selected),
        before: before
            .balances
            .into_iter()
            .map(Balance::into_wire)
            .collect(),
        ..Default::default()
    }
}

/// The number of a move, from 1.
pub(super) fn number_of_last(moves: &[v1::PodMove]) -> i32 {
    i32::try_from(moves.len()).unwrap_or(i32::MAX)
}

/// A plan in the making.
struct Planner<'p, 's> {
    options: &'p RebalanceOptions,
    imagined: &'p mut Imagined<'s>,
    /// The answer, without its workloads.
    answer: v1::RebalanceResponse,
    workloads: PlannedWorkloads,
    /// The number of planned moves out of each node.
    left: HashMap<String, usize>,
    /// The number of the move that made each pod, by namespace and name.
    made: HashMap<(String, String), i32>,
}

/// Plans which pods to move on a copy of a snapshot, and makes each move on this copy. The answer is
/// without the revision and the kind of default constraints.
pub fn rebalance(
    imagined: &mut Imagined<'_>,
    options: &RebalanceOptions,
) -> Result<v1::RebalanceResponse, Stopped> {
    let mut open = match &options.namespace {
        Some(name) => vec![name.as_str().into()],
        None => imagined.namespaces(),
    };
    let mut planner = Planner {
        options,
        imagined,
        answer: v1::RebalanceResponse {
            optimal: true,
            ..Default::default()
        },
        workloads: PlannedWorkloads::new(),
        left: HashMap::new(),
        made: HashMap::new(),
    };
    let mut touched = Vec::new();
    for round in 0..MOST_ROUNDS {
        let before = planner.answer.moves.len();
        let mut repaired = Vec::new();
        for namespace in open {
            if planner.repair(&namespace)? {
                repaired.push(namespace);
            }
        }
        open = repaired;
        if round == 0 {
            touched.clone_from(&open);
        }
        if planner.answer.moves.len() == before {
            break;
        }
    }
    planner.finish(&touched)
}

impl Planner<'_, '_> {
    /// Repairs the workloads of a namespace. Returns whether any of them is part of the plan.
    fn repair(&mut self, namespace: &str) -> Result<bool, Stopped> {
        let options = self.options;
        let pods = self.imagined.read(namespace).pod_groups()?;
        let mut model = SpreadModel::of(&pods, namespace, options)?;
        for pod in &mut model.pods {
            let made = self.made.get(&(namespace.to_owned(), pod.name.clone()));
            pod.successor_of = made.copied().unwrap_or(0);
        }
        for workload in 0..model.workloads.len() {
            let of = &model.workloads[workload];
            let place = (namespace.to_owned(), of.before.workload.clone());
            let noted = self.workloads.entry(place.clone());
            noted.or_insert_with(|| (of.by.clone(), unmoved(namespace, of.before.clone())));
            self.repair_workload(&place, &mut model, workload)?;
        }
        Ok(!model.workloads.is_empty())
    }

    /// Moves pods of a workload until it is even or no move brings it closer.
    fn repair_workload(
        &mut self,
        place: &(String, WorkloadId),
        model: &mut SpreadModel,
        workload: usize,
    ) -> Result<(), Stopped> {
        let mut refused = RefusedSteps::new();
        while model.violates(workload) {
            let moved = self.workloads.get(place).map_or(0, |(_, it)| moves_of(it));
            let all = self.answer.moves.len();
            let most = self.options.most_of_workload.saturating_sub(moved);
            let most = most.min(self.options.most_moves.saturating_sub(all));
            let most_of_node = self.options.most_of_node;
            let left = &self.left;
            let affords_node =
                |node: &str| most_of_node.saturating_sub(left.get(node).copied().unwrap_or(0));
            let at = Moving {
                model,
                workload,
                read_view: &self.imagined.read(&place.0),
            };
            let found = at.search(most, &refused, &affords_node)?;
            self.answer.optimal &= found.is_least;
            self.answer.capped |= found.is_capped;
            if found.steps.is_empty() {
                break;
            }
            match replay(self.imagined, (&place.0, model), &found.steps)? {
                Ok(stepped) => self.note(place, model, stepped),
                Err(step) => {
                    self.answer.optimal = false;
                    refused.insert((step.class, step.target));
                    if refused.len() >= MOST_REFUSALS {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, place: &(String, WorkloadId), model: &mut SpreadModel, steps: Vec<Stepped>) {
        for Stepped { pod, to, step, .. } in steps {
            let MovablePod {
                name,
                uid,
                successor_of,
                ..
            } = model.pods[pod].clone();
            *self.left.entry(step.from.clone()).or_default() += 1;
            self.answer.moves.push(v1::PodMove {
                workload: Some(place.1.to_wire()),
                uid: match successor_of {
                    0 => uid,
                    _ => String::new(),
                },
                successor_of,
                ..step
            });
            let number = number_of_last(&self.answer.moves);
            self.made.insert((place.0.clone(), name), number);
            model.note(pod, to, number);
            if let Some((_, noted)) = self.workloads.get_mut(place) {
                noted.move_count += 1;
            }
        }
    }

    /// Judges the workloads after all moves, whichever workload's pods these moved.
    fn finish(self, touched: &[Box<str>]) -> Result<v1::RebalanceResponse, Stopped> {
        let Self {
            options,
            imagined,
            mut answer,
            mut workloads,
            left,
            ..
        } = self;
        let is_full = options.most_moves <= answer.moves.len()
            || left.values().any(|left| options.most_of_node <= *left);
        for namespace in touched {
            let read_view = imagined.read(namespace);
            let pods = read_view.pod_groups()?;
            let named = options.workload.as_ref();
            let survey = options.rules.survey(&pods, namespace, named)?;
            let own = workloads.iter_mut();
            for ((_, id), (by, noted)) in own.filter(|((name, _), _)| **name == **namespace) {
                let after = survey.judge_listed(id, by.as_ref())?.into_iter();
                let after = after.flat_map(|after| after.balances);
                noted.after = after.map(Balance::into_wire).collect();
            }
            let model = SpreadModel::of(&pods, namespace, options)?;
            for (at, of) in model.workloads.iter().enumerate() {
                let place = (namespace.to_string(), of.before.workload.clone());
                let noted = workloads.get_mut(&place);
                let Some((_, noted)) = noted.filter(|_| model.violates(at)) else {
                    continue;
                };
                noted.blockers = blockers_of(&model, at, &read_view)?;
                if is_full || options.most_of_workload <= moves_of(noted) {
                    noted.blockers.push(v1::MoveBlocker {
                        kind: Kind::Cap.into(),
                        text: "no more moves are allowed".to_owned(),
                        ..Default::default()
                    });
                    answer.capped = true;
                }
            }
        }
        answer.workloads = workloads.into_values().map(|(_, noted)| noted).collect();
        Ok(answer)
    }
}

/// The number of moves of the pods of a workload.
fn moves_of(noted: &v1::RebalancedWorkload) -> usize {
    usize::try_from(noted.move_count).unwrap_or(usize::MAX)
}

/// The most blockers that are reported for a workload.
const MOST_TOLD: usize = 20;

/// Returns the blockers of a workload: pods that stay in domains with too many pods, and nodes that
/// refuse pods in domains with too few.
fn blockers_of(
    model: &SpreadModel,
    workload: usize,
    read_view: &ReadView<'_>,
) -> Result<Vec<v1::MoveBlocker>, Stopped> {
    let mut found: BTreeMap<(Kind, String, String, String), usize> = BTreeMap::new();
    let own = model.goals.iter().enumerate();
    for (at, goal) in own.filter(|(_, goal)| goal.workload == Some(workload)) {
        if goal.counts.excess() == 0 {
            continue;
        }
        let key = goal.key.to_string();
        let value = |domain| {
            goal.in_use
                .topology
                .value(DomainId::at(domain), read_view.nodes)
                .to_owned()
        };
        let mut note = |kind, domain: usize, text: String, count: usize| {
            *found
                .entry((kind, key.clone(), value(domain), text))
                .or_default() += count;
        };
        let (_, floor) = goal.counts.needed();
        read_view.deadline.step(model.pods.len())?;
        for pod in &model.pods {
            let class = &model.classes[pod.class];
            let domain = model.domain(at, pod.node).filter(|_| class.counts[at]);
            let domain = domain.filter(|it| goal.counts.leaving(*it, floor) > 0);
            if let (Some(domain), Some((kind, text))) = (domain, &pod.staying)
                && class.of.workload == workload
            {
                note(*kind, domain, text.to_string(), 1);
            }
        }
        for (domain, others) in model.beside(at) {
            if goal.counts.leaving(domain, floor) > 0 {
                let text = "pods of other workloads, which the constraint counts".to_owned();
                note(Kind::Pod, domain, text, others);
            }
        }
        if let Some(class) = leaving_class(model, workload, at) {
            let constraints = class.question.constraints_on(read_view)?;
            let filter = Filter::of(&class.question, &constraints, NodeChecks::All, read_view)?;
            for slot in read_view.nodes.order() {
                let domain = model.domain(at, *slot);
                let domain = domain.filter(|it| goal.counts.leaving(*it, floor) < 0);
                let Some(domain) = domain else { continue };
                if let Err(refusal) = filter.judge(*slot)? {
                    let tolerations = &class.question.subject.tolerations;
                    let node = read_view.nodes.get(*slot);
                    let node = node.filter(|_| refusal.reason == Reason::UntoleratedTaint);
                    let tainted = node.and_then(|it| TaintedNode::of(tolerations, it.taints()));
                    let text = tainted.map_or_else(
                        || refusal.text().into_owned(),
                        |it| format!("node(s) {}{}", it.what, TaintedNode::since(it.since)),
                    );
                    note(kind_of(&refusal.reason), domain, text, 1);
                }
            }
        }
        if !goal.counts.is_reachable() {
            let text = "there are fewer domains than minDomains".to_owned();
            found.insert((Kind::Constraint, key.clone(), String::new(), text), 0);
        }
    }
    let own = model.goals.iter();
    let own = own.filter(|goal| goal.workload == Some(workload) && goal.counts.excess() > 0);
    for goal in own {
        if !found.keys().any(|(_, key, ..)| **key == *goal.key) {
            let text = "no move helps that keeps the other constraints".to_owned();
            let key = goal.key.to_string();
            found.insert((Kind::Constraint, key, String::new(), text), 0);
        }
    }
    let found = found.into_iter().take(MOST_TOLD);
    let found = found.map(
        |((kind, topology_key, domain, text), pods)| v1::MoveBlocker {
            kind: kind.into(),
            topology_key,
            domain,
            text,
            count: count(pods),
        },
    );
    Ok(found.collect())
}

/// The class of the pods of a workload that a node could take: of those that have to leave their
/// domain, if there are any.
fn leaving_class(model: &SpreadModel, workload: usize, goal: usize) -> Option<&PodClass> {
    let counts = &model.goals[goal].counts;
    let (_, floor) = counts.needed();
    let own = model.pods.iter();
    let mut own = own.filter(|pod| model.classes[pod.class].of.workload == workload);
    let leaves = |pod: &&MovablePod| {
        let domain = model.domain(goal, pod.node);
        domain.is_some_and(|domain| counts.leaving(domain, floor) > 0)
    };
    let leaving = own.find(leaves).map(|pod| &*model.classes[pod.class].of);
    let mut all = model.classes.iter().map(|class| &*class.of);
    leaving.or_else(|| all.find(|class| class.workload == workload))
}

pub(super) fn kind_of(reason: &Reason) -> Kind {
    match reason {
        Reason::Skew | Reason::MissingTopologyKey => Kind::Constraint,
        Reason::TooManyPods | Reason::Insufficient(_) | Reason::HostPorts => Kind::Room,
        _ => Kind::Node,
    }
}
