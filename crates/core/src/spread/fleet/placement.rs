//! The placement that a Fleet decision is about, compiled.

use std::collections::BTreeMap;

use super::super::active::{Active, topology_of};
use super::super::question;
use crate::limits::Limit;
use crate::matching::{Action, Constraint, Path, Policy, Selector, Violations, names};
use crate::proto::v1;
use crate::snapshot::{Limits, partition};

/// The placement that a Fleet decision is about.
#[derive(Debug, Clone)]
pub struct PlacementSpec {
    /// The placement without its constraints.
    pub pod: question::Question,
    /// The placement's constraints in the order of evaluation: hard ones first.
    pub constraints: Vec<Active>,
    /// Selects the pods of this placement: those with all of its labels.
    pub holders: Selector,
}

impl PlacementSpec {
    /// Checks and compiles the pod of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of the pod (`docs/semantics.md`, "Fleet dialect").
    pub fn compile(
        mut wire: Option<v1::Pod>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let spec = wire.as_mut().and_then(|pod| pod.spec.as_mut());
        let constraints = spec.map(|s| std::mem::take(&mut s.topology_spread_constraints));
        let constraints = constraints.unwrap_or_default();
        let mut faults = Violations::default();
        let pod = faults.collect(question::Question::compile(wire.as_ref(), limits, path));
        // A cluster takes the placed resources as a whole, so only labels and taints are checked.
        let pod = pod.map(question::Question::of_labels_and_taints);

        let spec = path.field("spec");
        let list = spec.field("topologySpreadConstraints");
        let count = constraints.len();
        if !faults.within(list, limits, Limit::ConstraintsPerPod, count) {
            return Err(faults);
        }
        let no_labels = BTreeMap::new();
        let labels = pod.as_ref().map_or(&no_labels, |pod| &pod.subject.labels);
        let holders = Selector::from_labels(labels);
        let mut compiled: Vec<Active> = Vec::with_capacity(count);
        for (index, wire) in constraints.iter().enumerate() {
            let path = list.index(index);
            let constraint = compile(wire, path, &mut faults);
            let selector = match &wire.label_selector {
                None => holders.clone(),
                own => Selector::compile(own.as_ref(), path.field("labelSelector"), &mut faults),
            };
            compiled.extend(constraint.map(|constraint| {
                // The constraint counts over all clusters.
                let everywhere = partition::Key::everywhere(topology_of(&constraint));
                Active {
                    empty_counts_all: true,
                    ..Active::of(index, constraint, selector, everywhere, labels)
                }
            }));
        }
        // The sort is stable: hard constraints and soft constraints each stay in order.
        compiled.sort_by_key(|active| !active.constraint.is_hard());
        match pod {
            Some(pod) => faults.finish(Self {
                pod,
                constraints: compiled,
                holders,
            }),
            None => Err(faults),
        }
    }
}

fn compile(
    wire: &v1::TopologySpreadConstraint,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<Constraint> {
    if wire.max_skew < 0 {
        faults.add(path.field("maxSkew"), "must be at least 1");
    }
    names::check_label_key(&wire.topology_key, path.field("topologyKey"), faults);
    for (name, is_set) in [
        ("minDomains", wire.min_domains.is_some()),
        ("nodeAffinityPolicy", wire.node_affinity_policy.is_some()),
        ("nodeTaintsPolicy", wire.node_taints_policy.is_some()),
        ("matchLabelKeys", !wire.match_label_keys.is_empty()),
    ] {
        if is_set {
            faults.add(path.field(name), "does not apply in the Fleet dialect");
        }
    }
    let action = match &*wire.when_unsatisfiable {
        "" => Action::DoNotSchedule,
        given => Action::compile(given, path, faults)?,
    };
    Some(Constraint {
        // The Fleet dialect has a max skew of 1 when unset.
        max_skew: wire.max_skew.max(1),
        topology_key: wire.topology_key.as_str().into(),
        action,
        min_domains: None,
        node_affinity_policy: Policy::Ignore,
        node_taints_policy: Policy::Ignore,
    })
}

/// A constraint as evaluated, for the wire. Fields that the dialect does not know are left out.
pub fn to_wire(active: &Active) -> v1::TopologySpreadConstraint {
    v1::TopologySpreadConstraint {
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        ..active.to_wire()
    }
}
