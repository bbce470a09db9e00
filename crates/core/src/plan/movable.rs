//! The pods that a plan may move, in classes of alike pods, the rules about those that it may evict, the
//! reasons why others stay, and the move of a pod on a copy of the snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;

use crate::limits::Limits;
use crate::matching::{Path, Selector};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::proto::v1::move_blocker::Kind;
use crate::snapshot::owners::{DisruptionBudget, NamedBudget};
use crate::snapshot::pod_groups::PodGroupId;
use crate::snapshot::pod_terms::PairIndex;
use crate::snapshot::{Imagined, NamedPod, PodGroup, PodGroups, ReadView, Slot, Stopped};
use crate::spread::describe::{
    NamedWorkload, OF_THE_NODE, Survey, WorkloadId, WorkloadPods, example,
};
use crate::spread::{Constraints, Question, Scores};

/// The pods of some workloads of a namespace.
#[derive(Default)]
pub struct MovablePods {
    /// The classes of the pods.
    pub classes: Vec<Arc<PodClass>>,
    /// The pods that are on nodes.
    pub pods: Vec<MovablePod>,
    /// Pods that cannot be judged, each with the index of its workload and the fault in its spec.
    pub faulty: Vec<(NamedPod, usize, String)>,
}

/// Pods of a workload that are alike.
#[derive(Debug, Clone)]
pub struct PodClass {
    /// The index of the workload of the pods.
    pub workload: usize,
    /// The group of the pods.
    pub group: PodGroupId,
    /// A pod of the class without name and node, as its owner would create it.
    pub pod: v1::Pod,
    /// The compiled form of that pod.
    pub question: Question,
    /// The labels of the pods that the API server copied from the node.
    pub node_labels: Vec<String>,
    /// How many of the pods may be on no node at a time.
    pub leeway: Leeway,
    /// The reason why all pods of the class stay.
    pub staying: Option<Staying>,
}

/// A pod.
#[derive(Debug, Clone)]
pub struct MovablePod {
    /// The index of the pod's class.
    pub class: usize,
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod.
    pub uid: String,
    /// The node of the pod.
    pub node: Slot,
    /// The reason why the pod stays.
    pub staying: Option<Staying>,
    /// The number of the move that created the pod, from 1; 0 if none did.
    pub successor_of: i32,
}

impl MovablePods {
    /// Sorts pods into classes. Those are left out that are on no node or of none of the workloads.
    pub fn of(
        pods: &PodGroups<'_>,
        namespace: &str,
        workloads: &[(&WorkloadId, &WorkloadPods<'_>)],
        found: impl Iterator<Item = (PodGroupId, NamedPod)>,
        rules: &EvictionRules,
    ) -> Result<Self, Stopped> {
        let (read_view, budgets) = (pods.read_view(), NamespaceBudgets::of(pods)?);
        let mut by_group: HashMap<PodGroupId, Vec<NamedPod>> = HashMap::new();
        for (group, pod) in found {
            by_group.entry(group).or_default().push(pod);
        }
        let wished = rules.stay.get(namespace);
        let mut all = Self::default();
        for (at, (id, workload)) in workloads.iter().enumerate() {
            for alike in read_view.deadline.each(&workload.groups) {
                let group = *alike?;
                let Some(found) = by_group.remove(&group.id()) else {
                    continue;
                };
                let leeway = budgets.leeway(pods, group, workload, rules.max_unavailable)?;
                let staying = staying_group(group, id, &leeway, pods, rules)?;
                let mut by_volumes: HashMap<Vec<u8>, Result<usize, String>> = HashMap::new();
                let (alike, node_labels) = as_made(example(pods, group, namespace));
                for named in found {
                    let Some(node) = named.node else { continue };
                    let mut made = alike.clone();
                    if pods.use_storage(group) {
                        // Volumes decide too where a pod can go, and its claims may be its own.
                        let whole = read_view.whole_pod(namespace, &named.name);
                        let spec = whole.and_then(|pod| pod.spec).unwrap_or_default();
                        made.spec.get_or_insert_default().volumes = spec.volumes;
                    }
                    let class = by_volumes.entry(made.encode_to_vec()).or_insert_with(|| {
                        let path = Path::root("pod");
                        let question = Question::compile(Some(&made), &rules.limits, path);
                        all.classes.push(Arc::new(PodClass {
                            workload: at,
                            group: group.id(),
                            question: question.map_err(|faults| faults.to_string())?,
                            pod: made,
                            node_labels: node_labels.clone(),
                            leeway: leeway.clone(),
                            staying: staying.clone(),
                        }));
                        Ok(all.classes.len() - 1)
                    });
                    let wished = wished.and_then(|names| names.get(&named.name));
                    let wished = wished.map(|why| (Kind::Pod, Arc::from(&**why)));
                    match class {
                        Err(fault) => all.faulty.push((named, at, fault.clone())),
                        Ok(class) => all.pods.push(MovablePod {
                            class: *class,
                            name: named.name,
                            uid: named.uid,
                            node,
                            staying: wished.or_else(|| staying.clone()),
                            successor_of: 0,
                        }),
                    }
                }
            }
        }
        Ok(all)
    }
}

/// Deletes a pod, if it is still there, and puts its successor on the node that `choose` returns with
/// the effects of that. Nothing is changed if that refuses. The move names the new node and the effects.
pub fn move_pod<N>(
    imagined: &mut Imagined<'_>,
    (namespace, name): (&str, &str),
    class: &PodClass,
    choose: impl FnOnce(&ReadView<'_>) -> Result<Result<(Slot, Vec<v1::MoveEffect>), N>, Stopped>,
) -> Result<Result<(Slot, v1::PodMove), N>, Stopped> {
    let old = imagined.read(namespace).whole_pod(namespace, name);
    if old.is_some() {
        imagined.change([deletion("Pod", namespace, name)])?;
    }
    let view = imagined.read(namespace);
    let chosen = choose(&view)?.map(|(to, why)| {
        let step = v1::PodMove {
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            to: view.nodes.name(to).to_owned(),
            why,
            ..Default::default()
        };
        ((to, step), successor(class, (namespace, name), to, &view))
    });
    match chosen {
        Ok((moved, made)) => {
            imagined.change([Object::Pod(made)])?;
            Ok(Ok(moved))
        }
        Err(refused) => {
            imagined.change(old.map(Object::Pod))?;
            Ok(Err(refused))
        }
    }
}

/// The best of nodes by their scores.
pub fn best_of(
    constraints: &Constraints,
    nodes: &[Slot],
    read_view: &ReadView<'_>,
) -> Result<Option<Slot>, Stopped> {
    if nodes.len() < 2 || constraints.soft().next().is_none() {
        return Ok(nodes.first().copied());
    }
    let scores = Scores::of(constraints, nodes, read_view)?;
    Ok(scores.best(1).first().map(|at| nodes[*at]))
}

/// A pod as its owner would create it, and the labels that the API server copied to it from its
/// node.
fn as_made(mut pod: v1::Pod) -> (v1::Pod, Vec<String>) {
    let mut node_labels = Vec::new();
    let metadata = pod.metadata.get_or_insert_default();
    metadata.labels.retain(|key, _| {
        let is_copied = OF_THE_NODE.contains(&key.as_str());
        if is_copied {
            node_labels.push(key.clone());
        }
        !is_copied
    });
    (pod, node_labels)
}

/// The pod with which the owner replaces a deleted pod, on its new node. It has the old pod's name,
/// because its real name is not known.
fn successor(
    class: &PodClass,
    (namespace, name): (&str, &str),
    to: Slot,
    read_view: &ReadView<'_>,
) -> v1::Pod {
    let mut pod = class.pod.clone();
    let metadata = pod.metadata.get_or_insert_default();
    name.clone_into(&mut metadata.name);
    namespace.clone_into(&mut metadata.namespace);
    let node = read_view.nodes.get(to);
    for key in &class.node_labels {
        if let Some(value) = node.as_ref().and_then(|node| node.label_text(key)) {
            metadata.labels.insert(key.clone(), value.to_owned());
        }
    }
    read_view
        .nodes
        .name(to)
        .clone_into(&mut pod.spec.get_or_insert_default().node_name);
    pod
}

/// The deletion of an object.
pub fn deletion(kind: &str, namespace: &str, name: &str) -> Object {
    Object::Delete(v1::ObjectReference {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    })
}

/// The pods that stay, by namespace and name, each with the reason.
pub type StayingPods = HashMap<String, HashMap<String, String>>;

/// The rules about the pods that a plan may evict.
#[derive(Debug, Clone)]
pub struct EvictionRules {
    /// The number of pods of a workload without a budget that may be unavailable.
    pub max_unavailable: i32,
    /// True if pods without a controller may be moved.
    pub moves_bare: bool,
    /// Selects pods that stay.
    pub keeps: Option<Selector>,
    /// The pods that stay by name.
    pub stay: StayingPods,
    /// The number of domains to list.
    pub max_domains: usize,
    /// The limits for pods.
    pub limits: Limits,
}

impl EvictionRules {
    /// The workloads of a namespace. One that is named has the pods that its selector finds, too.
    pub fn survey<'s, 'a>(
        &'s self,
        pods: &'s PodGroups<'a>,
        namespace: &str,
        named: Option<&'s NamedWorkload>,
    ) -> Result<Survey<'s, 'a>, Stopped> {
        Survey::of(pods, namespace, &self.limits, self.max_domains, named)
    }
}

/// The most budgets that a reason names.
const MOST_NAMED: usize = 10;

/// The reason why a pod stays where it is: its kind, the wish of the caller or a budget.
pub type Staying = (Kind, Arc<str>);

/// The number of pods that may be on no node at a time.
#[derive(Debug, Clone)]
pub struct Leeway {
    /// The number of the budget that allows it. Without one, all pods of a workload share it.
    pub budget: Option<usize>,
    /// That number at present.
    pub allowed: usize,
    /// The reason why it is 0, if it is.
    pub refusal: Option<String>,
}

/// The budgets of a namespace, found by the labels of pods.
pub struct NamespaceBudgets<'a> {
    budgets: Vec<NamedBudget<'a>>,
    by_label: PairIndex,
    /// The number of evictions that each budget allows.
    allowed: Vec<usize>,
}

impl<'a> NamespaceBudgets<'a> {
    /// Returns the budgets of the namespace of these pods.
    pub fn of(pods: &PodGroups<'a>) -> Result<Self, Stopped> {
        let read_view = pods.read_view();
        let budgets = read_view.deadline.each(read_view.budgets());
        let budgets: Vec<_> = budgets.collect::<Result<_, _>>()?;
        let mut by_label = PairIndex::default();
        for (at, budget) in (0..).zip(&budgets) {
            by_label.add(budget.selector, at);
        }
        let mut all = Self {
            allowed: Vec::new(),
            budgets,
            by_label,
        };
        let mut sums = vec![(0, 0); all.budgets.len()];
        if !all.budgets.is_empty() {
            for group in pods.groups() {
                for at in all.over(pods, group)? {
                    let (pods, running): &mut (usize, usize) = &mut sums[at];
                    *pods += group.pods;
                    *running += group.nodes.len();
                }
            }
        }
        let sums = all.budgets.iter().zip(sums);
        let allowed = sums.map(|(it, (pods, running))| it.budget.allows(pods, running));
        all.allowed = allowed.collect();
        Ok(all)
    }

    /// The numbers of the budgets that select the pods of a group, ascending.
    fn over(&self, pods: &PodGroups<'_>, group: &PodGroup) -> Result<Vec<usize>, Stopped> {
        let mut over = Vec::new();
        for at in self.by_label.candidates(pods.labels(group)) {
            let at = at as usize;
            let selector = self.budgets[at].selector;
            if pods.selects(selector, group)? {
                over.push(at);
            }
        }
        Ok(over)
    }

    /// Returns how many pods of a group may be on no node at a time.
    pub fn leeway(
        &self,
        pods: &PodGroups<'_>,
        group: &PodGroup,
        workload: &WorkloadPods<'_>,
        max_unavailable: i32,
    ) -> Result<Leeway, Stopped> {
        let over = self.over(pods, group)?;
        let (allowed, why) = match &*over {
            [] => {
                let said = match max_unavailable {
                    1 => "1 pod may be unavailable, and is".to_owned(),
                    pods => format!("{pods} pods may be unavailable, and are"),
                };
                (of_workload(workload, max_unavailable), said)
            }
            [one] => {
                let name = self.budgets[*one].name;
                let said = format!("PodDisruptionBudget {name} allows no eviction");
                (self.allowed[*one], said)
            }
            several => {
                let named = several.iter().take(MOST_NAMED);
                let names: Vec<&str> = named.map(|at| self.budgets[*at].name).collect();
                let more = match several.len() - names.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let names = names.join(", ");
                (0, format!("several PodDisruptionBudgets: {names}{more}"))
            }
        };
        Ok(Leeway {
            budget: over.first().copied(),
            refusal: (allowed == 0).then_some(why),
            allowed,
        })
    }
}

/// The number of pods of a workload without a budget that may become unavailable now.
fn of_workload(workload: &WorkloadPods<'_>, max_unavailable: i32) -> usize {
    let all: usize = workload.groups.iter().map(|group| group.pods).sum();
    let running = workload.groups.iter().map(|group| group.nodes.len());
    DisruptionBudget::of_unavailable(max_unavailable).allows(all, running.sum())
}

/// Returns the reason why all pods of a group stay; `None` if they may move.
pub fn staying_group(
    group: &PodGroup,
    id: &WorkloadId,
    leeway: &Leeway,
    pods: &PodGroups<'_>,
    rules: &EvictionRules,
) -> Result<Option<Staying>, Stopped> {
    let why = if let Some(why) = goes_with_node(id) {
        why
    } else if id.kind.is_empty() && !rules.moves_bare {
        "without a controller"
    } else if pods.is_pinned(group) {
        "bound to its node"
    } else if let Some(keeps) = &rules.keeps
        && pods.selects(keeps, group)?
    {
        "of the selector of pods that stay"
    } else {
        let budget = leeway.refusal.as_deref();
        return Ok(budget.map(|why| (Kind::Budget, why.into())));
    };
    Ok(Some((Kind::Pod, why.into())))
}

/// Returns in words why the pods of a workload go with their node, if they do.
pub fn goes_with_node(id: &WorkloadId) -> Option<&'static str> {
    match &*id.kind {
        _ if id.is_static() => Some("a static pod"),
        "DaemonSet" => Some("of a DaemonSet"),
        _ => None,
    }
}
