//! Empties nodes: each pod is evicted once Filter admits its successor on another node, on a copy of
//! the snapshot to which every step is applied. The pods of nodes that are to go: which of them move, which
//! go with their node, and which stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::movable::{
    EvictionRules, MovablePods, PodClass, best_of, deletion, goes_with_node, move_pod,
};
use super::rebalance::{kind_of, number_of_last, unmoved};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::proto::v1::move_blocker::Kind;
use crate::snapshot::partition::UNSCHEDULABLE_TAINT;
use crate::snapshot::{DomainCounts, Imagined, NamedPod, NodeRef, ReadView, Slot, Stopped};
use crate::spread::describe::{Balance, JudgedWorkload, WorkloadId};
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

/// The refusals of all nodes, by reason.
type Refused = BTreeMap<Reason, usize>;

/// The spread of workloads, by namespace.
type JudgedAll = BTreeMap<(String, WorkloadId), JudgedWorkload>;

/// The workloads of pods that may move, by namespace.
type LeavingWorkloads = BTreeMap<String, BTreeSet<Arc<WorkloadId>>>;

/// A plan in the making.
pub struct Drainer {
    /// The pods of the nodes.
    pods: PodsByNode,
    /// Nodes to which no pod goes.
    never: HashSet<Slot>,
    /// Nodes that are to go later. Pods go there only if nowhere else.
    later: HashSet<Slot>,
    /// True if nodes come back, without their pods.
    come_back: bool,
    /// The answer, without its workloads.
    pub answer: v1::PlanNodesResponse,
    /// The number of moves of each workload, by namespace.
    moved: BTreeMap<(String, WorkloadId), i64>,
}

/// What becomes of the pods of a node.
#[derive(Default)]
struct EmptiedNode<'p> {
    /// The pods that move, in order, with their moves.
    moves: Vec<(&'p LeavingPod, v1::PodMove)>,
    /// The pods that are still there, each with the refusals of all nodes.
    rest: Vec<(&'p LeavingPod, Refused)>,
}

/// A constraint that is violated by more than before.
struct Worse {
    namespace: String,
    workload: WorkloadId,
    constraint: Active,
}

/// Plans how nodes, which must exist, are emptied on a copy of a snapshot. The answer is without the
/// revision and the kind of default constraints.
pub fn drain_nodes(
    imagined: &mut Imagined<'_>,
    options: &DrainOptions,
) -> Result<v1::PlanNodesResponse, Stopped> {
    let mut pods = gather(imagined, &options.nodes, &options.rules)?;
    let namespaces = imagined.namespaces().into_iter();
    let namespaces = namespaces.map(|name| (String::from(name), BTreeSet::new()));
    let mut leaving: LeavingWorkloads = namespaces.collect();
    for pod in pods.values().flatten().filter(|pod| pod.class().is_some()) {
        let own = leaving.entry((*pod.namespace).into()).or_default();
        own.insert(Arc::clone(&pod.workload));
    }
    let mut before = judge_all(imagined, &leaving, &options.rules)?;
    loop {
        let (drainer, mut after) = imagined.attempt(|imagined| {
            let mut drainer = Drainer::of(imagined, pods.clone(), options)?;
            drainer.drain(imagined, options)?;
            let after = judge_all(imagined, &leaving, &options.rules)?;
            Ok(((drainer, after), false))
        })?;
        let mut answer = drainer.answer;
        if let Some(worse) = worse_than(&before, &after)
            && keep(&mut pods, &answer, &worse)
        {
            continue;
        }
        for (place, moves) in drainer.moved {
            if let Some(before) = before.remove(&place) {
                let after = after.remove(&place).into_iter();
                let after = after.flat_map(|after| after.balances);
                answer.workloads.push(v1::RebalancedWorkload {
                    move_count: moves,
                    after: after.map(Balance::into_wire).collect(),
                    ..unmoved(&place.0, before)
                });
            }
        }
        return Ok(answer);
    }
}

impl Drainer {
    /// Begins a plan. Nodes that go together are cordoned.
    fn of(
        imagined: &mut Imagined<'_>,
        pods: PodsByNode,
        options: &DrainOptions,
    ) -> Result<Self, Stopped> {
        let mut drainer = Self::looking(pods, HashSet::new());
        drainer.come_back = options.one_at_a_time;
        let (nodes, going) = (imagined.read_any().nodes, options.nodes.iter());
        let going = going.filter_map(|name| nodes.find(name)).collect();
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

    /// Begins a plan of nodes that are not cordoned yet, with those that are likely to go later.
    pub fn looking(pods: PodsByNode, later: HashSet<Slot>) -> Self {
        Self {
            pods,
            later,
            answer: v1::PlanNodesResponse {
                optimal: true,
                ..Default::default()
            },
            moved: BTreeMap::new(),
            never: HashSet::new(),
            come_back: false,
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
        let emptied = imagined.attempt(|imagined| {
            let emptied = self.emptied(imagined, node, &own, is_whole)?;
            let is_kept = emptied.rest.is_empty() || !is_whole;
            Ok((emptied, is_kept))
        })?;
        let is_empty = emptied.rest.is_empty();
        if is_whole && !is_empty {
            return Ok(false);
        }
        self.pods.remove(node);
        for (pod, step) in emptied.moves {
            let place = (step.namespace.clone(), (*pod.workload).clone());
            *self.moved.entry(place).or_default() += 1;
            let there = self.pods.get_mut(&step.to);
            self.answer.moves.push(step);
            if let Some(there) = there {
                // The pod leaves that node later.
                there.push(LeavingPod {
                    successor_of: number_of_last(&self.answer.moves),
                    uid: String::new(),
                    ..pod.clone()
                });
            }
        }
        let of_node = |pod: &LeavingPod, kind: Kind, text| v1::PodOfNode {
            namespace: pod.namespace.to_string(),
            pod: pod.name.clone(),
            node: node.to_owned(),
            workload: Some(pod.workload.to_wire()),
            kind: kind.into(),
            text,
        };
        for (pod, refused) in emptied.rest {
            let (is_final, kind, text) = match &pod.fate {
                PodFate::Stays(kind, text) => (*kind != Kind::Constraint, *kind, text.clone()),
                _ => told(&refused),
            };
            self.answer.optimal &= is_final;
            self.answer.blocked.push(of_node(pod, kind, text));
        }
        for pod in &own {
            if let PodFate::GoesAlong(why) = pod.fate {
                let along = of_node(pod, Kind::Unspecified, why.to_owned());
                self.answer.with_node.push(along);
            }
        }
        self.answer.nodes.push(v1::LeavingNode {
            name: node.to_owned(),
            emptied: is_empty,
        });
        Ok(is_empty)
    }

    /// Evicts the pods of a node, and lets it go or come back if no other pod is left.
    fn emptied<'p>(
        &self,
        imagined: &mut Imagined<'_>,
        node: &str,
        own: &'p [LeavingPod],
        is_whole: bool,
    ) -> Result<EmptiedNode<'p>, Stopped> {
        let mut emptied = EmptiedNode::default();
        let before = cordon(imagined, node)?;
        let stays = |pod: &&LeavingPod| matches!(pod.fate, PodFate::Stays(..));
        let staying: Vec<_> = own
            .iter()
            .filter(stays)
            .map(|pod| (pod, Refused::new()))
            .collect();
        if is_whole && !staying.is_empty() {
            emptied.rest = staying;
            return Ok(emptied);
        }
        let waiting: Vec<_> = own.iter().filter(|pod| pod.class().is_some()).collect();
        let gives_up = is_whole && !self.come_back;
        self.move_all(imagined, (node, false), waiting, gives_up, &mut emptied)?;
        let waiting: Vec<&LeavingPod> = emptied.rest.iter().map(|(pod, _)| *pod).collect();
        let is_hopeless = gives_up && emptied.rest.iter().any(|(_, why)| is_for_good(why));
        if staying.is_empty() && !is_hopeless && within_budgets(&waiting) {
            let waited = imagined.attempt(|imagined| {
                self.let_go(imagined, (node, &before), own, &waiting)?;
                let mut waited = EmptiedNode::default();
                self.move_all(imagined, (node, true), waiting, false, &mut waited)?;
                let is_kept = waited.rest.is_empty();
                Ok((waited, is_kept))
            })?;
            if waited.rest.is_empty() {
                emptied.moves.extend(waited.moves);
                emptied.rest.clear();
            }
        }
        emptied.rest.splice(0..0, staying);
        Ok(emptied)
    }

    /// Moves pods until none of those that are left finds a node; with `gives_up` only until one finds
    /// none for good.
    fn move_all<'p>(
        &self,
        imagined: &mut Imagined<'_>,
        (node, waits): (&str, bool),
        mut pods: Vec<&'p LeavingPod>,
        gives_up: bool,
        emptied: &mut EmptiedNode<'p>,
    ) -> Result<(), Stopped> {
        loop {
            emptied.rest.clear();
            for pod in &pods {
                match self.move_pod(imagined, (node, waits), pod)? {
                    Ok(step) => emptied.moves.push((*pod, step)),
                    Err(why) => emptied.rest.push((*pod, why)),
                }
                if gives_up && emptied.rest.last().is_some_and(|(_, why)| is_for_good(why)) {
                    return Ok(());
                }
            }
            if emptied.rest.is_empty() || emptied.rest.len() == pods.len() {
                return Ok(());
            }
            pods = emptied.rest.iter().map(|(pod, _)| *pod).collect();
        }
    }

    /// Evicts the pods that are left on a node, and lets it go or come back.
    fn let_go(
        &self,
        imagined: &mut Imagined<'_>,
        (node, before): (&str, &v1::Node),
        own: &[LeavingPod],
        waiting: &[&LeavingPod],
    ) -> Result<(), Stopped> {
        let delete = |pod: &LeavingPod| deletion("Pod", &pod.namespace, &pod.name);
        let waiting = waiting.iter().map(|pod| delete(pod));
        if self.come_back {
            return imagined.change(waiting.chain([Object::Node(before.clone())]));
        }
        let along = own.iter();
        let along = along.filter(|pod| matches!(pod.fate, PodFate::GoesAlong(_)));
        let gone: Vec<Object> = waiting.chain(along.map(delete)).collect();
        imagined.change(gone.into_iter().chain([deletion("Node", "", node)]))
    }

    /// Evicts a pod, and puts its successor on the best node that takes it. Nothing is changed if none
    /// does; then the refusals are returned. A pod that waits is evicted already.
    fn move_pod(
        &self,
        imagined: &mut Imagined<'_>,
        (node, waits): (&str, bool),
        pod: &LeavingPod,
    ) -> Result<Result<v1::PodMove, Refused>, Stopped> {
        let Some(class) = pod.class() else {
            return Ok(Err(Refused::new()));
        };
        let moved = move_pod(imagined, (&pod.namespace, &pod.name), class, |view| {
            let constraints = class.question.constraints_on(view)?;
            let from = view.nodes.find(node);
            let filter = Filter::of(&class.question, &constraints, NodeChecks::All, view)?;
            let order = view.nodes.order();
            view.deadline.step(1 + order.len() / 64)?;
            let judged = filter.judge_all(order)?;
            let is_open =
                |slot: &Slot| (waits || Some(*slot) != from) && !self.never.contains(slot);
            let passing = judged.pass.ones().map(|at| order[at]);
            let open: Vec<Slot> = passing.filter(is_open).collect();
            Ok(match open.is_empty() {
                false => Ok((self.best(&constraints, open, from, view)?, Vec::new())),
                // Without refusals, a pod tolerates that its node is cordoned.
                true if judged.tallies.feasible > 0 => Err(Refused::new()),
                true => Err(judged.tallies.refused),
            })
        })?;
        Ok(moved.map(|(_, step)| v1::PodMove {
            workload: Some(pod.workload.to_wire()),
            uid: pod.uid.clone(),
            successor_of: pod.successor_of,
            from: node.to_owned(),
            waits_for_node: waits,
            ..step
        }))
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

/// Keeps the pods where they are that a plan moves and a constraint counts; if there are none, the nodes
/// that it empties. Returns false if there are none of these either.
fn keep(pods: &mut PodsByNode, plan: &v1::PlanNodesResponse, worse: &Worse) -> bool {
    let key = &worse.constraint.constraint.topology_key;
    let text = format!(
        "without it {} would be less even over {key}",
        worse.workload
    );
    let stays = PodFate::Stays(Kind::Constraint, text);
    let moved = plan.moves.iter().map(|it| (&*it.namespace, &*it.pod));
    let moved: HashSet<(&str, &str)> = moved.collect();
    let is_counted = |pod: &LeavingPod| {
        let labels = pod.class().map(|class| &class.question.subject.labels);
        let counted = worse.constraint.counted();
        *pod.namespace == *worse.namespace && labels.is_some_and(|it| counted.matches_labels(it))
    };
    let mut is_kept = false;
    for pod in pods.values_mut().flatten() {
        if moved.contains(&(&*pod.namespace, &*pod.name)) && is_counted(pod) {
            pod.fate = stays.clone();
            is_kept = true;
        }
    }
    if is_kept {
        return true;
    }
    for node in plan.nodes.iter().filter(|node| node.emptied) {
        pods.entry(node.name.clone()).or_default().push(LeavingPod {
            namespace: worse.namespace.as_str().into(),
            workload: Arc::new(worse.workload.clone()),
            fate: stays.clone(),
            name: String::new(),
            uid: String::new(),
            successor_of: 0,
        });
        is_kept = true;
    }
    is_kept
}

/// The spread of all workloads of the namespaces. Domains are listed only for workloads that pods
/// leave.
fn judge_all(
    imagined: &Imagined<'_>,
    leaving: &LeavingWorkloads,
    rules: &EvictionRules,
) -> Result<JudgedAll, Stopped> {
    let mut all = JudgedAll::new();
    for (namespace, leaving) in leaving {
        let read_view = imagined.read(namespace);
        let pods = read_view.pod_groups()?;
        for judged in rules.survey(&pods, namespace, None)?.judge_all(None) {
            let mut judged = judged?;
            if !leaving.contains(&judged.workload) {
                let balances = judged.balances.iter_mut();
                balances.for_each(|it| it.numbers.domains = Vec::new());
            }
            read_view.deadline.room()?;
            all.insert((namespace.clone(), judged.workload.clone()), judged);
        }
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

/// Cordons a node, with the taint that Kubernetes adds. Returns the node before.
fn cordon(imagined: &mut Imagined<'_>, name: &str) -> Result<v1::Node, Stopped> {
    let nodes = imagined.read_any().nodes;
    let before = nodes.find(name).and_then(|slot| nodes.get(slot));
    let before = before.map(NodeRef::to_wire).unwrap_or_default();
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
fn told(refused: &Refused) -> (bool, Kind, String) {
    let mut all: Vec<_> = refused.iter().collect();
    all.sort_by_key(|(reason, nodes)| {
        let is_cordoned = **reason == Reason::Unschedulable;
        (is_cordoned, Reverse(**nodes))
    });
    let Some((first, _)) = all.first() else {
        let text = "only nodes that go take it".to_owned();
        return (false, Kind::Node, text);
    };
    let texts = all
        .iter()
        .map(|(reason, nodes)| format!("{nodes} {}", reason.text()));
    let text = texts.collect::<Vec<_>>().join(", ");
    (refused.keys().all(is_fixed), kind_of(first), text)
}

/// A pod on a node that is to go. Without a name, it stands for the node itself.
#[derive(Debug, Clone)]
pub struct LeavingPod {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod.
    pub uid: String,
    /// The workload of the pod.
    pub workload: Arc<WorkloadId>,
    /// What becomes of the pod.
    pub fate: PodFate,
    /// The number of the move that creates the pod, from 1; 0 if the plan does not create it.
    pub successor_of: i32,
}

/// What becomes of a pod when its node goes.
#[derive(Debug, Clone)]
pub enum PodFate {
    /// It is evicted, and its owner makes another one.
    Moves(Arc<PodClass>),
    /// It goes with the node, for this reason.
    GoesAlong(&'static str),
    /// It stays, for this reason.
    Stays(Kind, String),
}

/// The pods of each node that is to go, by its name, those that request most first.
pub type PodsByNode = BTreeMap<String, Vec<LeavingPod>>;

impl LeavingPod {
    /// The class of the pod, if it moves.
    pub fn class(&self) -> Option<&Arc<PodClass>> {
        match &self.fate {
            PodFate::Moves(class) => Some(class),
            _ => None,
        }
    }
}

/// The pods of nodes, by the rules of a plan of moves.
pub fn gather(
    imagined: &Imagined<'_>,
    nodes: &[String],
    rules: &EvictionRules,
) -> Result<PodsByNode, Stopped> {
    let mut all: PodsByNode = nodes.iter().map(|it| (it.clone(), Vec::new())).collect();
    let mut slots = HashSet::new();
    for name in imagined.deadline().each(nodes) {
        slots.extend(imagined.read_any().nodes.find(name?));
    }
    for namespace in imagined.namespaces() {
        let read_view = imagined.read(&namespace);
        let pods = read_view.pod_groups()?;
        let found = pods.on_nodes(&slots)?;
        if found.is_empty() {
            continue;
        }
        let shared: Arc<str> = (*namespace).into();
        let mut put = |node: Option<Slot>, (name, uid): (&str, String), workload, fate| {
            let node = node.map_or("", |node| read_view.nodes.name(node));
            all.entry(node.to_owned()).or_default().push(LeavingPod {
                namespace: Arc::clone(&shared),
                name: name.to_owned(),
                uid,
                workload,
                fate,
                successor_of: 0,
            });
        };
        let is_pod = |pod: &NamedPod| pod.group < pods.groups().len();
        let (found, reserved): (Vec<_>, Vec<_>) = found.into_iter().partition(is_pod);
        for pod in reserved {
            let name = (pod.name.trim_start_matches('~'), String::new());
            let why = "reserved for a pod to come".to_owned();
            let fate = PodFate::Stays(Kind::Pod, why);
            put(pod.node, name, Arc::default(), fate);
        }
        let survey = rules.survey(&pods, &namespace, None)?;
        let workloads = survey.all_wanted(None)?;
        let workloads: Vec<_> = workloads.iter().map(|(id, it)| (*id, it)).collect();
        let ids = workloads.iter().map(|(id, _)| Arc::new((*id).clone()));
        let ids: Vec<Arc<WorkloadId>> = ids.collect();
        let found = found.into_iter();
        let found = found.map(|pod| (pods.groups()[pod.group].id(), pod));
        let movable = MovablePods::of(&pods, &namespace, &workloads, found, rules)?;
        let fate_of = |id: &WorkloadId, fate| match goes_with_node(id) {
            Some(why) => PodFate::GoesAlong(why),
            None => fate,
        };
        for pod in movable.pods {
            let class = &movable.classes[pod.class];
            let id = &ids[class.workload];
            let fate = match pod.staying {
                None => PodFate::Moves(Arc::clone(class)),
                Some((kind, text)) => PodFate::Stays(kind, text.to_string()),
            };
            let name = (&*pod.name, pod.uid);
            put(Some(pod.node), name, Arc::clone(id), fate_of(id, fate));
        }
        for (pod, workload, fault) in movable.faulty {
            let id = &ids[workload];
            let fate = fate_of(id, PodFate::Stays(Kind::Pod, fault));
            put(pod.node, (&*pod.name, pod.uid), Arc::clone(id), fate);
        }
    }
    for pods in all.values_mut() {
        pods.sort_by_cached_key(|pod| {
            let size = pod.class().map(|class| class.question.size());
            (Reverse(size), Arc::clone(&pod.namespace), pod.name.clone())
        });
    }
    Ok(all)
}

/// Returns whether budgets allow that all of these pods are on no node at a time.
pub fn within_budgets(pods: &[&LeavingPod]) -> bool {
    let mut wanted = HashMap::new();
    pods.iter().all(|pod| {
        let Some(leeway) = pod.class().map(|class| &class.leeway) else {
            return false;
        };
        let workload = leeway.budget.is_none().then_some(&pod.workload);
        let shared = (&pod.namespace, leeway.budget, workload);
        let waiting: &mut usize = wanted.entry(shared).or_default();
        *waiting += 1;
        *waiting <= leeway.allowed
    })
}
