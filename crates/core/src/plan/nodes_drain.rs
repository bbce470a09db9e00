//! Empties nodes: each pod is evicted once Filter admits its successor on another node, on a copy of
//! the snapshot to which every step is applied.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::blockers::{self, BlockerKind};
use super::mobility::EvictionRules;
use super::movable::{MoveEffect, Moved, PodClass, best_of, deletion, move_pod};
use super::node_pods::{LeavingPod, PodFate, PodOfNode, PodsByNode, gather, within_budgets};
use super::nodes_search::{WentTo, search};
use super::rebalance::{PlannedMove, RebalancedWorkload};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::partition::UNSCHEDULABLE_TAINT;
use crate::snapshot::{DomainCounts, DomainId, Imagined, ReadView, Slot, Stopped};
use crate::spread::describe::{Balance, By, JudgedWorkload, WorkloadId};
use crate::spread::{Active, Constraints, Filter, NodeChecks, Reason};

/// The most times that nodes which could not be emptied are tried again after others.
const MOST_PASSES: usize = 3;

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
    pub rules: EvictionRules,
}

/// Where the pods of nodes go.
#[derive(Debug, Clone, Default)]
pub struct DrainPlan {
    /// The nodes, in the order in which they are emptied, and then those that are not, each with
    /// whether it is emptied.
    pub nodes: Vec<(String, bool)>,
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

/// The spread of workloads, by namespace.
pub type JudgedAll = BTreeMap<(String, WorkloadId), JudgedWorkload>;

/// The workloads of pods that may move, by namespace.
pub type LeavingWorkloads = BTreeMap<String, BTreeSet<Arc<WorkloadId>>>;

/// A plan in the making.
#[derive(Clone, Default)]
pub struct Drainer {
    /// The pods of the nodes.
    pub pods: PodsByNode,
    /// Nodes to which no pod goes.
    never: HashSet<Slot>,
    /// Nodes that are to go later. Pods go there only if nowhere else.
    pub later: HashSet<Slot>,
    /// True if nodes come back, without their pods.
    come_back: bool,
    /// Pods of these classes find no node any more, because room only becomes scarcer.
    stuck: HashSet<*const PodClass>,
    /// The moves, by the classes of their pods.
    pub went: Vec<WentTo>,
    /// The plan.
    pub plan: DrainPlan,
}

/// What became of the pods of a node.
#[derive(Default)]
struct EmptiedNode {
    /// The moves, in order, and whether they wait for the node.
    moves: Vec<(LeavingPod, Moved, bool)>,
    /// The pods that are still there, each with the refusals of all nodes.
    rest: Vec<(LeavingPod, Refused)>,
    /// True if only pods that go with the node are left.
    is_empty: bool,
}

/// The moves of pods, and the pods that find no node, each with the refusals of all nodes.
struct MovedPods<'p> {
    moves: Vec<(LeavingPod, Moved, bool)>,
    waiting: Vec<(&'p LeavingPod, Refused)>,
}

/// A constraint that is violated by more than before.
pub struct Worse {
    namespace: String,
    workload: WorkloadId,
    constraint: Active,
}

impl DrainPlan {
    /// Makes a plan on a copy of a snapshot. The nodes must exist.
    pub fn of(imagined: &mut Imagined<'_>, options: &DrainOptions) -> Result<Self, Stopped> {
        let mut pods = gather(imagined, &options.nodes, &options.rules)?;
        let namespaces = imagined.namespaces().into_iter();
        let namespaces = namespaces.map(|name| (String::from(name), BTreeSet::new()));
        let mut leaving: LeavingWorkloads = namespaces.collect();
        for pod in pods.values().flatten().filter(|pod| pod.class().is_some()) {
            let own = leaving.entry((*pod.namespace).into()).or_default();
            own.insert(Arc::clone(&pod.workload));
        }
        let before = judge_all(imagined, &leaving, &options.rules)?;
        let start = pods.clone();
        let (mut plan, mut after) = loop {
            let (plan, after) = imagined.attempt(|imagined| {
                let mut drainer = Drainer::of(imagined, pods.clone(), options)?;
                drainer.drain(imagined, options)?;
                let after = judge_all(imagined, &leaving, &options.rules)?;
                Ok(((drainer.plan, after), false))
            })?;
            match worse_than(&before, &after) {
                Some(worse) => keep(&mut pods, &plan, &worse),
                None => break (plan, after),
            }
        };
        let emptied = plan.nodes.iter().filter(|(_, is_emptied)| *is_emptied);
        if emptied.count() < options.nodes.len()
            && let Some(found) = search(imagined, start, options, &before, &leaving)?
        {
            (plan, after) = found;
        }
        plan.note_spread(before, after);
        Ok(plan)
    }

    /// Notes the spread of the workloads of moves, before and after these.
    fn note_spread(&mut self, mut before: JudgedAll, mut after: JudgedAll) {
        for it in &self.moves {
            let place = (it.namespace.clone(), it.workload.clone());
            if let Some(before) = before.remove(&place) {
                let noted = RebalancedWorkload::of(By::Constraints, before, after.remove(&place));
                self.workloads.insert(place.clone(), noted);
            }
            if let Some(noted) = self.workloads.get_mut(&place) {
                noted.moves += 1;
            }
        }
    }
}

impl Drainer {
    /// Begins a plan. Nodes that go together are cordoned.
    pub fn of(
        imagined: &mut Imagined<'_>,
        pods: PodsByNode,
        options: &DrainOptions,
    ) -> Result<Self, Stopped> {
        let mut drainer = Self::looking(pods);
        drainer.come_back = options.one_at_a_time;
        let going = imagined.read_any(|view| {
            let going = options.nodes.iter();
            going.filter_map(|name| view.nodes.find(name)).collect()
        });
        if options.one_at_a_time {
            drainer.later = going;
        } else {
            drainer.never = going;
            for node in &options.nodes {
                cordon(imagined, node)?;
            }
        }
        Ok(drainer)
    }

    /// Begins a plan.
    pub fn looking(pods: PodsByNode) -> Self {
        let plan = DrainPlan {
            is_proven: true,
            ..DrainPlan::default()
        };
        Self {
            pods,
            plan,
            ..Self::default()
        }
    }

    /// Drains the nodes one after the other, and leaves the changes in the copy.
    fn drain(
        &mut self,
        imagined: &mut Imagined<'_>,
        options: &DrainOptions,
    ) -> Result<(), Stopped> {
        let mut queue = options.nodes.clone();
        for _ in 0..MOST_PASSES {
            let before = queue.len();
            let mut rest = Vec::new();
            for node in queue {
                if !self.empty(imagined, &node, true)? {
                    rest.push(node);
                }
            }
            queue = rest;
            if queue.len() == before {
                break;
            }
        }
        for node in queue.iter().filter(|_| !options.whole_only) {
            self.empty(imagined, node, false)?;
        }
        Ok(())
    }

    /// Empties a node; with `is_whole` nothing is changed where that is not possible. Returns whether
    /// it is empty.
    pub fn empty(
        &mut self,
        imagined: &mut Imagined<'_>,
        node: &str,
        is_whole: bool,
    ) -> Result<bool, Stopped> {
        let own = self.pods.get(node).cloned().unwrap_or_default();
        imagined.deadline().step(1 + own.len())?;
        let mut classes = own.iter().filter_map(LeavingPod::class);
        if is_whole && classes.any(|class| self.stuck.contains(&Arc::as_ptr(class))) {
            return Ok(false);
        }
        let emptied = imagined.attempt(|imagined| {
            let emptied = self.emptied(imagined, node, &own, is_whole)?;
            let is_kept = emptied.is_empty || !is_whole;
            Ok((emptied, is_kept))
        })?;
        if is_whole && !emptied.is_empty {
            if emptied.moves.is_empty() && !self.come_back {
                let stuck = emptied
                    .rest
                    .iter()
                    .filter(|(_, refused)| is_for_good(refused));
                let stuck = stuck.filter_map(|(pod, _)| pod.class());
                self.stuck.extend(stuck.map(Arc::as_ptr));
            }
            return Ok(false);
        }
        self.pods.remove(node);
        for (pod, moved, waits) in emptied.moves {
            self.note_move(node, &pod, moved, waits);
        }
        for (pod, refused) in emptied.rest {
            let (is_final, kind, text) = match &pod.fate {
                PodFate::Stays(kind, text) => {
                    (*kind != BlockerKind::Constraint, *kind, text.clone())
                }
                _ => told(&refused),
            };
            self.plan.is_proven &= is_final;
            self.plan.blocked.push(PodOfNode {
                node: node.to_owned(),
                kind: Some(kind),
                pod,
                text,
            });
        }
        self.note_node(node, &own, emptied.is_empty);
        Ok(emptied.is_empty)
    }

    /// Notes that a node is empty, or as empty as it becomes.
    pub fn note_node(&mut self, node: &str, own: &[LeavingPod], is_emptied: bool) {
        for pod in own {
            if let PodFate::GoesAlong(why) = pod.fate {
                self.plan.along.push(PodOfNode {
                    pod: pod.clone(),
                    node: node.to_owned(),
                    kind: None,
                    text: why.to_owned(),
                });
            }
        }
        self.plan.nodes.push((node.to_owned(), is_emptied));
    }

    /// Notes a move.
    pub fn note_move(&mut self, from: &str, pod: &LeavingPod, moved: Moved, waits: bool) {
        if let Some(there) = self.pods.get_mut(&moved.node) {
            // The pod leaves that node later.
            there.push(LeavingPod {
                made_by: Some(self.plan.moves.len()),
                uid: String::new(),
                ..pod.clone()
            });
        }
        let class = pod.class().map_or(std::ptr::null(), Arc::as_ptr);
        self.went.push((from.to_owned(), class, moved.node.clone()));
        self.plan.moves.push(PlannedMove {
            namespace: pod.namespace.to_string(),
            workload: (*pod.workload).clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            made_by: pod.made_by,
            from: from.to_owned(),
            to: moved.node,
            effects: moved.effects,
            waits_for_node: waits,
        });
    }

    /// Evicts the pods of a node, and lets it go or come back if no other pod is left.
    fn emptied(
        &self,
        imagined: &mut Imagined<'_>,
        node: &str,
        own: &[LeavingPod],
        is_whole: bool,
    ) -> Result<EmptiedNode, Stopped> {
        let mut emptied = EmptiedNode::default();
        let before = cordon(imagined, node)?;
        let staying = own
            .iter()
            .filter(|pod| matches!(pod.fate, PodFate::Stays(..)));
        emptied.rest = staying.map(|pod| (pod.clone(), Refused::new())).collect();
        if is_whole && !emptied.rest.is_empty() {
            return Ok(emptied);
        }
        let waiting = own.iter().filter(|it| it.class().is_some()).collect();
        let gives_up = is_whole && !self.come_back;
        let rest = self.move_all(imagined, (node, false), waiting, gives_up)?;
        emptied.moves = rest.moves;
        let waiting: Vec<&LeavingPod> = rest.waiting.iter().map(|(pod, _)| *pod).collect();
        let may_wait = emptied.rest.is_empty() && within_budgets(&waiting);
        if may_wait && !(gives_up && rest.waiting.iter().any(|(_, why)| is_for_good(why))) {
            let waited = imagined.attempt(|imagined| {
                self.let_go(imagined, (node, &before), own, &waiting)?;
                let waited = self.move_all(imagined, (node, true), waiting, false)?;
                let is_kept = waited.waiting.is_empty();
                Ok((waited, is_kept))
            })?;
            if waited.waiting.is_empty() {
                emptied.moves.extend(waited.moves);
                emptied.is_empty = true;
                return Ok(emptied);
            }
        }
        let rest = rest.waiting.into_iter();
        emptied
            .rest
            .extend(rest.map(|(pod, why)| (pod.clone(), why)));
        Ok(emptied)
    }

    /// Moves pods until none of those that are left finds a node; with `gives_up` only until one finds
    /// none for good.
    fn move_all<'p>(
        &self,
        imagined: &mut Imagined<'_>,
        (node, is_gone): (&str, bool),
        mut pods: Vec<&'p LeavingPod>,
        gives_up: bool,
    ) -> Result<MovedPods<'p>, Stopped> {
        let mut moves = Vec::new();
        loop {
            let mut waiting: Vec<(&LeavingPod, Refused)> = Vec::new();
            for pod in &pods {
                match self.move_pod(imagined, (node, is_gone), pod, None)? {
                    Ok(moved) => moves.push(((*pod).clone(), moved, is_gone)),
                    Err(why) => waiting.push((pod, why)),
                }
                if gives_up && waiting.last().is_some_and(|(_, why)| is_for_good(why)) {
                    return Ok(MovedPods { moves, waiting });
                }
            }
            if waiting.is_empty() || waiting.len() == pods.len() {
                return Ok(MovedPods { moves, waiting });
            }
            pods = waiting.iter().map(|(pod, _)| *pod).collect();
        }
    }

    /// Evicts the pods that are left on a node, and lets it go or come back.
    pub fn let_go(
        &self,
        imagined: &mut Imagined<'_>,
        (node, before): (&str, &v1::Node),
        own: &[LeavingPod],
        waiting: &[&LeavingPod],
    ) -> Result<(), Stopped> {
        let delete = |pod: &LeavingPod| deletion("Pod", &pod.namespace, &pod.name);
        imagined.change(waiting.iter().map(|pod| delete(pod)).collect::<Vec<_>>())?;
        if self.come_back {
            return imagined.change([Object::Node(before.clone())]);
        }
        let along = own
            .iter()
            .filter(|pod| matches!(pod.fate, PodFate::GoesAlong(_)));
        let gone: Vec<Object> = along.map(delete).collect();
        imagined.change(gone.into_iter().chain([deletion("Node", "", node)]))
    }

    /// Evicts a pod, and puts its successor on a node, or else on the best one that takes it. Nothing
    /// is changed if none does; then the refusals are returned. A pod that waits is evicted already.
    pub fn move_pod(
        &self,
        imagined: &mut Imagined<'_>,
        (from, waits): (&str, bool),
        pod: &LeavingPod,
        to: Option<Slot>,
    ) -> Result<Result<Moved, Refused>, Stopped> {
        let Some(class) = pod.class() else {
            return Ok(Err(Refused::new()));
        };
        move_pod(imagined, (&pod.namespace, &pod.name), class, |view| {
            let constraints = class.question.constraints_on(view)?;
            let from = (view.nodes.find(from), waits);
            let to = match to {
                Some(to) => to,
                None => match self.open_nodes(class, &constraints, from, view)? {
                    Err(refused) => return Ok(Err(refused)),
                    Ok(open) => self.best(&constraints, open, from.0, view)?,
                },
            };
            Ok(Ok((to, effects(&constraints, from.0, to, view)?)))
        })
    }

    /// The nodes that take a pod which is evicted, and to which it may go.
    pub fn open_nodes(
        &self,
        class: &PodClass,
        constraints: &Constraints,
        (from, is_back): (Option<Slot>, bool),
        read_view: &ReadView<'_>,
    ) -> Result<Result<Vec<Slot>, Refused>, Stopped> {
        let filter = Filter::of(&class.question, constraints, NodeChecks::All, read_view)?;
        let order = read_view.nodes.order();
        read_view.deadline.step(1 + order.len() / 64)?;
        let judged = filter.judge_all(order)?;
        let is_open = |slot: &Slot| (is_back || Some(*slot) != from) && !self.never.contains(slot);
        let passing = judged.pass.ones().map(|at| order[at]);
        let passing: Vec<Slot> = passing.filter(is_open).collect();
        Ok(match passing.is_empty() {
            false => Ok(passing),
            // Without refusals, a pod tolerates that its node is cordoned.
            true if judged.tallies.feasible > 0 => Err(Refused::new()),
            true => Err(judged.tallies.refused),
        })
    }

    /// The best of nodes: one that is not to go later, then in as many of the same domains of hard
    /// constraints as possible, then with the best score.
    fn best(
        &self,
        constraints: &Constraints,
        mut open: Vec<Slot>,
        from: Option<Slot>,
        read_view: &ReadView<'_>,
    ) -> Result<Slot, Stopped> {
        let hard = constraints.hard().map(|it| read_view.count(it.query()));
        let counts: Vec<DomainCounts<'_>> = hard.collect::<Result<_, _>>()?;
        let rank = |slot: &Slot| {
            let same = counts.iter().filter(|it| {
                let domain = it.domain_of(*slot);
                domain.is_some() && from.is_some_and(|from| it.domain_of(from) == domain)
            });
            (!self.later.contains(slot), same.count())
        };
        let highest = open.iter().map(rank).max();
        open.retain(|slot| Some(rank(slot)) == highest);
        Ok(best_of(constraints, &open, read_view)?.unwrap_or(open[0]))
    }
}

/// Keeps the pods where they are that a plan moves and a constraint counts; if there are none, all that
/// it moves, and else the nodes that it empties.
fn keep(pods: &mut PodsByNode, plan: &DrainPlan, worse: &Worse) {
    let key = &worse.constraint.constraint.topology_key;
    let text = format!(
        "without it {} would be less even over {key}",
        worse.workload
    );
    let stays = PodFate::Stays(BlockerKind::Constraint, text);
    let moved = plan.moves.iter().map(|it| (&*it.namespace, &*it.pod));
    let moved: HashSet<(&str, &str)> = moved.collect();
    let going = pods.values_mut().flatten();
    let going = going.filter(|pod| moved.contains(&(&*pod.namespace, &*pod.name)));
    let (counted, others): (Vec<_>, Vec<_>) = going.partition(|pod| {
        let labels = pod.class().map(|class| &class.question.subject.labels);
        let counted = worse.constraint.counted();
        *pod.namespace == *worse.namespace && labels.is_some_and(|it| counted.matches_labels(it))
    });
    let kept = if counted.is_empty() { others } else { counted };
    if !kept.is_empty() {
        kept.into_iter().for_each(|pod| pod.fate = stays.clone());
        return;
    }
    for (node, _) in plan.nodes.iter().filter(|(_, is_emptied)| *is_emptied) {
        pods.entry(node.clone()).or_default().push(LeavingPod {
            namespace: worse.namespace.as_str().into(),
            workload: Arc::new(worse.workload.clone()),
            fate: stays.clone(),
            name: String::new(),
            uid: String::new(),
            made_by: None,
        });
    }
}

/// The spread of all workloads of the namespaces. Domains are listed only for workloads that pods
/// leave.
pub fn judge_all(
    imagined: &Imagined<'_>,
    leaving: &LeavingWorkloads,
    rules: &EvictionRules,
) -> Result<JudgedAll, Stopped> {
    let mut all = JudgedAll::new();
    for (namespace, leaving) in leaving {
        let judge = |read_view: ReadView<'_>| {
            let pods = read_view.pod_groups()?;
            for judged in rules
                .survey(&pods, namespace, None)?
                .judge_all(&By::Constraints)
            {
                let mut judged = judged?;
                if !leaving.contains(&judged.workload) {
                    let balances = judged.balances.iter_mut();
                    balances.for_each(|it| it.domains = Vec::new());
                }
                read_view.deadline.room()?;
                all.insert((namespace.clone(), judged.workload.clone()), judged);
            }
            Ok::<_, Stopped>(())
        };
        imagined.read(namespace, judge).transpose()?;
    }
    Ok(all)
}

/// The first hard constraint that is violated by more than before.
pub fn worse_than(before: &JudgedAll, after: &JudgedAll) -> Option<Worse> {
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

/// The effects of a move on hard constraints, of a pod that was counted where it was.
fn effects(
    constraints: &Constraints,
    from: Option<Slot>,
    to: Slot,
    read_view: &ReadView<'_>,
) -> Result<Vec<MoveEffect>, Stopped> {
    let effect = |active: &Active| {
        let counts = read_view.count(active.query())?;
        let domain = |domain: DomainId, more: i64| match domain.is_some() {
            false => (String::new(), 0),
            true => {
                let topology = &counts.in_use().topology;
                let value = topology.value(domain, read_view.nodes).to_owned();
                (value, i64::from(counts.matching_pods(domain)) + more)
            }
        };
        let from = from.map_or(DomainId::NONE, |it| counts.domain_of(it));
        let to = counts.domain_of(to);
        let same = if from == to { active.self_match } else { 0 };
        Ok(MoveEffect {
            topology_key: active.constraint.topology_key.to_string(),
            from: domain(from, active.self_match),
            to: domain(to, same),
        })
    };
    constraints.hard().map(effect).collect()
}

/// Cordons a node, with the taint that Kubernetes adds. Returns the node before.
pub fn cordon(imagined: &mut Imagined<'_>, name: &str) -> Result<v1::Node, Stopped> {
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
fn is_for_good(refused: &Refused) -> bool {
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
        (is_cordoned, Reverse(**nodes))
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
