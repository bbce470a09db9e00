//! Plans which pods to move so that constraints are satisfied, with the causes that keep a workload from
//! being even.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::movable::{EvictionRules, MovablePod, MoveEffect, PodClass};
use super::spread_model::{Moving, RefusedSteps, SpreadModel, Stepped, replay};
use crate::matching::{Selector, TaintedNode};
use crate::snapshot::{DomainId, Imagined, PodGroups, ReadView, Stopped};
use crate::spread::describe::{
    By, JudgedWorkload, NamedWorkload, Survey, WorkloadId, WorkloadPods,
};
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
    /// The workloads of a namespace.
    pub fn survey<'s, 'a>(
        &'s self,
        pods: &'s PodGroups<'a>,
        namespace: &str,
    ) -> Result<Survey<'s, 'a>, Stopped> {
        self.rules.survey(pods, namespace, self.workload.as_ref())
    }

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
        for (group, _) in &workload.groups {
            if pods.selects(selector, group)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The pods to move, and the effects of their moves.
#[derive(Debug, Default)]
pub struct RebalancePlan {
    /// The moves, in order.
    pub moves: Vec<PlannedMove>,
    /// The workloads that violated constraints or could not be judged, by namespace.
    pub workloads: BTreeMap<(String, WorkloadId), RebalancedWorkload>,
    /// True if no plan with fewer moves achieves the same.
    pub is_least: bool,
    /// True if more moves were wanted than the limits allow.
    pub is_capped: bool,
}

/// A pod to move.
#[derive(Debug, Clone)]
pub struct PlannedMove {
    /// The namespace of the pod.
    pub namespace: String,
    /// The workload of the pod.
    pub workload: WorkloadId,
    /// The name of the pod.
    pub pod: String,
    /// The uid of the pod.
    pub uid: String,
    /// The index of the move that creates the pod, if the plan creates it.
    pub made_by: Option<usize>,
    /// The node that the pod leaves.
    pub from: String,
    /// The node for the pod that takes its place.
    pub to: String,
    /// The effect on each constraint.
    pub effects: Vec<MoveEffect>,
    /// True if the successor waits until the node that the pod left is gone or back.
    pub waits_for_node: bool,
}

/// A workload that violated constraints, or of which some pods could not be judged.
#[derive(Debug, Clone)]
pub struct RebalancedWorkload {
    /// The measure by which the workload is judged.
    pub(super) by: By,
    /// The spread of the workload before the moves.
    pub before: JudgedWorkload,
    /// The spread of the workload after the moves.
    pub after: Option<JudgedWorkload>,
    /// The number of moves of its pods.
    pub moves: usize,
    /// The causes that keep the workload from being even.
    pub blockers: Vec<Blocker>,
}

impl RebalancedWorkload {
    /// A workload without moves.
    pub(super) fn of(by: By, before: JudgedWorkload, after: Option<JudgedWorkload>) -> Self {
        Self {
            by,
            before,
            after,
            moves: 0,
            blockers: Vec::new(),
        }
    }
}

/// A plan in the making.
struct Planner<'p, 's> {
    options: &'p RebalanceOptions,
    imagined: &'p mut Imagined<'s>,
    plan: RebalancePlan,
    /// The number of planned moves out of each node.
    left: HashMap<String, usize>,
    /// The move that made each pod, by namespace and name.
    made: HashMap<(String, String), usize>,
}

impl RebalancePlan {
    /// Makes a plan on a copy of a snapshot, and makes each move on this copy.
    pub fn of(imagined: &mut Imagined<'_>, options: &RebalanceOptions) -> Result<Self, Stopped> {
        let mut open = match &options.namespace {
            Some(name) => vec![name.as_str().into()],
            None => imagined.namespaces(),
        };
        let mut planner = Planner {
            options,
            imagined,
            plan: Self {
                is_least: true,
                ..Self::default()
            },
            left: HashMap::new(),
            made: HashMap::new(),
        };
        let mut touched = Vec::new();
        for round in 0..MOST_ROUNDS {
            let before = planner.plan.moves.len();
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
            if planner.plan.moves.len() == before {
                break;
            }
        }
        planner.finish(&touched)
    }
}

impl Planner<'_, '_> {
    /// Repairs the workloads of a namespace. Returns whether any of them is part of the plan.
    fn repair(&mut self, namespace: &str) -> Result<bool, Stopped> {
        let options = self.options;
        let pods = self.imagined.read(namespace).pod_groups()?;
        let mut model = SpreadModel::of(&pods, namespace, options)?;
        for pod in &mut model.pods {
            let made = self.made.get(&(namespace.to_owned(), pod.name.clone()));
            pod.made_by = made.copied();
        }
        for workload in 0..model.workloads.len() {
            let of = &model.workloads[workload];
            let place = (namespace.to_owned(), of.id.clone());
            let noted = self.plan.workloads.entry(place.clone());
            noted.or_insert_with(|| RebalancedWorkload::of(of.by.clone(), of.before.clone(), None));
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
            let moved = self.plan.workloads.get(place).map_or(0, |it| it.moves);
            let most = self.options.most_of_workload.saturating_sub(moved);
            let most = most.min(
                self.options
                    .most_moves
                    .saturating_sub(self.plan.moves.len()),
            );
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
            self.plan.is_least &= found.is_least;
            self.plan.is_capped |= found.is_capped;
            if found.steps.is_empty() {
                break;
            }
            match replay(self.imagined, (&place.0, model), &found.steps)? {
                Ok(stepped) => self.note(place, model, stepped),
                Err(step) => {
                    self.plan.is_least = false;
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
        for step in steps {
            let pod = model.pods[step.pod].clone();
            *self.left.entry(step.from.clone()).or_default() += 1;
            let at = self.plan.moves.len();
            self.made.insert((place.0.clone(), pod.name.clone()), at);
            self.plan.moves.push(PlannedMove {
                namespace: place.0.clone(),
                workload: place.1.clone(),
                uid: match pod.made_by {
                    None => pod.uid,
                    Some(_) => String::new(),
                },
                pod: pod.name,
                made_by: pod.made_by,
                from: step.from,
                to: step.moved.node,
                effects: step.moved.effects,
                waits_for_node: false,
            });
            model.note(step.pod, step.moved.to, Some(at));
            if let Some(noted) = self.plan.workloads.get_mut(place) {
                noted.moves += 1;
            }
        }
    }

    /// Judges the workloads after all moves, whichever workload's pods these moved.
    fn finish(self, touched: &[Box<str>]) -> Result<RebalancePlan, Stopped> {
        let Self {
            options,
            imagined,
            mut plan,
            left,
            ..
        } = self;
        let is_full = options.most_moves <= plan.moves.len()
            || left.values().any(|left| options.most_of_node <= *left);
        for namespace in touched {
            let read_view = imagined.read(namespace);
            let pods = read_view.pod_groups()?;
            let survey = options.survey(&pods, namespace)?;
            let own = plan.workloads.iter_mut();
            for ((_, id), noted) in own.filter(|((name, _), _)| **name == **namespace) {
                noted.after = survey.judge_listed(id, &noted.by)?;
            }
            let model = SpreadModel::of(&pods, namespace, options)?;
            for (at, of) in model.workloads.iter().enumerate() {
                let place = (namespace.to_string(), of.id.clone());
                let noted = plan.workloads.get_mut(&place);
                let Some(noted) = noted.filter(|_| model.violates(at)) else {
                    continue;
                };
                noted.blockers = blockers_of(&model, at, &read_view)?;
                if is_full || options.most_of_workload <= noted.moves {
                    noted.blockers.push(Blocker {
                        kind: BlockerKind::Cap,
                        topology_key: String::new(),
                        domain: String::new(),
                        text: "no more moves are allowed".to_owned(),
                        count: 0,
                    });
                    plan.is_capped = true;
                }
            }
        }
        Ok(plan)
    }
}

/// The most blockers that are reported for a workload.
const MOST_TOLD: usize = 20;

/// A cause that keeps a workload from being even.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The kind of the blocker.
    pub kind: BlockerKind,
    /// The topology key of the constraint; empty if the blocker is about no domain.
    pub topology_key: String,
    /// The domain; empty if the blocker is about no domain.
    pub domain: String,
    /// The text.
    pub text: String,
    /// The number of pods or nodes that the blocker is about.
    pub count: usize,
}

/// The kinds of blockers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockerKind {
    /// No moves can satisfy the constraint, or another constraint refuses nodes.
    Constraint,
    /// Nodes refuse the pods for a reason other than room or constraints.
    Node,
    /// Nodes have no room for the pods.
    Room,
    /// A budget allows no eviction.
    Budget,
    /// Pods may not be moved.
    Pod,
    /// The limits allow no more moves.
    Cap,
}

/// Returns the blockers of a workload: pods that stay in domains with too many pods, and nodes that
/// refuse pods in domains with too few.
fn blockers_of(
    model: &SpreadModel,
    workload: usize,
    read_view: &ReadView<'_>,
) -> Result<Vec<Blocker>, Stopped> {
    let mut found: BTreeMap<(BlockerKind, String, String, String), usize> = BTreeMap::new();
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
                note(BlockerKind::Pod, domain, text, others);
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
            found.insert(
                (BlockerKind::Constraint, key.clone(), String::new(), text),
                0,
            );
        }
    }
    let own = model.goals.iter();
    let own = own.filter(|goal| goal.workload == Some(workload) && goal.counts.excess() > 0);
    for goal in own {
        if !found.keys().any(|(_, key, ..)| **key == *goal.key) {
            let text = "no move helps that keeps the other constraints".to_owned();
            let key = goal.key.to_string();
            found.insert((BlockerKind::Constraint, key, String::new(), text), 0);
        }
    }
    let found = found.into_iter().take(MOST_TOLD);
    let found = found.map(|((kind, topology_key, domain, text), count)| Blocker {
        kind,
        topology_key,
        domain,
        text,
        count,
    });
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

pub(super) fn kind_of(reason: &Reason) -> BlockerKind {
    match reason {
        Reason::Skew | Reason::MissingTopologyKey => BlockerKind::Constraint,
        Reason::TooManyPods | Reason::Insufficient(_) | Reason::HostPorts => BlockerKind::Room,
        _ => BlockerKind::Node,
    }
}
