//! The pods of nodes that are to go: which of them move, which go with their node, and which stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::blockers::{self, BlockerKind};
use super::mobility::{EvictionRules, goes_with_node};
use super::movable::{MovablePods, PodClass};
use crate::snapshot::{Imagined, NamedPod, ReadView, Slot, Stopped};
use crate::spread::describe::WorkloadId;

/// A pod of a node that goes with it or keeps it.
#[derive(Debug, Clone)]
pub struct PodOfNode {
    /// The pod.
    pub pod: LeavingPod,
    /// The name of the node.
    pub node: String,
    /// The kind of what keeps the pod; `None` if it goes with the node.
    pub kind: Option<BlockerKind>,
    /// The reason.
    pub text: String,
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
    /// The index of the move that creates the pod, if the plan creates it.
    pub made_by: Option<usize>,
}

/// What becomes of a pod when its node goes.
#[derive(Debug, Clone)]
pub enum PodFate {
    /// It is evicted, and its owner makes another one.
    Moves(Arc<PodClass>),
    /// It goes with the node, for this reason.
    GoesAlong(&'static str),
    /// It stays, for this reason.
    Stays(BlockerKind, String),
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
    for namespace in imagined.namespaces() {
        let add = |read_view: ReadView<'_>| {
            let slots = nodes.iter().filter_map(|name| read_view.nodes.find(name));
            let pods = read_view.pod_groups()?;
            let found = pods.on_nodes(&slots.collect())?;
            if found.is_empty() {
                return Ok(());
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
                    made_by: None,
                });
            };
            let is_pod = |pod: &NamedPod| pod.group < pods.groups().len();
            let (found, reserved): (Vec<_>, Vec<_>) = found.into_iter().partition(is_pod);
            for pod in reserved {
                let name = (pod.name.trim_start_matches('~'), String::new());
                let why = "reserved for a pod to come".to_owned();
                let fate = PodFate::Stays(BlockerKind::Pod, why);
                put(pod.node, name, Arc::default(), fate);
            }
            let survey = rules.survey(&pods, &namespace, None)?;
            let workloads: Vec<_> = survey.all_pods().collect();
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
                let fate = match pod.staying.as_ref().map(blockers::told) {
                    None => PodFate::Moves(Arc::clone(class)),
                    Some((kind, text)) => PodFate::Stays(kind, text),
                };
                let name = (&*pod.name, pod.uid);
                put(Some(pod.node), name, Arc::clone(id), fate_of(id, fate));
            }
            for (pod, workload, fault) in movable.faulty {
                let id = &ids[workload];
                let fate = fate_of(id, PodFate::Stays(BlockerKind::Pod, fault));
                put(pod.node, (&*pod.name, pod.uid), Arc::clone(id), fate);
            }
            Ok(())
        };
        imagined.read(&namespace, add).transpose()?;
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
