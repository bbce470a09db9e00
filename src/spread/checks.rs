//! What nodes are checked for besides spread, in kube-scheduler's order: the
//! pod's scheduling gates, being cordoned, the node that the pod names, taints,
//! node affinity, host ports, room, and after spread and affinity between pods declared
//! features (`docs/semantics.md`, "Node checks").

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::active::Subject;
use super::judgement::Judgement;
use super::nominated::NominatedOn;
use super::own_place::OwnPlace;
use super::verdict::{NodeRefusal, Reason};
use crate::account::heap;
use crate::matching::{Allocatable, Features, Requested, Requests, Shortage};
use crate::snapshot::{
    DomainKey, Eligibility, NodeRef, PartitionInUse, ReadView, Slot, bits, partition,
};

/// What it costs to look at the room of a node, in units.
const UNITS_PER_ROOM: usize = 10;

/// What it costs to look one more resource or port of a node up, in units.
const UNITS_PER_LOOKUP: usize = 15;

/// What nodes are checked for.
#[derive(Debug, Clone)]
pub struct Checks {
    /// Those that pass all checks of labels and taints.
    passing: partition::Key,
    own: OwnPlace,
    /// What the pod requests; `None` where nobody asks for room.
    requests: Option<Arc<Requests>>,
    /// The features that the pod needs, in any version.
    features: Features,
}

/// The checks of a pod, on one state.
pub struct Checked<'a> {
    checks: &'a Checks,
    read_view: ReadView<'a>,
    /// The nodes that pass the checks of labels and taints.
    passing: PartitionInUse,
    /// The node that the pod names, if it exists.
    named: Option<Slot>,
    /// What the pod requests, where nodes are checked for room.
    requests: Option<&'a Requests>,
    /// The features that the pod needs.
    features: Features,
    /// Why nodes are left out before they are checked, and which are not.
    left_out: Option<(Reason, BTreeSet<Slot>)>,
}

impl Checks {
    /// Returns what a pod is checked for.
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

    /// Those of labels and taints alone.
    pub fn of_labels_and_taints(self) -> Self {
        Self {
            own: OwnPlace::default(),
            requests: None,
            features: Features::NONE,
            ..self
        }
    }

    /// Returns what they take on the heap, in bytes, at most.
    pub fn heap_bytes(&self) -> usize {
        let requests = self.requests.as_deref();
        self.passing.memory_bytes()
            + self.own.heap_bytes()
            + requests.map_or(0, |r| heap::shared(size_of::<Requests>()) + r.heap_bytes())
    }

    /// Returns what the pod requests.
    pub fn requests(&self) -> Option<&Arc<Requests>> {
        self.requests.as_ref()
    }

    /// The fields of the pod that say when and where it goes.
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

    /// The resources that a node lacks and that a device class may provide there, as
    /// fields of the pod.
    pub fn of_devices(&self, read_view: &ReadView<'_>) -> impl Iterator<Item = String> {
        let may_be = read_view.knows_room() && read_view.defaults.rules().device_classes;
        let requests = self.requests.as_deref().filter(|_| may_be);
        let extended = requests.into_iter().flat_map(Requests::extended);
        let lacking = extended.filter(|resource| read_view.nodes.lack(resource));
        lacking.map(|resource| format!("spec.containers.resources.requests[{resource}]"))
    }

    /// The checks of labels and taints in order: why a node fails each, and the
    /// nodes that pass it and those before.
    fn stages(&self, read_view: &ReadView<'_>) -> [(Reason, PartitionInUse); 3] {
        let mut open = self.passing.clone();
        open.eligibility.affinity = None;
        let tolerated = read_view.in_use(&open);
        open.eligibility.tolerations = None;
        [
            (Reason::Unschedulable, read_view.in_use(&open)),
            (Reason::UntoleratedTaint, tolerated),
            (Reason::NodeAffinity, read_view.in_use(&self.passing)),
        ]
    }

    /// Why a node fails the checks of labels and taints, which it does.
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
    pub fn of(checks: &'a Checks, read_view: &ReadView<'a>) -> Self {
        let named = checks.own.node.as_deref();
        let left_out = checks.own.left_out(read_view.defaults.rules());
        let left_out = left_out.map(|(by, names)| {
            let names = names.into_iter();
            let stay = names.filter_map(|name| read_view.nodes.find(name));
            (Reason::LeftOut(by), stay.collect())
        });
        Self {
            features: checks.features.within(read_view.defaults.rules().features),
            left_out,
            passing: read_view.in_use(&checks.passing),
            named: named.and_then(|name| read_view.nodes.find(name)),
            requests: checks
                .requests
                .as_deref()
                .filter(|_| read_view.knows_room()),
            checks,
            read_view: *read_view,
        }
    }

    /// Returns how many nodes pass the checks of labels and taints.
    pub fn passing(&self) -> usize {
        self.passing.partition.eligible_total()
    }

    /// The nodes that pass the checks of labels and taints, parted by a label.
    pub fn passing_by(&self, topology: &DomainKey) -> PartitionInUse {
        let eligibility = self.checks.passing.eligibility.clone();
        self.read_view
            .in_use(&partition::Key::of(topology.clone(), eligibility))
    }

    /// Returns how many of all nodes fail the checks of labels and taints, by the first
    /// that they fail.
    pub fn refusals(&self) -> [(Reason, usize); 3] {
        let mut left = self.read_view.nodes.len();
        self.checks.stages(&self.read_view).map(|(reason, in_use)| {
            let before = std::mem::replace(&mut left, in_use.partition.eligible_total());
            (reason, before - left)
        })
    }

    /// Returns whether there are checks other than those of labels and taints.
    pub fn look_at_nodes(&self) -> bool {
        let own = &self.checks.own;
        !self.features.is_empty()
            || own.gates.is_some()
            || own.node.is_some()
            || self.requests.is_some()
    }

    /// Returns whether all nodes are refused before storage is looked at.
    pub fn refuse_all(&self) -> bool {
        let left_out = self.left_out.as_ref().map(|(reason, _)| reason);
        let is_final = left_out.is_some_and(Reason::leaves_none);
        self.checks.own.gates.is_some() || is_final
    }

    /// Returns what it costs to look at the room of a node, in units; nothing where nobody
    /// asks for room.
    pub fn units_per_node(&self) -> usize {
        self.requests.map_or(0, |requests| {
            UNITS_PER_ROOM + requests.rare_len() * UNITS_PER_LOOKUP
        })
    }

    /// Judges an existing node, as if nominated pods were there: the first check
    /// that it fails decides. Costs [`Self::units_per_node`].
    ///
    /// # Errors
    /// The refusal.
    pub fn judge(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Result<(), NodeRefusal> {
        let own = &self.checks.own;
        if let Some(gates) = &own.gates {
            return Err(NodeRefusal::by_node(Reason::Gated(Arc::clone(gates))));
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
        self.requests.map_or(Ok(()), |requests| {
            let (requested, has) = self.room_with(slot, with);
            judge_room(&requested, has, requests)
        })
    }

    /// Returns whether an existing node that is cordoned would pass all checks if it were not.
    /// Costs [`Self::units_per_node`].
    pub fn passes_uncordoned(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> bool {
        let (own, eligibility) = (&self.checks.own, &self.checks.passing.eligibility);
        let Some(node) = self.read_view.nodes.get(slot) else {
            return false;
        };
        let is_named = own.node.is_none() || self.named == Some(slot);
        let by_labels =
            eligibility.admits_taints_uncordoned(node) && eligibility.admits_affinity(node);
        let has_room = |requests| {
            let (requested, has) = self.room_with(slot, with);
            judge_room(&requested, has, requests).is_ok()
        };
        own.gates.is_none()
            && is_named
            && by_labels
            && self.declares_needed(slot)
            && self.requests.is_none_or(has_room)
    }

    /// The features that the pod needs.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Returns whether an existing node declares the features that the pod needs.
    pub fn declares_needed(&self, slot: Slot) -> bool {
        let node = self.read_view.nodes.get(slot);
        let declared = node.map_or(Features::NONE, NodeRef::features);
        self.features.within(declared) == self.features
    }

    /// Returns what an existing node has too little of, as if nominated pods were there;
    /// nothing where nobody asks for room.
    pub fn shortages(&self, slot: Slot, with: Option<&NominatedOn<'_>>) -> Vec<Shortage> {
        let (requested, has) = self.room_with(slot, with);
        let short = |requests| requested.shortages_after(0, has, requests);
        self.requests.map(short).unwrap_or_default()
    }

    /// Returns what pods request of a node, and what it has.
    fn room_of(&self, slot: Slot) -> (&'a Requested, Option<&'a Allocatable>) {
        let node = self.read_view.nodes.get(slot);
        let has = node.and_then(NodeRef::allocatable);
        (self.read_view.requested(slot), has)
    }

    /// As [`Self::room_of`], as if nominated pods were there.
    fn room_with(
        &self,
        slot: Slot,
        with: Option<&NominatedOn<'_>>,
    ) -> (Cow<'a, Requested>, Option<&'a Allocatable>) {
        let (requested, has) = self.room_of(slot);
        let mut requested = Cow::Borrowed(requested);
        for pod in with.into_iter().flat_map(NominatedOn::pods) {
            requested.to_mut().add(pod.requests.as_deref());
        }
        (requested, has)
    }

    /// Returns how many more pods like this one an existing node has room for beside
    /// nominated pods, and why no more where that is fewer than `wanted`. `None`
    /// where nobody asks for room.
    pub fn fitting(
        &self,
        slot: Slot,
        with: Option<&NominatedOn<'_>>,
        wanted: usize,
    ) -> Option<(u32, Vec<Reason>)> {
        let requests = self.requests?;
        let (requested, has) = self.room_with(slot, with);
        let pods = requested.fitting(has, requests);
        let full = match (pods as usize) < wanted {
            false => Vec::new(),
            true if !requests.ports.is_empty() => vec![Reason::HostPorts],
            true => {
                let short = requested.shortages_after(pods, has, requests);
                short
                    .into_iter()
                    .map(|shortage| shortage.of.into())
                    .collect()
            }
        };
        Some((pods, full))
    }

    /// Judges existing nodes at once.
    pub fn narrow(&self, slots: &[Slot], judged: &mut Judgement) {
        let nodes = self.read_view.nodes;
        let own = &self.checks.own;
        if let Some(gates) = &own.gates {
            let none = bits(slots, |_| false);
            return judged.narrow(Reason::Gated(Arc::clone(gates)), &none);
        }
        if let Some((reason, stay)) = &self.left_out {
            judged.narrow(reason.clone(), &bits(slots, |slot| stay.contains(slot)));
        }
        let named = own
            .node
            .is_some()
            .then(|| bits(slots, |slot| self.named == Some(*slot)));
        if self.passing() < nodes.len() {
            for (reason, in_use) in self.checks.stages(&self.read_view) {
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
        if let Some(requests) = self.requests {
            self.narrow_by_room(slots, requests, judged);
        }
    }

    fn narrow_by_room(&self, slots: &[Slot], requests: &Requests, judged: &mut Judgement) {
        let each = self.units_per_node();
        if !self.read_view.affords(slots.len().saturating_mul(each)) {
            return;
        }
        let left = judged.pass.ones();
        let left = left.take_while(|_| self.read_view.goes_on_for(each));
        let refused = left.filter_map(|at| {
            let (requested, has) = self.room_of(slots[at]);
            let refusal = judge_room(requested, has, requests).err()?;
            Some((at, refusal))
        });
        for (at, refusal) in refused.collect::<Vec<_>>() {
            judged.refuse(at, refusal.reasons().cloned());
        }
    }
}

/// Returns whether a node has free ports and room for a pod.
fn judge_room(
    requested: &Requested,
    has: Option<&Allocatable>,
    requests: &Requests,
) -> Result<(), NodeRefusal> {
    if !requested.has_free(&requests.ports) {
        return Err(NodeRefusal::by_node(Reason::HostPorts));
    }
    if requested.leaves_room(has, requests) {
        return Ok(());
    }
    let short = requested.shortages_after(0, has, requests);
    NodeRefusal::by_shortages(short).map_or(Ok(()), Err)
}
