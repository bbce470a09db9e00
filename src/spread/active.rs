//! The constraints that are in force for a pod on one read view of a snapshot: its
//! own, or the default ones with their deduced selector
//! (`docs/semantics.md`, "Constraints of a pod").

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::matching::{Constraint, NodeAffinity, Policy, Selector, Tolerations};
use crate::proto::v1;
use crate::snapshot::{Controller, Eligibility, Query, ReadView, partition, topology};

/// The key whose domains are single nodes in Score, where every node is a
/// domain of its own.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The constraints in force.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    /// The constraints, in order.
    pub all: Vec<Active>,
    /// Whether Score ignores nodes that lack any topology key: always, except
    /// with Kubernetes' own default constraints.
    pub all_keys_required: bool,
}

/// A constraint in force.
#[derive(Debug, Clone)]
pub struct Active {
    /// Its index in the pod's or the default constraints.
    pub index: usize,
    /// The constraint.
    pub constraint: Constraint,
    /// Its complete selector.
    pub selector: Selector,
    /// 1 when the selector matches the incoming pod's own labels, else 0.
    pub self_match: i64,
    /// Whether it is one of the default constraints.
    pub from_defaults: bool,
    /// The nodes that it counts in, by domain.
    pub partition: partition::Key,
    /// All nodes by value of the topology key, where in `partition` every node is
    /// a domain.
    pub keyed: Option<partition::Key>,
}

/// The parts of a pod that decide which nodes its constraints count in.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// The nodes that its node selector and required affinity allow.
    pub affinity: &'a NodeAffinity,
    /// Taints that it tolerates.
    pub tolerations: &'a Tolerations,
}

impl Constraints {
    /// The default constraints for a pod with this controller.
    pub fn defaults(
        subject: Subject<'_>,
        by: Option<&Controller>,
        read_view: &ReadView<'_>,
    ) -> Self {
        let defaults = &read_view.defaults.constraints;
        let deduced = (!defaults.is_empty())
            .then(|| read_view.deduce(subject.labels, by))
            .flatten();
        let all = deduced.iter().flat_map(|selector| {
            defaults
                .iter()
                .map(|constraint| (constraint.clone(), selector.clone()))
        });
        let all_keys_required = !read_view.defaults.system;
        Self::new(all.collect(), subject, true, all_keys_required)
    }

    /// The pod's own constraints.
    pub fn own(all: Vec<(Constraint, Selector)>, subject: Subject<'_>) -> Self {
        Self::new(all, subject, false, true)
    }

    /// These with the one at `index` changed, to decide what a change would do.
    /// The subject is that of the question.
    pub fn revised(
        &self,
        index: usize,
        subject: Subject<'_>,
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
        subject: Subject<'_>,
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
            let required = if constraint.is_hard() { &hard } else { &soft };
            let partition = partition_of(&constraint, required, all_keys_required, subject);
            Active {
                index,
                self_match: i64::from(selector.matches_labels(subject.labels)),
                from_defaults,
                keyed: (partition.topology == topology::Key::Node)
                    .then(|| partition::Key::everywhere(topology_of(&constraint))),
                partition,
                constraint,
                selector,
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

    /// The domains over which a constraint wants existing pods to be even. Unlike
    /// Score, which compares candidates, this uses the label of hosts, and only
    /// eligible nodes, for hard and soft constraints alike.
    pub fn standing(&self, active: &Active, subject: Subject<'_>) -> partition::Key {
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

/// The nodes that a constraint counts in, by domain.
fn partition_of(
    constraint: &Constraint,
    required_keys: &[Arc<str>],
    all_keys_required: bool,
    subject: Subject<'_>,
) -> partition::Key {
    let is_soft = !constraint.is_hard();
    if is_soft && *constraint.topology_key == *HOSTNAME {
        return partition::Key::everywhere(topology::Key::Node);
    }
    partition::Key {
        missing_is_empty: is_soft && !all_keys_required,
        ..label_partition(constraint, required_keys, subject)
    }
}

/// The nodes that are eligible under a constraint's policies and have these
/// keys, by value of its topology key.
fn label_partition(
    constraint: &Constraint,
    required_keys: &[Arc<str>],
    subject: Subject<'_>,
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
pub(super) fn topology_of(constraint: &Constraint) -> topology::Key {
    topology::Key::Label(Arc::clone(&constraint.topology_key))
}

impl Active {
    /// What the constraint asks a snapshot.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: &self.selector,
            partition: &self.partition,
        }
    }

    /// The constraint as evaluated, for the wire.
    pub fn to_wire(&self) -> v1::TopologySpreadConstraint {
        self.constraint.to_wire(self.selector.to_wire())
    }
}
