//! The compiled incoming pod of a decision, and its constraints in force on a read view: its own, or the
//! default constraints with their deduced selector (`docs/semantics.md`, "Constraints of a pod", "Node
//! checks" and "Score").

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::checks::{Checks, OwnPlace};
use super::describe::WorkloadId;
use super::filter::Incoming;
use super::volumes::Volumes;
use super::{checks, volumes};
use crate::limits::Limit;
use crate::matching::names::HOSTNAME;
use crate::matching::{
    Constraint, Features, NodeAffinity, Path, PodAffinity, PodStorage, PodTerm, Policy, Requests,
    Resource, Selector, Tolerations, Violations, names,
};
use crate::proto::v1;
use crate::snapshot::owners::Controller;
use crate::snapshot::partition::Eligibility;
use crate::snapshot::{DomainKey, Hold, Limits, Query, ReadView, Stopped, partition};

/// The used fields of a pod that no snapshot has data to check, ascending.
fn unchecked_fields(pod: &v1::Pod) -> Box<[&'static str]> {
    let (no_spec, no_status) = (v1::PodSpec::default(), v1::PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let has_inline = |volume: &v1::Volume| volume.source().csi.is_some();
    let is_deferred = |condition: &v1::PodCondition| {
        condition.r#type == "PodResizePending" && condition.reason == "Deferred"
    };
    those_used([
        ("spec.resourceClaims", !spec.resource_claims.is_empty()),
        ("spec.volumes", spec.volumes.iter().any(has_inline)),
        (
            "status.conditions.PodResizePending",
            status.conditions.iter().any(is_deferred),
        ),
    ])
}

/// The fields of a pod with preferred terms about other pods, ascending.
fn preferred_fields(spec: &v1::PodSpec) -> Box<[&'static str]> {
    let affinity = spec.affinity.as_ref();
    let prefers = |rules: Option<&v1::PodAffinity>| {
        rules.is_some_and(|it| {
            !it.preferred_during_scheduling_ignored_during_execution
                .is_empty()
        })
    };
    let near = affinity.and_then(|it| it.pod_affinity.as_ref());
    let apart = affinity.and_then(|it| it.pod_anti_affinity.as_ref());
    those_used([
        (
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            prefers(near),
        ),
        (
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            prefers(apart),
        ),
    ])
}

/// The used fields, of fields that each come with a flag that is true if it is used.
fn those_used<const N: usize>(fields: [(&'static str, bool); N]) -> Box<[&'static str]> {
    let used = fields.into_iter().filter(|(_, is_used)| *is_used);
    used.map(|(field, _)| field).collect()
}

/// The checks that a node has to pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NodeChecks {
    /// All checks that the snapshot has data for, in kube-scheduler's order.
    #[default]
    All,
    /// Only the verdict of the spread plugin.
    SpreadOnly,
}

/// The subject of a decision: a valid pod, in the form that the rules read.
#[derive(Debug, Clone)]
pub struct Question {
    /// Namespace of the pod.
    pub namespace: String,
    /// The facts that decide which nominated pods count for the pod.
    pub incoming: Incoming,
    /// The parts of the pod that decide on which nodes its constraints count pods.
    pub subject: Subject,
    /// The pod's controller.
    pub controller: Option<Controller>,
    /// The kind of the workload that the pod belongs to; empty if it has no controller.
    pub owner_kind: Box<str>,
    /// The name of the workload.
    pub owner_name: Box<str>,
    /// The pod's own constraints.
    pub constraints: Constraints,
    /// The checks of nodes other than spread.
    pub checks: Checks,
    /// The pod's required affinity to other pods.
    pub affinity: PodAffinity,
    /// The storage that the pod uses.
    pub storage: PodStorage,
    /// The used fields that affect where the pod can run, but that are never checked.
    pub unchecked: Box<[&'static str]>,
    /// The preferred terms about other pods, which are never scored.
    pub unscored: Box<[&'static str]>,
}

impl Question {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod (`docs/semantics.md`, "Validation").
    pub fn compile(
        wire: Option<&v1::Pod>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let Some(wire) = wire else {
            faults.add(path, "is required");
            return Err(faults);
        };
        let (no_metadata, no_spec) = (v1::ObjectMeta::default(), v1::PodSpec::default());
        let metadata = wire.metadata.as_ref().unwrap_or(&no_metadata);
        let spec = wire.spec.as_ref().unwrap_or(&no_spec);
        check_metadata(metadata, path.field("metadata"), &mut faults);

        let at = path.field("spec");
        let affinity = NodeAffinity::compile(spec, limits, at, &mut faults);
        let tolerations = at.field("tolerations");
        let compare = limits.toleration_comparisons;
        let tolerations =
            Tolerations::compile(&spec.tolerations, compare, tolerations, &mut faults);
        let list = at.field("topologySpreadConstraints");
        let own = &spec.topology_spread_constraints;
        if !faults.within(list, limits, Limit::ConstraintsPerPod, own.len()) {
            return Err(faults);
        }
        let constraints = Constraint::compile_own(own, &metadata.labels, list, &mut faults);
        let subject = Subject {
            labels: metadata.labels.clone(),
            affinity,
            tolerations,
            is_of_each_node: checks::is_of_each_node(metadata, spec),
        };
        let constraints = Constraints::own(constraints, &subject);
        let (owner_kind, owner_name) = WorkloadId::controller(metadata, None).unwrap_or_default();
        let requests = Requests::compile(spec, limits, at, &mut faults);
        let pods = PodAffinity::compile(metadata, spec, limits, at, &mut faults);
        let storage = PodStorage::compile(metadata, spec, at, &mut faults);
        let own = OwnPlace::of(spec, limits.node_names, at, &mut faults);
        let checks = Checks::of(&subject, own, requests, Features::needed(spec));
        faults.finish(Self {
            namespace: names::namespace_or_default(&metadata.namespace).to_owned(),
            incoming: Incoming::of(metadata, spec),
            subject,
            controller: Controller::of(&metadata.owner_references),
            owner_kind: owner_kind.into(),
            owner_name: owner_name.into(),
            constraints,
            checks,
            affinity: pods,
            storage,
            unchecked: unchecked_fields(wire),
            unscored: preferred_fields(spec),
        })
    }

    /// Returns whether a decision about the pod reads other namespaces than its own.
    pub fn reads_others(&self) -> bool {
        self.affinity.covers_others(&self.namespace)
    }

    /// Returns a number that is larger for pods that request more. Of memory, 4 GiB are as much as a
    /// processor.
    pub fn size(&self) -> i128 {
        let requests = self.checks.requests.iter();
        let amounts = requests.flat_map(|requests| requests.amounts.iter());
        let amounts = amounts.map(|(resource, amount)| match resource {
            Resource::Memory | Resource::EphemeralStorage => i128::from(amount),
            _ => i128::from(amount) << 22,
        });
        amounts.sum()
    }

    /// The form in which picks for the pod count while they are held.
    pub fn hold(&self, owner: String, ttl: Duration) -> Hold {
        let requests = self.checks.requests.as_deref();
        let terms: Vec<_> = self.affinity.apart.iter().map(PodTerm::to_wire).collect();
        let affinity = (!terms.is_empty()).then(|| v1::Affinity {
            pod_anti_affinity: Some(v1::PodAffinity {
                required_during_scheduling_ignored_during_execution: terms,
                ..v1::PodAffinity::default()
            }),
            ..v1::Affinity::default()
        });
        let template = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                namespace: self.namespace.clone(),
                labels: self.subject.labels.clone(),
                ..v1::ObjectMeta::default()
            }),
            spec: Some(v1::PodSpec {
                containers: requests.and_then(Requests::to_wire).into_iter().collect(),
                affinity,
                volumes: self.storage.held.to_vec(),
                ..v1::PodSpec::default()
            }),
            status: None,
        };
        Hold {
            owner: owner.into(),
            ttl,
            template: Arc::new(template),
        }
    }

    /// The used fields that affect where the pod can run, but that are not checked on a read view;
    /// ascending.
    pub fn unchecked(
        &self,
        checks: NodeChecks,
        read_view: &ReadView<'_>,
    ) -> Result<Vec<String>, Stopped> {
        if checks == NodeChecks::SpreadOnly {
            return Ok(Vec::new());
        }
        let room = self.checks.of_room().filter(|_| !read_view.knows_room());
        // The priority decides which nominated pods count.
        let class = self.incoming.has_unknown_priority && read_view.nominated()?.next().is_some();
        let class = class.then_some("spec.priorityClassName");
        let all = self.unchecked.iter().copied().chain(room).chain(class);
        // Every cluster has namespaces. If the snapshot has none, no feed sent them.
        let selectors = match read_view.has_namespaces() {
            true => [None, None],
            false => self.affinity.namespace_selectors(),
        };
        let storage = volumes::unchecked(&self.namespace, &self.storage, read_view)?;
        let all = all.chain(selectors.into_iter().flatten()).chain(storage);
        let all = all.map(str::to_owned);
        let mut fields: Vec<String> = all.chain(self.checks.of_devices(read_view)).collect();
        fields.sort_unstable();
        fields.dedup();
        Ok(fields)
    }

    /// The unchecked fields, and the fields that only kube-scheduler's InterPodAffinity scores: the
    /// pod's preferred terms, and the terms of running pods that match the pod.
    pub fn unscored(
        &self,
        checks: NodeChecks,
        read_view: &ReadView<'_>,
    ) -> Result<Vec<String>, Stopped> {
        let mut fields = self.unchecked(checks, read_view)?;
        if checks == NodeChecks::All {
            let labels = &self.subject.labels;
            let by_pods = read_view.is_scored_by_pods(labels, &self.namespace)?;
            let by_pods = by_pods.then_some("spec.affinity (of pods that run)");
            let unscored = self.unscored.iter().copied().chain(by_pods);
            fields.extend(unscored.map(str::to_owned));
            fields.sort_unstable();
        }
        Ok(fields)
    }

    /// The question with only the checks of labels and taints. Other fields that the pod uses
    /// become unchecked.
    pub fn of_labels_and_taints(self) -> Self {
        let own = self.checks.of_own_place().chain(self.checks.of_room());
        let PodAffinity { near, apart } = &self.affinity;
        let others = those_used([
            ("spec.affinity.podAffinity", !near.is_empty()),
            ("spec.affinity.podAntiAffinity", !apart.is_empty()),
            ("spec.volumes", !self.storage.is_empty()),
        ]);
        let all = self.unchecked.iter().copied().chain(own).chain(others);
        let mut unchecked: Vec<&str> = all.collect();
        unchecked.sort_unstable();
        unchecked.dedup();
        Self {
            checks: self.checks.of_labels_and_taints(),
            affinity: PodAffinity::default(),
            storage: PodStorage::default(),
            unchecked: unchecked.into(),
            ..self
        }
    }

    /// Returns the rules about the pod's storage on a read view; `None` if there are none.
    pub fn volumes<'a>(&'a self, read_view: &ReadView<'a>) -> Result<Option<Volumes<'a>>, Stopped> {
        let Incoming { name, uid, .. } = &self.incoming;
        let pod = (&*self.namespace, &**name, &**uid);
        Volumes::of(pod, &self.storage, read_view)
    }

    /// The constraints in force: the pod's own, or the default constraints if it has none.
    pub fn constraints_on(
        &self,
        read_view: &ReadView<'_>,
    ) -> Result<Cow<'_, Constraints>, Stopped> {
        if !self.constraints.all.is_empty() {
            return Ok(Cow::Borrowed(&self.constraints));
        }
        let controller = self.controller.as_ref();
        Constraints::defaults(&self.subject, controller, read_view).map(Cow::Owned)
    }
}

/// Checks the metadata of the incoming pod, which may have no name yet.
fn check_metadata(metadata: &v1::ObjectMeta, path: Path<'_>, faults: &mut Violations) {
    if !metadata.name.is_empty() {
        names::check_name(&metadata.name, path.field("name"), faults);
    }
    names::check_namespace(&metadata.namespace, path.field("namespace"), faults);
    names::check_labels(&metadata.labels, path.field("labels"), faults);
    // No rule reads the deletion time, but the decision log has to be able to write it.
    names::check_deletion(metadata, path, faults);
}

/// The constraints in force.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    /// The constraints, in order.
    pub all: Vec<Active>,
    /// True if Score ignores nodes that lack any topology key. It is false only for Kubernetes' own
    /// default constraints.
    pub all_keys_required: bool,
}

/// The empty constraints, for checks of nodes without spread.
pub(super) static NO_CONSTRAINTS: Constraints = Constraints {
    all: Vec::new(),
    all_keys_required: true,
};

/// A constraint in force.
#[derive(Debug, Clone)]
pub struct Active {
    /// The index in the pod's or the default constraints.
    pub index: usize,
    /// The constraint.
    pub constraint: Constraint,
    /// The constraint's complete selector. [`Self::counted`] is the selector of the pods that the
    /// constraint counts.
    pub selector: Selector,
    /// True if the selector `{}` counts all pods of the namespace, as in KubeFleet. In
    /// kube-scheduler's plugin it counts none.
    pub(super) empty_counts_all: bool,
    /// 1 when the selector matches the incoming pod's own labels, else 0.
    pub self_match: i64,
    /// True if this is one of the default constraints.
    pub from_defaults: bool,
    /// The nodes that the constraint counts in, by domain.
    pub partition: partition::Key,
    /// True if each pod of the question counts only the node that it is tied to, so that the
    /// constraint refuses none. Such are the pods of a DaemonSet.
    pub counts_own_node: bool,
    /// All nodes by value of the topology key, if every node is a domain in `partition`.
    pub keyed: Option<partition::Key>,
}

/// The parts of a pod that decide on which nodes its constraints count pods.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
    /// The nodes that the pod's node selector and required affinity allow.
    pub affinity: NodeAffinity,
    /// The taints that the pod tolerates.
    pub tolerations: Tolerations,
    /// True if the pod stands for those that a DaemonSet makes, one for each node and tied to it.
    pub is_of_each_node: bool,
}

impl Constraints {
    /// The default constraints for a pod with this controller.
    pub fn defaults(
        subject: &Subject,
        by: Option<&Controller>,
        read_view: &ReadView<'_>,
    ) -> Result<Self, Stopped> {
        let defaults = &read_view.defaults.constraints;
        let deduced = match defaults.is_empty() {
            true => None,
            false => read_view.deduce(&subject.labels, by)?,
        };
        let all = deduced.iter().flat_map(|selector| {
            defaults
                .iter()
                .map(|constraint| (constraint.clone(), selector.clone()))
        });
        let all_keys_required = !read_view.defaults.system;
        Ok(Self::new(all.collect(), subject, true, all_keys_required))
    }

    /// The pod's own constraints.
    pub fn own(all: Vec<(Constraint, Selector)>, subject: &Subject) -> Self {
        Self::new(all, subject, false, true)
    }

    /// These constraints with a change to the constraint at `index`, to try the effect of the
    /// change. The subject is that of the question.
    pub fn revised(
        &self,
        index: usize,
        subject: &Subject,
        revise: impl FnOnce(&mut Constraint, &mut Selector),
    ) -> Self {
        let mut all: Vec<(Constraint, Selector)> = self
            .all
            .iter()
            .map(|active| (active.constraint.clone(), active.selector.clone()))
            .collect();
        if let Some((constraint, selector)) = all.get_mut(index) {
            revise(constraint, selector);
        }
        let from_defaults = self.all.iter().any(|active| active.from_defaults);
        Self::new(all, subject, from_defaults, self.all_keys_required)
    }

    fn new(
        all: Vec<(Constraint, Selector)>,
        subject: &Subject,
        from_defaults: bool,
        all_keys_required: bool,
    ) -> Self {
        let keys = |hard: bool| -> Box<[Arc<str>]> {
            let of_kind = all
                .iter()
                .filter(|(constraint, _)| constraint.is_hard() == hard);
            of_kind
                .map(|(constraint, _)| Arc::clone(&constraint.topology_key))
                .collect()
        };
        let hard = keys(true);
        let soft = if all_keys_required {
            keys(false)
        } else {
            Box::default()
        };
        let active = |(index, (constraint, selector)): (usize, (Constraint, Selector))| {
            let is_soft = !constraint.is_hard();
            // In Score, every node is a domain of its own under this key.
            let partition = if is_soft && *constraint.topology_key == *HOSTNAME {
                partition::Key::everywhere(DomainKey::Node)
            } else {
                let required = if is_soft { &soft } else { &hard };
                partition::Key {
                    missing_is_empty: is_soft && !all_keys_required,
                    ..label_partition(&constraint, required, subject)
                }
            };
            let counts_own_node = subject.is_of_each_node
                && constraint.is_hard()
                && constraint.node_affinity_policy == Policy::Honor
                && constraint.min_domains.unwrap_or(1) <= 1;
            Active {
                from_defaults,
                counts_own_node,
                keyed: (partition.topology == DomainKey::Node)
                    .then(|| partition::Key::everywhere(topology_of(&constraint))),
                ..Active::of(index, constraint, selector, partition, &subject.labels)
            }
        };
        Self {
            all: all.into_iter().enumerate().map(active).collect(),
            all_keys_required,
        }
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> impl Iterator<Item = &Active> {
        self.all.iter().filter(|active| active.constraint.is_hard())
    }

    /// The domains over which existing pods should be even by a constraint. For hard and soft
    /// constraints alike, these are domains by label, even for the label of hosts, and only of
    /// eligible nodes.
    pub fn standing(&self, active: &Active, subject: &Subject) -> partition::Key {
        let alike = self.all.iter().map(|other| &other.constraint);
        let alike = alike.filter(|other| other.is_hard() == active.constraint.is_hard());
        let own = &active.constraint.topology_key;
        let required: Vec<Arc<str>> = match self.all_keys_required {
            true => alike.map(|other| Arc::clone(&other.topology_key)).collect(),
            false => vec![Arc::clone(own)],
        };
        label_partition(&active.constraint, &required, subject)
    }

    /// The soft constraints, in order.
    pub fn soft(&self) -> impl Iterator<Item = &Active> {
        self.all
            .iter()
            .filter(|active| !active.constraint.is_hard())
    }
}

/// The partition of the nodes that are eligible under a constraint's policies and have these keys,
/// by value of the constraint's topology key.
fn label_partition(
    constraint: &Constraint,
    required_keys: &[Arc<str>],
    subject: &Subject,
) -> partition::Key {
    let honors_affinity = constraint.node_affinity_policy == Policy::Honor;
    let honors_taints = constraint.node_taints_policy == Policy::Honor;
    let eligibility = Eligibility {
        required_keys: required_keys.into(),
        affinity: (honors_affinity && !subject.affinity.is_any()).then(|| subject.affinity.clone()),
        tolerations: honors_taints.then(|| subject.tolerations.clone()),
        cordon_tolerations: None,
    };
    partition::Key::of(topology_of(constraint), eligibility)
}

/// The key of a constraint's partition.
pub(super) fn topology_of(constraint: &Constraint) -> DomainKey {
    DomainKey::Label(Arc::clone(&constraint.topology_key))
}

impl Active {
    /// A constraint of a pod with these labels.
    pub(super) fn of(
        index: usize,
        constraint: Constraint,
        selector: Selector,
        partition: partition::Key,
        labels: &BTreeMap<String, String>,
    ) -> Self {
        Self {
            index,
            self_match: i64::from(selector.matches_labels(labels)),
            from_defaults: false,
            counts_own_node: false,
            keyed: None,
            partition,
            constraint,
            selector,
            empty_counts_all: false,
        }
    }

    /// Returns the query by which a snapshot counts for the constraint.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: self.counted(),
            partition: &self.partition,
        }
    }

    /// The selector of the pods that the constraint counts in a snapshot.
    pub fn counted(&self) -> &Selector {
        match self.selector.is_empty() && !self.empty_counts_all {
            true => &Selector::Nothing,
            false => &self.selector,
        }
    }

    /// Returns whether the constraint counts the pod of the question itself, once it is on a node.
    pub fn counts_itself(&self) -> bool {
        self.self_match > 0 && *self.counted() != Selector::Nothing
    }

    /// The index of the constraint, for the wire.
    pub fn wire_index(&self) -> i32 {
        i32::try_from(self.index).unwrap_or(i32::MAX)
    }

    /// The constraint as evaluated, for the wire.
    pub fn to_wire(&self) -> v1::TopologySpreadConstraint {
        self.constraint.to_wire(self.selector.to_wire())
    }
}
