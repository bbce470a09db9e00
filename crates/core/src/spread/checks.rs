//! The checks of nodes other than spread, in kube-scheduler's order: the pod's scheduling gates,
//! cordons, the node that the pod names, taints, node affinity, host ports and room. Declared
//! features are checked last, after spread and affinity between pods (`docs/semantics.md`, "Node
//! checks").

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::describe::controller;
use super::filter::NominatedOn;
use super::question::Subject;
use super::verdict::{Judgement, LeftOutBy, NodeRefusal, Reason, Words};
use crate::limits::NodeNames;
use crate::matching::{
    Allocatable, Features, Path, Requested, Requests, Resource, Shortage, VersionRules, Violations,
    names,
};
use crate::proto::v1;
use crate::snapshot::partition::Eligibility;
use crate::snapshot::{
    DomainKey, NodeRef, PartitionInUse, ReadView, Slot, Stopped, bits, partition,
};

/// The field by which node affinity names nodes.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The fields of a pod that say on which node it may run, and when.
#[derive(Debug, Clone, Default)]
pub struct OwnPlace {
    /// The scheduling gates that the pod waits for.
    pub(super) gates: Option<Words>,
    /// The one node that the pod names.
    pub(super) node: Option<Arc<str>>,
    /// The nodes that the pod's required affinity names, if each term names nodes.
    named_by_affinity: Option<Arc<BTreeSet<String>>>,
}

impl OwnPlace {
    /// Checks and reads the spec of a pod, which is at `path`.
    pub fn of(
        spec: &v1::PodSpec,
        node_names: NodeNames,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let gates = &spec.scheduling_gates;
        if !spec.node_name.is_empty() {
            let path = path.field("nodeName");
            names::check_node_name(&spec.node_name, node_names, path, faults);
        }
        let names: Vec<&str> = gates.iter().map(|gate| &*gate.name).collect();
        Self {
            gates: (!names.is_empty()).then(|| Words::from(names.join(" "))),
            node: (!spec.node_name.is_empty()).then(|| spec.node_name.as_str().into()),
            named_by_affinity: named_by_affinity(spec).map(Arc::new),
        }
    }

    /// Returns the rule that leaves nodes out before they are checked, and the names of the nodes
    /// that remain.
    pub(super) fn left_out(&self, rules: &VersionRules) -> Option<(LeftOutBy, BTreeSet<&str>)> {
        let name = self.node.as_deref().filter(|_| rules.node_name_first);
        let affinity = self.named_by_affinity.as_deref();
        let affinity = affinity.map(|names| names.iter().map(String::as_str).collect());
        Some(match (name, affinity) {
            (None, None) => return None,
            (Some(name), None) => (LeftOutBy::Name, [name].into()),
            (_, Some(names)) if BTreeSet::is_empty(&names) => (LeftOutBy::Conflict, names),
            (None, Some(names)) => (LeftOutBy::Affinity, names),
            (Some(name), Some(names)) => match names.contains(name) {
                true => (LeftOutBy::NameAndAffinity, [name].into()),
                false => (LeftOutBy::NameAgainstAffinity, BTreeSet::new()),
            },
        })
    }
}

/// Returns whether a pod stands for those of a DaemonSet, of which each is tied to a node of its own:
/// its controller is a DaemonSet, and it names no node.
pub fn is_of_each_node(metadata: &v1::ObjectMeta, spec: &v1::PodSpec) -> bool {
    controller(metadata).is_some_and(|it| (&*it.api_version, &*it.kind) == ("apps/v1", "DaemonSet"))
        && spec.node_name.is_empty()
        && named_by_affinity(spec).is_none()
}

/// The nodes that required affinity names, if each of its terms names nodes. If the requirements of
/// a term name different nodes, the term names none, because a node has only one name.
fn named_by_affinity(spec: &v1::PodSpec) -> Option<BTreeSet<String>> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let terms = &required.as_ref()?.node_selector_terms;
    if terms.is_empty() {
        return None;
    }
    let mut all = BTreeSet::new();
    for term in terms {
        let fields = term.match_fields.iter();
        let named = fields.filter(|field| field.key == NODE_NAME_FIELD && field.operator == "In");
        let named = named.map(|field| BTreeSet::from_iter(field.values.iter().cloned()));
        all.extend(named.reduce(|all, more| &all & &more)?);
    }
    Some(all)
}

/// The checks that nodes have to pass.
#[derive(Debug, Clone)]
pub struct Checks {
    /// The nodes that pass all checks of labels and taints.
    passing: partition::Key,
    own: OwnPlace,
    /// The requests of the pod; `None` if room is not checked.
    pub requests: Option<Arc<Requests>>,
    /// The features that the pod needs, by the rules of any version.
    features: Features,
}

/// The checks of a pod, on one state.
#[derive(Clone)]
pub struct Checked<'a> {
    checks: &'a Checks,
    read_view: ReadView<'a>,
    /// The nodes that pass the checks of labels and taints.
    passing: PartitionInUse,
    /// The node that the pod names, if it exists.
    named: Option<Slot>,
    /// The requests of the pod, if nodes are checked for room.
    requests: Option<&'a Requests>,
    /// The features that the pod needs.
    pub features: Features,
    /// The reason why nodes are left out before the checks, and the nodes that remain.
    left_out: Option<(Reason, BTreeSet<Slot>)>,
    /// The number of pods like that of the question that count on nodes in addition.
    added: HashMap<Slot, u32>,
    /// A node that is taken to have room for all pods.
    emptied: Option<Slot>,
}

/// The requests of the pods on a node, and the node's resources.
struct NodeRoom<'a> {
    requested: Cow<'a, Requested>,
    has: Option<&'a Allocatable>,
    /// The number of pods like that of the question that count in addition.
    added: u32,
}

impl NodeRoom<'_> {
    /// Checks that a node has free ports and room for a pod.
    ///
    /// # Errors
    /// The refusal: for ports if these are not free, else for all resources that the node lacks.
    fn judge(&self, requests: &Requests) -> Result<(), NodeRefusal> {
        // A second pod like that of the question needs the same host ports.
        let is_taken = self.added > 0 && !requests.ports.is_empty();
        if is_taken || !self.requested.has_free(&requests.ports) {
            return Err(NodeRefusal::by_node(Reason::HostPorts));
        }
        if self.added == 0 && self.requested.leaves_room(self.has, requests) {
            return Ok(());
        }
        NodeRefusal::by_shortages(self.shortages(requests)).map_or(Ok(()), Err)
    }

    /// Returns the resources that the node has too little of for a pod.
    fn shortages(&self, requests: &Requests) -> Vec<Shortage> {
        let (requested, has) = (&self.requested, self.has);
        requested.shortages_after(self.added, has, requests)
    }
}

impl Checks {
    /// What a pod takes of a node: 1 of its places for pods, and the resources that it requests.
    pub fn amounts(&self) -> impl Iterator<Item = (Resource, i128)> {
        let requests = self.requests.iter();
        requests.flat_map(|requests| requests.amounts.totals(1))
    }

    /// Returns the checks for a pod.
    pub fn of(subject: &Subject, own: OwnPlace, requests: Requests, features: Features) -> Self {
        let affinity = (!subject.affinity.is_any()).then(|| subject.affinity.clone());
        Self {
            passing: partition::Key::of(
                DomainKey::Node,
                Eligibility {
                    required_keys: Box::default(),
                    affinity,
                    tolerations: Some(subject.tolerations.clone()),
                    cordon_tolerations: Some(subject.tolerations.clone()),
                },
            ),
            own,
            requests: Some(Arc::new(requests)),
            features,
        }
    }

    /// Returns the checks of labels and taints alone.
    pub fn of_labels_and_taints(self) -> Self {
        Self {
            own: OwnPlace::default(),
            requests: None,
            features: Features::NONE,
            ..self
        }
    }

    /// The fields of the pod that say on which node it may run, and when.
    pub fn of_own_place(&self) -> impl Iterator<Item = &'static str> {
        let node = self.own.node.as_ref().map(|_| "spec.nodeName");
        let gates = self.own.gates.as_ref().map(|_| "spec.schedulingGates");
        node.into_iter().chain(gates)
    }

    /// The fields of the pod that ask for room.
    pub fn of_room(&self) -> impl Iterator<Item = &'static str> {
        self.requests.iter().flat_map(|requests| {
            let (ports, amounts) = (!requests.ports.is_empty(), !requests.amounts.is_empty());
            let ports = ports.then_some("spec.containers.ports.hostPort");
            ports
                .into_iter()
                .chain(amounts.then_some("spec.containers.resources.requests"))
        })
    }

    /// The fields of the pod with resources that a node lacks but a device class may provide there.
    pub fn of_devices(&self, read_view: &ReadView<'_>) -> impl Iterator<Item = String> {
        let may_be = read_view.knows_room() && read_view.defaults.rules().device_classes;
        let requests = self.requests.as_deref().filter(|_| may_be);
        let extended = requests.into_iter().flat_map(Requests::extended);
        let lacking = extended.filter(|resource| read_view.nodes.lack(resource));
        lacking.map(|resource| format!("spec.containers.resources.requests[{resource}]"))
    }

    /// The checks of labels and taints in order: the reason of each check, and the nodes that pass
    /// this check and all checks before it.
    fn stages(&self, read_view: &ReadView<'_>) -> Result<[(Reason, PartitionInUse); 3], Stopped> {
        let mut open = self.passing.clone();
        open.eligibility.affinity = None;
        let tolerated = read_view.in_use(&open)?;
        open.eligibility.tolerations = None;
        Ok([
            (Reason::Unschedulable, read_view.in_use(&open)?),
            (Reason::UntoleratedTaint, tolerated),
            (Reason::NodeAffinity, read_view.in_use(&self.passing)?),
        ])
    }

    /// The reason why a node fails the checks of labels and taints. The node has to fail them.
    fn reason(&self, node: NodeRef<'_>) -> Reason {
        let eligibility = &self.passing.eligibility;
        if !eligibility.admits_cordon(node) {
            Reason::Unschedulable
        } else if !eligibility.admits_taints(node) {
            Reason::UntoleratedTaint
        } else {
            Reason::NodeAffinity
        }
    }
}

impl<'a> Checked<'a> {
    /// The checks of a pod, ready to judge nodes.
    pub fn of(checks: &'a Checks, read_view: &ReadView<'a>) -> Result<Self, Stopped> {
        let named = checks.own.node.as_deref();
        let left_out = checks.own.left_out(read_view.defaults.rules());
        let left_out = left_out.map(|(by, names)| {
            let names = names.into_iter();
            let stay = names.filter_map(|name| read_view.nodes.find(name));
            (Reason::LeftOut(by), stay.collect())
        });
        Ok(Self {
            features: checks.features.within(read_view.defaults.rules().features),
            left_out,
            passing: read_view.in_use(&checks.passing)?,
            named: named.and_then(|name| read_view.nodes.find(name)),
            requests: checks
                .requests
                .as_deref()
                .filter(|_| read_view.knows_room()),
            checks,
            added: HashMap::new(),
            emptied: None,
            read_view: *read_view,
        })
    }

    /// Counts one more pod like that of the question on a node.
    pub fn add(&mut self, slot: Slot) {
        *self.added.entry(slot).or_default() += 1;
    }

    /// Takes a node to have room for all pods.
    pub fn empty(&mut self, slot: Slot) {
        self.emptied = Some(slot);
    }

    /// Returns how many nodes pass the checks of labels and taints.
    pub fn passing(&self) -> usize {
        self.passing.partition.eligible_total()
    }

    /// The nodes that pass the checks of labels and taints, grouped by a label.
    pub fn passing_by(&self, topology: &DomainKey) -> Result<PartitionInUse, Stopped> {
        let eligibility = self.checks.passing.eligibility.clone();
        self.read_view
            .in_use(&partition::Key::of(topology.clone(), eligibility))
    }

    /// Returns how many nodes fail the checks of labels and taints, by the first check that they
    /// fail.
    pub fn refusals(&self) -> Result<[(Reason, usize); 3], Stopped> {
        let mut left = self.read_view.nodes.len();
        let stages = self.checks.stages(&self.read_view)?;
        Ok(stages.map(|(reason, in_use)| {
            let before = std::mem::replace(&mut left, in_use.partition.eligible_total());
            (reason, before - left)
        }))
    }

    /// Returns whether there are checks other than those of labels and taints.
    pub fn look_at_nodes(&self) -> bool {
        let own = &self.checks.own;
        !self.features.is_empty()
            || own.gates.is_some()
            || own.node.is_some()
            || self.left_out.is_some()
            || self.requests.is_some()
    }

    /// Returns whether all nodes are refused before storage is checked.
    pub fn refuse_all(&self) -> bool {
        let left_out = self.left_out.as_ref().map(|(reason, _)| reason);
        let is_final = left_out.is_some_and(Reason::leaves_none);
        self.checks.own.gates.is_some() || is_final
    }

    /// Returns the number of steps in which the room of a node is checked.
    pub fn steps_per_node(&self) -> usize {
        self.requests.map_or(0, |requests| 1 + requests.rare_len())
    }

    /// Judges an existing node, as if nominated pods were on it. The first check that the node
    /// fails decides. Takes [`Self::steps_per_node`].
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        let own = &self.checks.own;
        if let Some(gates) = &own.gates {
            return Err(NodeRefusal::by_node(Reason::Gated(gates.clone())));
        }
        if let Some((reason, stay)) = &self.left_out
            && !stay.contains(&slot)
        {
            return Err(NodeRefusal::by_node(reason.clone()));
        }
        let by_labels = match self.passing.partition.is_eligible(slot) {
            true => None,
            false => self
                .read_view
                .nodes
                .get(slot)
                .map(|node| self.checks.reason(node)),
        };
        let by_name = (own.node.is_some() && self.named != Some(slot)).then_some(Reason::NodeName);
        let by_name = by_name.filter(|_| by_labels != Some(Reason::Unschedulable));
        if let Some(reason) = by_name.or(by_labels) {
            return Err(NodeRefusal::by_node(reason));
        }
        self.judge_room(slot, with)
    }

    fn judge_room(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        let judged = match self.requests {
            Some(requests) => self.room(slot, with).judge(requests),
            None => Ok(()),
        };
        judged.or_else(
            |refusal| match refusal.is_of_room() && self.emptied == Some(slot) {
                true => Ok(()),
                false => Err(refusal),
            },
        )
    }

    /// Returns whether an existing node that is cordoned would pass all checks if it were not
    /// cordoned. Takes [`Self::steps_per_node`].
    pub fn passes_uncordoned(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> bool {
        let (own, eligibility) = (&self.checks.own, &self.checks.passing.eligibility);
        let Some(node) = self.read_view.nodes.get(slot) else {
            return false;
        };
        let is_named = own.node.is_none() || self.named == Some(slot);
        let by_labels =
            eligibility.admits_taints_uncordoned(node) && eligibility.admits_affinity(node);
        let has_room = |requests| self.room(slot, with).judge(requests).is_ok();
        own.gates.is_none()
            && is_named
            && by_labels
            && self.declares_needed(slot)
            && self.requests.is_none_or(has_room)
    }

    /// Returns whether an existing node declares the features that the pod needs.
    pub fn declares_needed(&self, slot: Slot) -> bool {
        let node = self.read_view.nodes.get(slot);
        let declared = node.map_or(Features::NONE, NodeRef::features);
        self.features.within(declared) == self.features
    }

    /// Judges existing nodes at once.
    pub fn narrow(&self, slots: &[Slot], judged: &mut Judgement) -> Result<(), Stopped> {
        let nodes = self.read_view.nodes;
        let own = &self.checks.own;
        if let Some(gates) = &own.gates {
            let none = bits(slots, |_| false);
            judged.narrow(Reason::Gated(gates.clone()), &none);
            return Ok(());
        }
        if let Some((reason, stay)) = &self.left_out {
            judged.narrow(reason.clone(), &bits(slots, |slot| stay.contains(slot)));
        }
        let named = own
            .node
            .is_some()
            .then(|| bits(slots, |slot| self.named == Some(*slot)));
        if self.passing.partition.eligible_total() < nodes.len() {
            for (reason, in_use) in self.checks.stages(&self.read_view)? {
                let partition = &in_use.partition;
                let is_first = reason == Reason::Unschedulable;
                if nodes.is_order(slots) {
                    judged.narrow(reason, partition.eligible_in_order(nodes));
                } else {
                    let eligible = bits(slots, |slot| partition.is_eligible(*slot));
                    judged.narrow(reason, &eligible);
                }
                if let Some(named) = named.as_ref().filter(|_| is_first) {
                    judged.narrow(Reason::NodeName, named);
                }
            }
        } else if let Some(named) = &named {
            judged.narrow(Reason::NodeName, named);
        }
        if self.requests.is_some() {
            let (deadline, steps) = (self.read_view.deadline, self.steps_per_node());
            judged.narrow_each(deadline, |at| {
                deadline.step(steps)?;
                Ok(self.judge_room(slots[at], None))
            })?;
        }
        Ok(())
    }

    /// Returns whether an existing node would have room and free ports for the pod without the pods
    /// of a lower priority.
    pub fn fits_without_lower(&self, slot: Slot, priority: i32) -> bool {
        let node = self.read_view.nodes.get(slot);
        let has = node.and_then(NodeRef::allocatable);
        self.requests.is_some_and(|requests| {
            let others = self.read_view.requested_from(slot, priority);
            others.has_free(&requests.ports) && others.leaves_room(has, requests)
        })
    }

    /// Returns the resources that an existing node has too little of, as if nominated pods were on
    /// it. Empty if room is not checked.
    pub fn shortages(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Vec<Shortage> {
        let short = |requests| self.room(slot, with).shortages(requests);
        self.requests.map(short).unwrap_or_default()
    }

    /// Returns how many more pods like this one an existing node has room for beside nominated
    /// pods; `None` if it has room for any number, or room is not checked.
    pub fn fitting(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Option<u32> {
        let requests = self.requests.filter(|_| self.emptied != Some(slot))?;
        let room = self.room(slot, with);
        let fitting = room.requested.fitting(room.has, requests);
        Some(fitting.saturating_sub(room.added))
    }

    /// The room of a node, as if nominated pods were on it.
    fn room(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> NodeRoom<'a> {
        let mut requested = Cow::Borrowed(self.read_view.requested(slot));
        for pod in with.into_iter().flat_map(NominatedOn::pods) {
            requested.to_mut().add(pod.requests.as_deref());
        }
        let node = self.read_view.nodes.get(slot);
        NodeRoom {
            requested,
            has: node.and_then(NodeRef::allocatable),
            added: self.added.get(&slot).copied().unwrap_or(0),
        }
    }
}
