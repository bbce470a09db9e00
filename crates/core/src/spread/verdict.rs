//! Verdicts on nodes: those that pass, and the reasons why the others are refused, in kube-scheduler's
//! words and as codes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

use crate::matching::{Resource, Shortage};
use crate::proto::v1::ReasonCode;
use crate::proto::{count, v1};
use crate::snapshot::topology::Topology;
use crate::snapshot::{Deadline, DomainId, Slot, Stopped};

/// Words of a reason. The refusals of many nodes share them, and what is shared is compared by its
/// address, however long it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Words(Arc<str>);

impl Ord for Words {
    fn cmp(&self, other: &Self) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for Words {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Into<Arc<str>>> From<T> for Words {
    fn from(words: T) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reason that keeps a pod off a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The pod waits for these scheduling gates.
    Gated(Words),
    /// The node is cordoned.
    Unschedulable,
    /// The pod names another node.
    NodeName,
    /// The node was left out before all checks, by this rule.
    LeftOut(LeftOutBy),
    /// The pod does not tolerate a taint of the node.
    UntoleratedTaint,
    /// The node does not match the pod's node selector or affinity.
    NodeAffinity,
    /// Pods on the node have a host port that the pod requests.
    HostPorts,
    /// The node has as many pods as it takes.
    TooManyPods,
    /// The node has too little of a resource.
    Insufficient(Resource),
    /// The node lacks the topology key of a hard constraint.
    MissingTopologyKey,
    /// The pod would exceed the max skew of a hard constraint.
    Skew,
    /// The node's domain has no pod that the pod's affinity requires.
    PodAffinity,
    /// The node's domain has a pod that the pod's anti-affinity forbids.
    PodAntiAffinity,
    /// The node's domain has a pod whose anti-affinity forbids the incoming pod.
    ExistingAntiAffinity,
    /// The node does not declare a feature that the pod needs.
    DeclaredFeatures,
    /// A claim, volume or class is missing or not ready, so no node takes the pod. The text has
    /// kube-scheduler's words.
    VolumeNotReady(Words),
    /// A pod on the node uses a disk of the pod.
    DiskConflict,
    /// Another pod uses a claim of the pod that only one pod may use.
    ClaimInUse,
    /// The node does not reach a volume of the pod.
    VolumeNodeAffinity,
    /// No volume for a waiting claim of the pod can be bound or provisioned on the node.
    VolumeBinding,
    /// The volume that an ephemeral claim of the pod is bound to does not exist.
    VolumeMissing,
    /// The node is in another zone than a volume of the pod.
    VolumeZone,
    /// The caller gave the node a capacity, and no more replicas fit.
    Capacity,
    /// Fleet: a hard constraint would be violated. The text names the constraint.
    Violation(Words),
    /// Fleet: the cluster has the placement already, and takes it only once.
    HoldsPlacement,
}

/// A rule of kube-scheduler's PreFilter that leaves nodes out before they are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeftOutBy {
    /// The pod names another node.
    Name,
    /// The pod's node affinity names other nodes.
    Affinity,
    /// The pod names a node, and its affinity names this node among others.
    NameAndAffinity,
    /// The pod names a node, and its affinity names only other nodes.
    NameAgainstAffinity,
    /// Each term of the affinity requires different node names at once, so no node is left.
    Conflict,
}

impl LeftOutBy {
    fn text(self) -> &'static str {
        match self {
            Self::Name => "node(s) didn't satisfy plugin(s) [NodeName]",
            Self::Affinity => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NameAndAffinity => "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]",
            Self::NameAgainstAffinity => {
                "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"
            }
            Self::Conflict => "pod affinity terms conflict",
        }
    }

    /// The check that the node would fail.
    fn check(self) -> Reason {
        match self {
            Self::Name | Self::NameAndAffinity => Reason::NodeName,
            Self::Affinity | Self::NameAgainstAffinity | Self::Conflict => Reason::NodeAffinity,
        }
    }
}

/// The refusal of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRefusal {
    /// The reason of the refusal.
    pub reason: Reason,
    /// Further reasons of the same check: all resources that the node has too little of.
    pub more: Vec<Reason>,
    /// True if the node would be feasible if other pods moved.
    pub is_resolvable: bool,
    /// The index of the deciding constraint in the pod's or the default constraints.
    pub constraint_index: Option<usize>,
    /// Pods that the constraint counts in the node's domain.
    pub matching_pods: i64,
    /// The skew of the node's domain with the pod in it.
    pub skew: i64,
    /// The number of pods nominated to the node, if only these keep the pod off the node. 0 if the
    /// node is refused without them, too.
    pub nominated_pods: usize,
}

impl Reason {
    /// The reason in words.
    pub fn text(&self) -> Cow<'static, str> {
        let text = match self {
            Self::Gated(gates) => {
                return format!("waiting for scheduling gates: [{gates}]").into();
            }
            Self::Insufficient(resource) => {
                return format!("Insufficient {}", resource.as_str()).into();
            }
            Self::Violation(words) | Self::VolumeNotReady(words) => {
                return words.to_string().into();
            }
            Self::DiskConflict => "node(s) had no available disk",
            Self::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                 in-use by another pod"
            }
            Self::VolumeNodeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Self::VolumeBinding => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Self::VolumeZone => "node(s) had no available volume zone",
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::LeftOut(by) => by.text(),
            Self::HostPorts => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::UntoleratedTaint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::MissingTopologyKey => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Skew => "node(s) didn't match pod topology spread constraints",
            Self::PodAffinity => "node(s) didn't match pod affinity rules",
            Self::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules"
            }
            Self::DeclaredFeatures => "node(s) didn't match Pod's required features",
            Self::Capacity => "node(s) had no capacity left",
            Self::HoldsPlacement => "cluster(s) hold the placement",
        };
        text.into()
    }

    /// Returns whether the rule leaves out all nodes, so that nothing else is checked.
    pub fn leaves_none(&self) -> bool {
        let none = [LeftOutBy::NameAgainstAffinity, LeftOutBy::Conflict];
        matches!(self, Self::LeftOut(by) if none.contains(by))
    }

    /// The check that the node fails, even if it was left out before that check.
    pub fn check(&self) -> Self {
        match self {
            Self::LeftOut(by) => by.check(),
            reason => reason.clone(),
        }
    }

    /// The reason as a code.
    pub fn code(&self) -> ReasonCode {
        match self {
            Self::Gated(_) => ReasonCode::SchedulingGated,
            Self::Unschedulable => ReasonCode::Unschedulable,
            Self::NodeName => ReasonCode::NodeName,
            Self::LeftOut(by) => by.check().code(),
            Self::UntoleratedTaint => ReasonCode::Taint,
            Self::NodeAffinity => ReasonCode::NodeAffinity,
            Self::HostPorts => ReasonCode::HostPort,
            Self::TooManyPods => ReasonCode::TooManyPods,
            Self::Insufficient(_) => ReasonCode::InsufficientResource,
            Self::MissingTopologyKey => ReasonCode::MissingLabel,
            Self::Skew | Self::Violation(_) => ReasonCode::Skew,
            Self::PodAffinity => ReasonCode::PodAffinity,
            Self::PodAntiAffinity => ReasonCode::PodAntiAffinity,
            Self::ExistingAntiAffinity => ReasonCode::ExistingAntiAffinity,
            Self::DeclaredFeatures => ReasonCode::DeclaredFeatures,
            Self::VolumeNotReady(_) | Self::VolumeMissing => ReasonCode::VolumeNotReady,
            Self::DiskConflict => ReasonCode::DiskConflict,
            Self::ClaimInUse => ReasonCode::ClaimInUse,
            Self::VolumeNodeAffinity => ReasonCode::VolumeNodeAffinity,
            Self::VolumeBinding => ReasonCode::VolumeBinding,
            Self::VolumeZone => ReasonCode::VolumeZone,
            Self::Capacity => ReasonCode::Capacity,
            Self::HoldsPlacement => ReasonCode::HoldsPlacement,
        }
    }

    /// The resource that the node has too little of, if that is the reason.
    pub fn resource(&self) -> Option<&str> {
        match self {
            Self::Insufficient(resource) => Some(resource.as_str()),
            _ => None,
        }
    }

    /// Returns whether the node would be feasible if other pods moved. For resources, see
    /// [`NodeRefusal::by_shortages`].
    fn is_resolvable(&self) -> bool {
        matches!(
            self,
            Self::Skew
                | Self::Violation(_)
                | Self::HostPorts
                | Self::TooManyPods
                | Self::PodAntiAffinity
                | Self::DiskConflict
                | Self::ClaimInUse
                | Self::ExistingAntiAffinity
        )
    }
}

impl From<Resource> for Reason {
    fn from(lacking: Resource) -> Self {
        match lacking {
            Resource::Pods => Self::TooManyPods,
            resource => Self::Insufficient(resource),
        }
    }
}

impl NodeRefusal {
    /// A refusal that no spread constraint decided.
    pub fn by_node(reason: Reason) -> Self {
        Self {
            is_resolvable: reason.is_resolvable(),
            reason,
            more: Vec::new(),
            constraint_index: None,
            matching_pods: 0,
            skew: 0,
            nominated_pods: 0,
        }
    }

    /// A refusal by a hard constraint, with the numbers of the node's domain.
    pub fn by_constraint(reason: Reason, index: usize, matching_pods: i64, skew: i64) -> Self {
        Self {
            constraint_index: Some(index),
            matching_pods,
            skew,
            ..Self::by_node(reason)
        }
    }

    /// A refusal for lack of room; `None` if nothing is short.
    pub fn by_shortages(shortages: Vec<Shortage>) -> Option<Self> {
        // kube-scheduler calls too many pods resolvable, even if the node takes no pods at all.
        let is_final = |shortage: &Shortage| shortage.is_final && shortage.of != Resource::Pods;
        let is_resolvable = !shortages.iter().any(is_final);
        let refusal = Self::by_all(shortages.into_iter().map(|shortage| shortage.of.into()))?;
        Some(Self {
            is_resolvable,
            ..refusal
        })
    }

    /// A refusal for several reasons of one check, in order; `None` without reasons.
    pub fn by_all(reasons: impl IntoIterator<Item = Reason>) -> Option<Self> {
        let mut reasons = reasons.into_iter();
        let first = Self::by_node(reasons.next()?);
        Some(Self {
            more: reasons.collect(),
            ..first
        })
    }

    /// The refusal of a node of this name, for the wire.
    pub fn to_wire(&self, node: String) -> v1::NodeVerdict {
        let code = match self.is_resolvable {
            true => v1::Code::Unschedulable,
            false => v1::Code::UnschedulableAndUnresolvable,
        };
        let index = self.constraint_index.map(i32::try_from);
        let reasons = self.reasons().map(|reason| v1::RefusalReason {
            code: reason.code().into(),
            resource: reason.resource().unwrap_or_default().to_owned(),
        });
        v1::NodeVerdict {
            node,
            code: code.into(),
            reason: self.text().into_owned(),
            constraint_index: index.and_then(Result::ok).unwrap_or(-1),
            matching_pods: self.matching_pods,
            skew: self.skew,
            reasons: reasons.collect(),
            nominated_pods: count(self.nominated_pods),
        }
    }

    /// Returns whether the node refuses the pod for lack of room.
    pub fn is_of_room(&self) -> bool {
        matches!(self.reason, Reason::TooManyPods | Reason::Insufficient(_))
    }

    /// All reasons, in kube-scheduler's order.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        std::iter::once(&self.reason).chain(&self.more)
    }

    /// The words of all reasons, joined as kube-scheduler joins them.
    pub fn text(&self) -> Cow<'static, str> {
        match &*self.more {
            [] => self.reason.text(),
            _ => self
                .reasons()
                .map(Reason::text)
                .collect::<Vec<_>>()
                .join(", ")
                .into(),
        }
    }
}

/// The number of nodes that a step judges where each has a bit.
pub(super) const NODES_PER_STEP: usize = 16;

/// The other nodes whose verdicts other than those of constraints one more pod may change.
#[derive(Default)]
pub struct Affected {
    /// True for all nodes.
    pub all: bool,
    /// The nodes in these domains.
    pub domains: Vec<(Arc<Topology>, DomainId)>,
}

impl Affected {
    /// Returns whether no other node is affected.
    pub fn is_none(&self) -> bool {
        !self.all && self.domains.is_empty()
    }

    /// Returns whether a node is affected.
    pub fn has(&self, slot: Slot) -> bool {
        let mut domains = self.domains.iter();
        self.all || domains.any(|(topology, domain)| topology.domain_of(slot) == *domain)
    }
}

/// The number of nodes that pass, and of those that fail, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tallies {
    /// The number of nodes that were judged.
    pub judged: usize,
    /// The number of nodes that pass.
    pub feasible: usize,
    /// The number of nodes that fail, by reason. A node that has too little of several resources
    /// counts for each of them.
    pub refused: BTreeMap<Reason, usize>,
}

impl Tallies {
    /// Counts nodes that fail for a reason.
    pub fn refuse(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.refused.entry(reason).or_default() += nodes;
        }
    }
}

/// Verdicts on nodes: those that pass, and reasons why the others fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// A bit per node: set if it passes.
    pub pass: FixedBitSet,
    /// The number of nodes that pass, and of those that fail, by reason.
    pub tallies: Tallies,
}

impl Judgement {
    /// A judgement of this number of nodes, which all pass at first.
    pub(super) fn new(nodes: usize) -> Self {
        let mut pass = FixedBitSet::with_capacity(nodes);
        pass.insert_range(..);
        Self {
            pass,
            tallies: Tallies {
                judged: nodes,
                feasible: nodes,
                ..Tallies::default()
            },
        }
    }

    /// Refuses the nodes that are not among `passing`. A node that was refused before keeps its
    /// first reason.
    pub(super) fn narrow(&mut self, reason: Reason, passing: &FixedBitSet) {
        self.pass.intersect_with(passing);
        let left = self.pass.count_ones(..);
        let refused = std::mem::replace(&mut self.tallies.feasible, left) - left;
        self.tallies.refuse(reason, refused);
    }

    /// Judges each node that was not refused before, by its position.
    pub(super) fn narrow_each(
        &mut self,
        deadline: &Deadline<'_>,
        judge: impl Fn(usize) -> Result<Result<(), NodeRefusal>, Stopped>,
    ) -> Result<(), Stopped> {
        let left = self.pass.clone();
        for at in deadline.each(left.ones()) {
            let at = at?;
            // A refusal may have a reason for each resource of the pod, so only one is held at a
            // time.
            self.leave_out(&[at]);
            self.note(at, judge(at)?);
        }
        Ok(())
    }

    /// Takes nodes that were not refused out of the judgement.
    pub(super) fn leave_out(&mut self, nodes: &[usize]) {
        nodes.iter().for_each(|at| self.pass.remove(*at));
        self.tallies.feasible -= nodes.len();
    }

    /// Adds the verdict on a node that was left out.
    pub(super) fn note(&mut self, at: usize, verdict: Result<(), NodeRefusal>) {
        match verdict {
            Ok(()) => {
                self.pass.insert(at);
                self.tallies.feasible += 1;
            }
            Err(refusal) => {
                let reasons = refusal.reasons().cloned();
                reasons.for_each(|reason| self.tallies.refuse(reason, 1));
            }
        }
    }
}
