//! The constraints that are in force for a pod on a read view of a snapshot: the pod's own, or the
//! default constraints with their deduced selector (`docs/semantics.md`, "Constraints of a pod").

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::matching::names::HOSTNAME;
use crate::matching::{Constraint, NodeAffinity, Policy, Selector, Tolerations};
use crate::proto::v1;
use crate::snapshot::{Controller, DomainKey, Eligibility, Query, ReadView, Stopped, partition};

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

    /// The constraint as evaluated, for the wire.
    pub fn to_wire(&self) -> v1::TopologySpreadConstraint {
        self.constraint.to_wire(self.selector.to_wire())
    }
}
