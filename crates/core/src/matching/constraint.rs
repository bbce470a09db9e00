//! Topology spread constraints of a pod, or the default ones
//! (`docs/semantics.md`, "Constraints of a pod" and "Validation").

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names;
use super::pod_affinity::is_merged;
use super::selector::Selector;
use super::violations::{Path, Violations};
use crate::proto::v1;

/// The treatment of a pod that cannot be placed evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A hard constraint: the pod is not placed.
    DoNotSchedule,
    /// A soft constraint: nodes that keep the pods even score higher.
    ScheduleAnyway,
}

/// The setting of a constraint that says if nodes on which the pod cannot run are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nodes on which the pod cannot run are left out.
    Honor,
    /// Nodes on which the pod cannot run are counted.
    Ignore,
}

/// A compiled constraint without its selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// The most by which a domain may exceed the global minimum; at least 1.
    pub max_skew: i32,
    /// Label key of nodes whose values are the domains.
    pub topology_key: Arc<str>,
    /// Hard or soft.
    pub action: Action,
    /// With fewer domains than this the global minimum is 0. `None` means unset,
    /// which acts as 1.
    pub min_domains: Option<i32>,
    /// The policy for nodes that do not match the pod's node affinity.
    pub node_affinity_policy: Policy,
    /// The policy for nodes with taints that the pod does not tolerate.
    pub node_taints_policy: Policy,
}

impl Action {
    /// Checks and reads the action of the constraint at `path`.
    pub fn compile(wire: &str, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        let all = [Self::DoNotSchedule, Self::ScheduleAnyway];
        let action = all.into_iter().find(|action| action.as_str() == wire);
        if action.is_none() {
            let known = "must be DoNotSchedule or ScheduleAnyway";
            faults.unknown_value(path.field("whenUnsatisfiable"), wire, known);
        }
        action
    }

    /// The value in Kubernetes' API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DoNotSchedule => "DoNotSchedule",
            Self::ScheduleAnyway => "ScheduleAnyway",
        }
    }
}

impl Policy {
    fn compile(wire: Option<&str>, default: Self, path: Path<'_>, faults: &mut Violations) -> Self {
        match wire {
            None => default,
            Some("Honor") => Self::Honor,
            Some("Ignore") => Self::Ignore,
            Some(other) => {
                faults.unknown_value(path, other, "must be Honor or Ignore");
                default
            }
        }
    }

    /// The value in Kubernetes' API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Honor => "Honor",
            Self::Ignore => "Ignore",
        }
    }
}

impl Constraint {
    /// Compiles the constraints of a pod with these labels, each with its
    /// complete selector.
    pub fn compile_own(
        wire: &[v1::TopologySpreadConstraint],
        pod_labels: &BTreeMap<String, String>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Vec<(Self, Selector)> {
        let mut all = Vec::with_capacity(wire.len());
        for (i, one) in wire.iter().enumerate() {
            let path = path.index(i);
            let constraint = Self::compile(one, &wire[i + 1..], path, faults);
            let selector = compile_selector(one, pod_labels, path, faults);
            all.extend(constraint.map(|constraint| (constraint, selector)));
        }
        all
    }

    /// Compiles default constraints, which have no selector.
    pub fn compile_defaults(
        wire: &[v1::TopologySpreadConstraint],
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Vec<Self> {
        let mut all = Vec::with_capacity(wire.len());
        for (i, one) in wire.iter().enumerate() {
            let path = path.index(i);
            if one.label_selector.is_some() {
                let rule = "must not be set: the selector of default constraints is deduced";
                faults.add(path.field("labelSelector"), rule);
            }
            check_match_label_keys(one, path, faults);
            all.extend(Self::compile(one, &wire[i + 1..], path, faults));
        }
        all
    }

    /// A soft constraint with all other fields unset.
    pub fn soft(topology_key: &str, max_skew: i32) -> Self {
        Self {
            max_skew,
            topology_key: topology_key.into(),
            action: Action::ScheduleAnyway,
            min_domains: None,
            node_affinity_policy: Policy::Honor,
            node_taints_policy: Policy::Ignore,
        }
    }

    /// Returns whether the constraint is hard.
    pub fn is_hard(&self) -> bool {
        self.action == Action::DoNotSchedule
    }

    /// The constraint for the wire, with every field filled in.
    pub fn to_wire(&self, selector: Option<v1::LabelSelector>) -> v1::TopologySpreadConstraint {
        v1::TopologySpreadConstraint {
            max_skew: self.max_skew,
            topology_key: self.topology_key.to_string(),
            when_unsatisfiable: self.action.as_str().to_owned(),
            label_selector: selector,
            min_domains: self.min_domains.or_else(|| self.is_hard().then_some(1)),
            node_affinity_policy: Some(self.node_affinity_policy.as_str().to_owned()),
            node_taints_policy: Some(self.node_taints_policy.as_str().to_owned()),
            match_label_keys: Vec::new(),
        }
    }

    fn compile(
        wire: &v1::TopologySpreadConstraint,
        after: &[v1::TopologySpreadConstraint],
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        if wire.max_skew < 1 {
            faults.add(path.field("maxSkew"), "must be at least 1");
        }
        names::check_label_key(&wire.topology_key, path.field("topologyKey"), faults);
        let action = Action::compile(&wire.when_unsatisfiable, path, faults);
        let repeats = |other: &v1::TopologySpreadConstraint| {
            other.topology_key == wire.topology_key
                && other.when_unsatisfiable == wire.when_unsatisfiable
        };
        if after.iter().any(repeats) {
            let pair = path.field("{topologyKey, whenUnsatisfiable}");
            faults.add(pair, "is repeated by a later constraint");
        }
        if wire.min_domains.is_some_and(|n| n < 1) {
            faults.add(path.field("minDomains"), "must be at least 1");
        }
        if wire.min_domains.is_some() && action == Some(Action::ScheduleAnyway) {
            let rule = "can only be set when whenUnsatisfiable is DoNotSchedule";
            faults.add(path.field("minDomains"), rule);
        }
        let mut policy = |wire: &Option<String>, default, field| {
            Policy::compile(wire.as_deref(), default, path.field(field), faults)
        };
        let (affinity, taints) = (&wire.node_affinity_policy, &wire.node_taints_policy);
        Some(Self {
            node_affinity_policy: policy(affinity, Policy::Honor, "nodeAffinityPolicy"),
            node_taints_policy: policy(taints, Policy::Ignore, "nodeTaintsPolicy"),
            max_skew: wire.max_skew,
            topology_key: wire.topology_key.as_str().into(),
            action: action?,
            min_domains: wire.min_domains,
        })
    }
}

/// The selector with the pod's values of `matchLabelKeys` ANDed to it.
fn compile_selector(
    wire: &v1::TopologySpreadConstraint,
    pod_labels: &BTreeMap<String, String>,
    path: Path<'_>,
    faults: &mut Violations,
) -> Selector {
    check_match_label_keys(wire, path, faults);
    let keys = &wire.match_label_keys;
    let list = path.field("matchLabelKeys");
    match &wire.label_selector {
        None if !keys.is_empty() => faults.add(list, "can only be set with a labelSelector"),
        Some(selector) => {
            for (path, key) in list.each(keys) {
                if merged_uses(key, selector, pod_labels.contains_key(key)) > 1 {
                    faults.add(path, "is used by the labelSelector already");
                }
            }
        }
        None => {}
    }
    let own = path.field("labelSelector");
    let present = keys.iter().filter_map(|key| pod_labels.get_key_value(key));
    Selector::compile(wire.label_selector.as_ref(), own, faults)
        .and_labels(present.map(|(key, value)| (&**key, &**value)))
}

/// Returns how often the selector of an admitted pod uses a key of `matchLabelKeys`. If the pod has
/// the label, the API server merges `key In [value]` into the selector when the pod is created
/// (KEP-3243). The label may have changed since.
fn merged_uses(key: &str, selector: &v1::LabelSelector, has_label: bool) -> usize {
    let of_key = selector.match_expressions.iter().filter(|e| e.key == key);
    usize::from(selector.match_labels.contains_key(key))
        + of_key.count()
        + usize::from(has_label && !is_merged(key, selector))
}

fn check_match_label_keys(
    wire: &v1::TopologySpreadConstraint,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let list = path.field("matchLabelKeys");
    for (path, key) in list.each(&wire.match_label_keys) {
        names::check_label_key(key, path, faults);
    }
}
