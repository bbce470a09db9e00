//! Drains nodes: each pod is evicted once Filter admits its successor on another node, on a copy of
//! the snapshot to which every step is applied.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::blockers::{self, BlockerKind};
use super::mobility::RebalanceOptions;
use super::moving::{MoveEffect, deletion, successor};
use super::node_pods::{Fate, LeavingClass, LeavingNode, LeavingPod, PodOfNode, PodsOfNodes};
use super::rebalance::{PlannedMove, RebalancedWorkload};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::partition::UNSCHEDULABLE_TAINT;
use crate::snapshot::{Defaults, DomainCounts, DomainId, Imagined, ReadView, Slot, Stopped};
use crate::spread::describe::{Balance, By, JudgedWorkload, WorkloadId};
use crate::spread::{Active, Filter, NodeChecks, Reason, Scores};

/// The most times that nodes which could not be emptied are tried again after others.
const MOST_PASSES: usize = 3;

/// The most plans that are made, each without the moves by which the one before left a workload
/// more uneven than it was.
const MOST_PLANS: usize = 8;

/// The bytes of the share of a domain in the spread of a workload.
const BYTES_PER_SHARE: usize = 96;

/// The options of a drain.
#[derive(Debug, Clone)]
pub struct DrainOptions {
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// True if each node is back before the next one is cordoned; else all are gone in the end.
    pub one_at_a_time: bool,
    /// True if no pod moves out of a node that cannot be emptied.
    pub whole_only: bool,
    /// The rules about pods.
    pub rules: RebalanceOptions,
}

/// Where the pods of nodes go.
#[derive(Debug, Default)]
pub struct DrainPlan {
    /// The revision of the snapshot.
    pub revision: i64,
    /// The default constraints of the snapshot.
    pub defaults: Arc<Defaults>,
    /// The nodes, in the order in which they are emptied, and then those that are not.
    pub nodes: Vec<LeavingNode>,
    /// The moves, in order.
    pub moves: Vec<PlannedMove>,
    /// The pods that cannot go.
    pub blocked: Vec<PodOfNode>,
    /// The pods that go with their nodes.
    pub along: Vec<PodOfNode>,
    /// The workloads of pods that move, by namespace.
    pub workloads: BTreeMap<(String, WorkloadId), RebalancedWorkload>,
    /// True if it is proven that no plan does better.
    pub is_proven: bool,
    /// The most nodes that can go together by any plan, and what proves that. Only where spare nodes
    /// are asked for.
    pub bound: Option<(usize, String)>,
}

/// The refusals of all nodes, by reason.
pub type Refused = BTreeMap<Reason, usize>;

/// What the moves out of a node have to know besides its pods.
pub struct Leaving<'c> {
    /// The classes of the pods.
    pub classes: &'c [LeavingClass],
    /// Nodes to which no pod goes.
    pub never: HashSet<Slot>,
    /// Nodes that are to go later. Pods go there only if nowhere else.
    pub later: HashSet<Slot>,
    /// True if nodes come back, without their pods.
    pub come_back: bool,
}

/// What became of the pods of a node.
#[derive(Default)]
pub struct EmptiedNode {
    /// The moves, in order.
    pub moves: Vec<PlannedMove>,
    /// The pods that are still there, each with the refusals of all nodes.
    pub rest: Vec<(LeavingPod, Refused)>,
    /// True if only pods that go with the node are left.
    pub is_empty: bool,
}

/// The spread of workloads, by namespace.
type JudgedAll = BTreeMap<(String, WorkloadId), JudgedWorkload>;

/// The workloads of pods that may move, by namespace.
type LeavingWorkloads = BTreeMap<String, BTreeSet<Arc<WorkloadId>>>;

/// A constraint that is violated by more than before.
struct Worse {
    namespace: String,
    workload: WorkloadId,
    constraint: Active,
}

impl DrainPlan {
    /// Makes a plan on a copy of a snapshot. The nodes must exist.
    pub fn of(imagined: &mut Imagined<'_>, options: &DrainOptions) -> Result<Self, Stopped> {
        let mut pods = PodsOfNodes::of(imagined, &options.nodes, &options.rules)?;
        let mut leaving = LeavingWorkloads::new();
        for pod in pods.by_node.values().flatten() {
            if let Fate::Moves(_) = pod.fate {
                let own = leaving.entry((*pod.namespace).into()).or_default();
                own.insert(Arc::clone(&pod.workload));
            }
        }
        let before = judge_all(imagined, &leaving, &options.rules)?;
        let mut planned = 0;
        loop {
            let (mut plan, after) = imagined.attempt(|imagined| {
                let plan = Self::drained(imagined, pods.clone(), options)?;
                let after = judge_all(imagined, &leaving, &options.rules)?;
                Ok(((plan, after), false))
            })?;
            let worse = worse_than(&before, &after);
            let Some(worse) = worse.filter(|_| planned <= MOST_PLANS) else {
                plan.note_spread(before, after);
                return Ok(plan);
            };
            pods.keep(&plan, &worse, planned == MOST_PLANS);
            planned += 1;
        }
    }

    /// Notes the spread of the workloads of moves, before and after these.
    fn note_spread(&mut self, mut before: JudgedAll, mut after: JudgedAll) {
        for it in &self.moves {
            let place = (it.namespace.clone(), it.workload.clone());
            if let Some(before) = before.remove(&place) {
                let noted = RebalancedWorkload {
                    by: By::Constraints,
                    before,
                    after: after.remove(&place),
                    moves: 0,
                    blockers: Vec::new(),
                };
                self.workloads.insert(place.clone(), noted);
            }
            if let Some(noted) = self.workloads.get_mut(&place) {
                noted.moves += 1;
            }
        }
    }

    /// Drains the nodes one after the other, and leaves the changes in the copy.
    fn drained(
        imagined: &mut Imagined<'_>,
        mut pods: PodsOfNodes,
        options: &DrainOptions,
    ) -> Result<Self, Stopped> {
        let look = |read_view: ReadView<'_>| {
            let going = options.nodes.iter();
            let going = going.filter_map(|name| read_view.nodes.find(name));
            let defaults = Arc::clone(read_view.defaults);
            (read_view.revision, defaults, going.collect::<HashSet<_>>())
        };
        let (revision, defaults, going) = imagined.read_any(look);
        let mut plan = Self {
            revision,
            defaults,
            is_proven: true,
            ..Self::default()
        };
        let classes = std::mem::take(&mut pods.classes);
        let mut how = Leaving {
            classes: &classes,
            never: HashSet::new(),
            later: HashSet::new(),
            come_back: options.one_at_a_time,
        };
        if options.one_at_a_time {
            how.later = going;
        } else {
            how.never = going;
            for node in &options.nodes {
                cordon(imagined, node)?;
            }
        }
        let mut queue = options.nodes.clone();
        for _ in 0..MOST_PASSES {
            let before = queue.len();
            let mut rest = Vec::new();
            for node in queue {
                if !plan.empty(imagined, &node, &mut pods, &how, true)? {
                    rest.push(node);
                }
            }
            queue = rest;
            if queue.len() == before {
                break;
            }
        }
        if !options.whole_only {
            for node in queue {
                plan.empty(imagined, &node, &mut pods, &how, false)?;
            }
        }
        Ok(plan)
    }

    /// Empties a node; with `is_whole` nothing is changed where that is not possible. Returns whether
    /// it is empty.
    fn empty(
        &mut self,
        imagined: &mut Imagined<'_>,
        node: &str,
        pods: &mut PodsOfNodes,
        how: &Leaving<'_>,
        is_whole: bool,
    ) -> Result<bool, Stopped> {
        let own = pods.by_node.get(node).cloned().unwrap_or_default();
        let emptied = imagined.attempt(|imagined| {
            let emptied = empty_node(imagined, node, &own, how, is_whole)?;
            let is_kept = emptied.is_empty || !is_whole;
            Ok((emptied, is_kept))
        })?;
        if is_whole && !emptied.is_empty {
            return Ok(false);
        }
        pods.by_node.remove(node);
        for step in emptied.moves {
            if let Some(there) = pods.by_node.get_mut(&step.to) {
                // The pod leaves that node later.
                let moved = own.iter().filter(|pod| step.is_of(pod)).cloned();
                there.extend(moved.map(|pod| LeavingPod {
                    made_by: Some(self.moves.len()),
                    uid: String::new(),
                    ..pod
                }));
            }
            self.moves.push(step);
        }
        for (pod, refused) in emptied.rest {
            let (is_final, kind, text) = match &pod.fate {
                Fate::Stays(kind, text) => (*kind != BlockerKind::Constraint, *kind, text.clone()),
                _ => told(&refused),
            };
            self.is_proven &= is_final;
            self.blocked.push(pod.told(node, Some(kind), &text));
        }
        for pod in own {
            if let Fate::GoesAlong(why) = pod.fate {
                self.along.push(pod.told(node, None, why));
            }
        }
        self.nodes.push(LeavingNode {
            name: node.to_owned(),
            is_emptied: emptied.is_empty,
        });
        Ok(emptied.is_empty)
    }
}

impl PlannedMove {
    /// Returns whether this is the move of a pod.
    pub(super) fn is_of(&self, pod: &LeavingPod) -> bool {
        *self.namespace == *pod.namespace && self.pod == pod.name
    }
}

impl PodsOfNodes {
    /// Keeps the pods where they are that a plan moves and a constraint counts, or all.
    fn keep(&mut self, plan: &DrainPlan, worse: &Worse, keeps_all: bool) {
        let moved = plan.moves.iter().map(|it| (&*it.namespace, &*it.pod));
        let moved: HashSet<(&str, &str)> = moved.collect();
        let key = &worse.constraint.constraint.topology_key;
        let text = format!(
            "without it {} would be less even over {key}",
            worse.workload
        );
        let mut kept = 0;
        for pod in self.by_node.values_mut().flatten() {
            let Fate::Moves(class) = pod.fate else {
                continue;
            };
            let labels = &self.classes[class].question.subject.labels;
            let is_counted = *pod.namespace == *worse.namespace
                && worse.constraint.counted().matches_labels(labels)
                && moved.contains(&(&*pod.namespace, &*pod.name));
            if keeps_all || is_counted {
                pod.fate = Fate::Stays(BlockerKind::Constraint, text.clone());
                kept += 1;
            }
        }
        if kept == 0 && !keeps_all {
            self.keep(plan, worse, true);
        }
    }
}

/// The spread of all workloads of the namespaces. Domains are listed only for workloads that pods
/// leave.
fn judge_all(
    imagined: &Imagined<'_>,
    leaving: &LeavingWorkloads,
    rules: &RebalanceOptions,
) -> Result<JudgedAll, Stopped> {
    let mut all = JudgedAll::new();
    for (namespace, leaving) in leaving {
        let judge = |read_view: ReadView<'_>| {
            let pods = read_view.pod_groups()?;
            for judged in rules.survey(&pods, namespace)?.judge_all(&By::Constraints) {
                let mut judged = judged?;
                if !leaving.contains(&judged.workload) {
                    judged
                        .balances
                        .iter_mut()
                        .for_each(|it| it.domains = Vec::new());
                }
                let shares = judged.balances.iter().map(|it| it.domains.len());
                read_view
                    .deadline
                    .holds(shares.sum::<usize>() * BYTES_PER_SHARE)?;
                all.insert((namespace.clone(), judged.workload.clone()), judged);
            }
            Ok::<_, Stopped>(())
        };
        imagined.read(namespace, judge).transpose()?;
    }
    Ok(all)
}

/// The first hard constraint that is violated by more than before.
fn worse_than(before: &JudgedAll, after: &JudgedAll) -> Option<Worse> {
    after.iter().find_map(|(place, judged)| {
        let known = before.get(place).map_or(&[][..], |it| &it.balances);
        let is_worse = |balance: &&Balance| {
            let key = |it: &Balance| {
                let active = it.constraint.as_ref();
                active.map(|active| (active.index, active.constraint.clone()))
            };
            let same = known.iter().filter(|it| key(it) == key(balance));
            balance.is_hard() && balance.excess() > same.map(Balance::excess).max().unwrap_or(0)
        };
        Some(Worse {
            constraint: judged.balances.iter().find(is_worse)?.constraint.clone()?,
            namespace: place.0.clone(),
            workload: place.1.clone(),
        })
    })
}

/// Evicts the pods of a node, and lets it go or come back if no other pod is left.
pub fn empty_node(
    imagined: &mut Imagined<'_>,
    node: &str,
    own: &[LeavingPod],
    how: &Leaving<'_>,
    is_whole: bool,
) -> Result<EmptiedNode, Stopped> {
    let mut emptied = EmptiedNode::default();
    let mut waiting = Vec::new();
    let before = cordon(imagined, node)?;
    let mut goes = Vec::new();
    for pod in own {
        match pod.fate {
            Fate::Moves(class) => waiting.push((pod, &how.classes[class])),
            Fate::GoesAlong(_) => goes.push(deletion("Pod", &pod.namespace, &pod.name)),
            Fate::Stays(..) => emptied.rest.push((pod.clone(), Refused::new())),
        }
    }
    if is_whole && !emptied.rest.is_empty() {
        return Ok(emptied);
    }
    let mut refused: Vec<Refused> = Vec::new();
    loop {
        let count = waiting.len();
        let mut rest = Vec::new();
        refused.clear();
        for (pod, class) in waiting {
            match move_pod(imagined, (node, false), pod, class, how)? {
                Ok(step) => emptied.moves.push(step),
                Err(why) => {
                    rest.push((pod, class));
                    refused.push(why);
                }
            }
            if is_whole && !how.come_back && refused.last().is_some_and(is_for_good) {
                emptied
                    .rest
                    .extend(rest.into_iter().map(|it| it.0.clone()).zip(refused));
                return Ok(emptied);
            }
        }
        waiting = rest;
        if waiting.is_empty() || waiting.len() == count {
            break;
        }
    }
    match how.come_back {
        true => goes = vec![Object::Node(before)],
        false => goes.push(deletion("Node", "", node)),
    }
    if emptied.rest.is_empty() && within_budgets(&waiting) {
        let waited = imagined.attempt(|imagined| {
            let waited = wait_for_node(imagined, node, waiting.clone(), goes, how)?;
            let is_kept = waited.is_some();
            Ok((waited, is_kept))
        })?;
        if let Some(waited) = waited {
            emptied.moves.extend(waited);
            emptied.is_empty = true;
            return Ok(emptied);
        }
    }
    let waiting = waiting.into_iter().map(|(pod, _)| pod.clone());
    emptied.rest.extend(waiting.zip(refused));
    Ok(emptied)
}

/// Evicts the pods that are left, lets their node go or come back, and then places their
/// successors. `None` if one finds no node.
fn wait_for_node(
    imagined: &mut Imagined<'_>,
    node: &str,
    mut waiting: Vec<(&LeavingPod, &LeavingClass)>,
    goes: Vec<Object>,
    how: &Leaving<'_>,
) -> Result<Option<Vec<PlannedMove>>, Stopped> {
    let names = waiting.iter().map(|(pod, _)| (&*pod.namespace, &*pod.name));
    let evicted = names.map(|(namespace, name)| deletion("Pod", namespace, name));
    imagined.change(evicted.collect::<Vec<_>>())?;
    imagined.change(goes)?;
    let mut moves = Vec::new();
    while !waiting.is_empty() {
        let count = waiting.len();
        let mut rest = Vec::new();
        for (pod, class) in waiting {
            match move_pod(imagined, (node, true), pod, class, how)? {
                Ok(step) => moves.push(step),
                Err(_) => rest.push((pod, class)),
            }
        }
        waiting = rest;
        if waiting.len() == count {
            return Ok(None);
        }
    }
    Ok(Some(moves))
}

/// Returns whether budgets allow that all of these pods are on no node at a time.
fn within_budgets(pods: &[(&LeavingPod, &LeavingClass)]) -> bool {
    let mut wanted = HashMap::new();
    pods.iter().all(|(_, class)| {
        let waiting: &mut usize = wanted.entry(&class.budget).or_default();
        *waiting += 1;
        *waiting <= class.allowed
    })
}

/// Evicts a pod, and puts its successor on the best node that takes it. Nothing is changed if none
/// does; then the refusals are returned. A pod that waits for its node is evicted already.
fn move_pod(
    imagined: &mut Imagined<'_>,
    (from, waits): (&str, bool),
    pod: &LeavingPod,
    class: &LeavingClass,
    how: &Leaving<'_>,
) -> Result<Result<PlannedMove, Refused>, Stopped> {
    let namespace = &*pod.namespace;
    let old = imagined.read(namespace, |view| view.whole_pod(namespace, &pod.name));
    let old = old.flatten();
    if old.is_some() {
        imagined.change([deletion("Pod", namespace, &pod.name)])?;
    }
    let found = imagined.read(namespace, |view| {
        let (to, effects) = match target(class, (from, waits), how, &view)? {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        };
        let made = (&class.pod, &*class.node_labels);
        let made = successor(made, (namespace, &pod.name), to, &view);
        let to = view.nodes.name(to).to_owned();
        Ok::<_, Stopped>(Ok((made, to, effects)))
    });
    match found.transpose()?.unwrap_or_else(|| Err(Refused::new())) {
        Ok((made, to, effects)) => {
            imagined.change([Object::Pod(made)])?;
            Ok(Ok(PlannedMove {
                namespace: namespace.to_owned(),
                workload: (*pod.workload).clone(),
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                made_by: pod.made_by,
                from: from.to_owned(),
                to,
                effects,
                waits_for_node: waits,
            }))
        }
        Err(refused) => {
            imagined.change(old.map(Object::Pod))?;
            Ok(Err(refused))
        }
    }
}

/// The best node that takes a pod: one that is not to go later, then in as many of the same domains
/// of hard constraints as possible, then with the best score. With it come the effects on these
/// constraints.
fn target(
    class: &LeavingClass,
    (from, is_back): (&str, bool),
    how: &Leaving<'_>,
    read_view: &ReadView<'_>,
) -> Result<Result<(Slot, Vec<MoveEffect>), Refused>, Stopped> {
    let constraints = class.question.constraints_on(read_view)?;
    let filter = Filter::of(&class.question, &constraints, NodeChecks::All, read_view)?;
    let nodes = read_view.nodes;
    let order = nodes.order();
    read_view.deadline.step(1 + order.len() / 64)?;
    let judged = filter.judge_all(order)?;
    let left = nodes.find(from);
    let is_open = |slot: &Slot| (is_back || Some(*slot) != left) && !how.never.contains(slot);
    let passing = judged.pass.ones().map(|at| order[at]);
    let mut passing: Vec<Slot> = passing.filter(is_open).collect();
    if passing.is_empty() {
        // Without refusals, a pod tolerates that its node is cordoned.
        return Ok(Err(match judged.tallies.feasible {
            0 => judged.tallies.refused,
            _ => Refused::new(),
        }));
    }
    let hard: Vec<&Active> = constraints.hard().collect();
    let counts = hard.iter().map(|active| read_view.count(active.query()));
    let counts: Vec<DomainCounts<'_>> = counts.collect::<Result<_, _>>()?;
    let left = |counts: &DomainCounts<'_>| left.map_or(DomainId::NONE, |it| counts.domain_of(it));
    let rank = |slot: &Slot| {
        let is_same = |it: &&DomainCounts<'_>| {
            let domain = it.domain_of(*slot);
            domain.is_some() && domain == left(it)
        };
        (
            !how.later.contains(slot),
            counts.iter().filter(is_same).count(),
        )
    };
    let highest = passing.iter().map(rank).max();
    passing.retain(|slot| Some(rank(slot)) == highest);
    let mut to = passing[0];
    if passing.len() > 1 && constraints.soft().next().is_some() {
        let scores = Scores::of(&constraints, &passing, read_view)?;
        to = scores.best(1).first().map_or(to, |at| passing[*at]);
    }
    let effect = |(active, counts): (&&Active, &DomainCounts<'_>)| {
        let domain = |domain: DomainId, more: i64| match domain.is_some() {
            false => (String::new(), 0),
            true => {
                let value = counts.in_use().topology.value(domain, nodes).to_owned();
                (value, i64::from(counts.matching_pods(domain)) + more)
            }
        };
        // The pod was counted where it was.
        let (from, to) = (left(counts), counts.domain_of(to));
        let same = if from == to { active.self_match } else { 0 };
        MoveEffect {
            topology_key: active.constraint.topology_key.to_string(),
            from: domain(from, active.self_match),
            to: domain(to, same),
        }
    };
    Ok(Ok((to, hard.iter().zip(&counts).map(effect).collect())))
}

/// Cordons a node, with the taint that Kubernetes adds. Returns the node before.
fn cordon(imagined: &mut Imagined<'_>, name: &str) -> Result<v1::Node, Stopped> {
    let find = |view: ReadView<'_>| Some(view.nodes.get(view.nodes.find(name)?)?.to_wire());
    let before = imagined.read_any(find).unwrap_or_default();
    let mut node = before.clone();
    let spec = node.spec.get_or_insert_default();
    if !std::mem::replace(&mut spec.unschedulable, true) {
        spec.taints.retain(|taint| taint.key != UNSCHEDULABLE_TAINT);
        spec.taints.push(v1::Taint {
            key: UNSCHEDULABLE_TAINT.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..v1::Taint::default()
        });
        imagined.change([Object::Node(node)])?;
    }
    Ok(before)
}

/// Returns whether a reason to refuse a node does not depend on other pods.
fn is_fixed(reason: &Reason) -> bool {
    matches!(
        reason.check(),
        Reason::Gated(_)
            | Reason::Unschedulable
            | Reason::NodeName
            | Reason::UntoleratedTaint
            | Reason::NodeAffinity
            | Reason::MissingTopologyKey
            | Reason::DeclaredFeatures
    )
}

/// Returns whether no node takes a pod as long as room only becomes scarcer.
pub fn is_for_good(refused: &Refused) -> bool {
    let is_room = |reason: &Reason| matches!(reason, Reason::TooManyPods | Reason::Insufficient(_));
    let mut reasons = refused.keys();
    !refused.is_empty() && reasons.all(|reason| is_room(reason) || is_fixed(reason))
}

/// Returns whether the refusals of all nodes are final whatever other pods do, the kind of the one
/// that most nodes have, and a text. Cordoned nodes count least.
fn told(refused: &Refused) -> (bool, BlockerKind, String) {
    let mut all: Vec<_> = refused.iter().collect();
    all.sort_by_key(|(reason, nodes)| {
        let is_cordoned = **reason == Reason::Unschedulable;
        (is_cordoned, std::cmp::Reverse(**nodes))
    });
    let Some((first, _)) = all.first() else {
        let text = "only nodes that go take it".to_owned();
        return (false, BlockerKind::Node, text);
    };
    let texts = all
        .iter()
        .map(|(reason, nodes)| format!("{nodes} {}", reason.text()));
    let text = texts.collect::<Vec<_>>().join(", ");
    (refused.keys().all(is_fixed), blockers::kind_of(first), text)
}
