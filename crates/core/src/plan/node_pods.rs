//! The pods of nodes that are to go: which of them move, which go with their node, and which stay.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use prost::Message;

use super::blockers::{self, BlockerKind};
use super::mobility::RebalanceOptions;
use super::mobility::{NamespaceBudgets, staying_group};
use super::spread_model::as_made;
use crate::matching::Path;
use crate::proto::v1;
use crate::snapshot::{Imagined, NamedPod, ReadView, Slot, Stopped};
use crate::spread::Question;
use crate::spread::describe::WorkloadId;

/// The approximate bytes of a pod besides its class.
const BYTES_PER_POD: usize = 256;

/// The pods of some nodes.
#[derive(Default, Clone)]
pub struct PodsOfNodes {
    /// The pods of each node, by its name, those that request most first.
    pub by_node: BTreeMap<String, Vec<LeavingPod>>,
    /// The classes of the pods that move.
    pub classes: Vec<LeavingClass>,
}

/// A pod on a node that is to go.
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
    pub fate: Fate,
    /// The index of the move that creates the pod, if the plan creates it.
    pub made_by: Option<usize>,
}

/// What becomes of a pod when its node goes.
#[derive(Debug, Clone)]
pub enum Fate {
    /// It is evicted, and its owner makes another one. It has this class.
    Moves(usize),
    /// It goes with the node, for this reason.
    GoesAlong(&'static str),
    /// It stays, for this reason.
    Stays(BlockerKind, String),
}

/// Pods that are alike.
#[derive(Clone)]
pub struct LeavingClass {
    /// A pod of the class without name and node, as its owner would create it.
    pub pod: v1::Pod,
    /// The compiled form of that pod.
    pub question: Question,
    /// The labels of the pods that the API server copied from the node.
    pub node_labels: Vec<String>,
    /// The pods that share one number of pods that may be on no node.
    pub budget: BudgetOf,
    /// That number at present.
    pub allowed: usize,
}

/// The pods that share one number of pods that may be on no node: by namespace, those of a budget,
/// or of a workload without one.
pub type BudgetOf = (Arc<str>, Result<usize, Arc<WorkloadId>>);

/// A node that is drained.
#[derive(Debug, Clone, Default)]
pub struct LeavingNode {
    /// The name of the node.
    pub name: String,
    /// True if only pods that go with it are left.
    pub is_emptied: bool,
}

/// A pod of a node that goes with it or keeps it.
#[derive(Debug, Clone)]
pub struct PodOfNode {
    /// The namespace of the pod.
    pub namespace: Arc<str>,
    /// The name of the pod.
    pub pod: String,
    /// The name of the node.
    pub node: String,
    /// The workload of the pod.
    pub workload: Arc<WorkloadId>,
    /// The kind of what keeps the pod; `None` if it goes with the node.
    pub kind: Option<BlockerKind>,
    /// The reason.
    pub text: String,
}

impl PodsOfNodes {
    /// Returns the pods of nodes, by the rules of a plan of moves.
    pub fn of(
        imagined: &Imagined<'_>,
        nodes: &[String],
        options: &RebalanceOptions,
    ) -> Result<Self, Stopped> {
        let mut all = Self::default();
        let none = nodes.iter().map(|name| (name.clone(), Vec::new()));
        all.by_node.extend(none);
        for namespace in imagined.namespaces() {
            let add = |read_view: ReadView<'_>| all.add(&namespace, nodes, &read_view, options);
            imagined.read(&namespace, add).transpose()?;
        }
        let Self { by_node, classes } = &mut all;
        for pods in by_node.values_mut() {
            pods.sort_by_cached_key(|pod| {
                let size = match pod.fate {
                    Fate::Moves(class) => classes[class].question.size(),
                    _ => 0,
                };
                (-size, Arc::clone(&pod.namespace), pod.name.clone())
            });
        }
        Ok(all)
    }

    fn add(
        &mut self,
        namespace: &str,
        nodes: &[String],
        read_view: &ReadView<'_>,
        options: &RebalanceOptions,
    ) -> Result<(), Stopped> {
        let slots = nodes.iter().filter_map(|name| read_view.nodes.find(name));
        let slots: HashSet<Slot> = slots.collect();
        let pods = read_view.pod_groups()?;
        let found = pods.on_nodes(&slots)?;
        if found.is_empty() {
            return Ok(());
        }
        read_view.deadline.holds(found.len() * BYTES_PER_POD)?;
        let namespace: Arc<str> = namespace.into();
        let name_of = |pod: &NamedPod| {
            let name = pod.node.map(|slot| read_view.nodes.name(slot));
            name.unwrap_or_default().to_owned()
        };
        let mut by_group: HashMap<_, Vec<NamedPod>> = HashMap::new();
        for pod in found {
            match pods.groups().get(pod.group) {
                Some(group) => by_group.entry(group.id()).or_default().push(pod),
                None => self.put(
                    name_of(&pod),
                    LeavingPod {
                        namespace: Arc::clone(&namespace),
                        fate: Fate::Stays(
                            BlockerKind::Pod,
                            "reserved for a pod to come".to_owned(),
                        ),
                        name: pod.name.trim_start_matches('~').to_owned(),
                        uid: String::new(),
                        workload: Arc::default(),
                        made_by: None,
                    },
                ),
            }
        }
        let survey = options.survey(&pods, &namespace)?;
        let budgets = NamespaceBudgets::of(&pods)?;
        let wished = options.stay.get(&*namespace);
        for (id, workload) in survey.all_pods() {
            let shared = Arc::new(id.clone());
            for alike in read_view.deadline.each(&workload.groups) {
                let (group, pod) = *alike?;
                let Some(found) = by_group.remove(&group.id()) else {
                    continue;
                };
                let of = (id, &workload);
                let staying = staying_group(group, of, (&pods, &budgets), options)?;
                let staying = staying.as_ref().map(blockers::told);
                let most = options.max_unavailable;
                let (budget, allowed) = budgets.leeway(&pods, group, &workload, most)?;
                let budget = budget.ok_or_else(|| Arc::clone(&shared));
                let budget = (Arc::clone(&namespace), budget);
                let mut by_volumes = HashMap::new();
                for named in found {
                    let whole = match pods.use_storage(group) {
                        true => read_view.whole_pod(&namespace, &named.name),
                        false => None,
                    };
                    let volumes = whole.and_then(|pod| pod.spec).map(|spec| spec.volumes);
                    let wished = wished.and_then(|names| names.get(&named.name));
                    let wished = wished.map(|why| (BlockerKind::Pod, why.clone()));
                    let fate = match (&*id.kind, wished.or_else(|| staying.clone())) {
                        ("DaemonSet", _) => Fate::GoesAlong("of a DaemonSet"),
                        _ if id.is_static() => Fate::GoesAlong("a static pod"),
                        (_, Some((kind, text))) => Fate::Stays(kind, text),
                        (_, None) => {
                            let volumes = volumes.unwrap_or_default();
                            let made = (pod, volumes, (&budget, allowed));
                            self.fate_of(made, &mut by_volumes, options)
                        }
                    };
                    self.put(
                        name_of(&named),
                        LeavingPod {
                            namespace: Arc::clone(&namespace),
                            name: named.name,
                            uid: named.uid,
                            workload: Arc::clone(&shared),
                            fate,
                            made_by: None,
                        },
                    );
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, node: String, pod: LeavingPod) {
        self.by_node.entry(node).or_default().push(pod);
    }

    /// The fate of a pod that may move: it has a class, or its spec has a fault.
    fn fate_of(
        &mut self,
        (pod, volumes, (budget, allowed)): (&v1::Pod, Vec<v1::Volume>, (&BudgetOf, usize)),
        known: &mut HashMap<Vec<u8>, Fate>,
        options: &RebalanceOptions,
    ) -> Fate {
        let (mut pod, node_labels) = as_made(pod);
        pod.spec.get_or_insert_default().volumes = volumes;
        let fate = known.entry(pod.encode_to_vec()).or_insert_with(|| {
            match Question::compile(Some(&pod), &options.limits, Path::root("pod")) {
                Err(faults) => Fate::Stays(BlockerKind::Pod, faults.to_string()),
                Ok(question) => {
                    self.classes.push(LeavingClass {
                        pod,
                        question,
                        node_labels,
                        budget: budget.clone(),
                        allowed,
                    });
                    Fate::Moves(self.classes.len() - 1)
                }
            }
        });
        fate.clone()
    }
}

impl LeavingPod {
    /// The pod in an answer about its node, with what keeps it, if anything does.
    pub fn told(self, node: &str, kind: Option<BlockerKind>, text: &str) -> PodOfNode {
        PodOfNode {
            namespace: self.namespace,
            pod: self.name,
            node: node.to_owned(),
            workload: self.workload,
            kind,
            text: text.to_owned(),
        }
    }
}
