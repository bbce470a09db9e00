//! The constraints of a pod: its own, or the default ones with the selector that its services and
//! its controller imply.

use evenkeel::proto::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Pod,
    TopologySpreadConstraint,
};

use super::cluster::Cluster;
use super::rules::{LabelMap, all_pairs, labels, name, namespace, selector_matches};

/// The topology key by which every node is a domain.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// One constraint as it applies to the incoming pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedConstraint {
    /// Index in the pod's constraints or in the default ones.
    pub index: i32,
    /// True if this is one of the default constraints.
    pub from_defaults: bool,
    /// The constraint as written, with unset fields filled in and the selector resolved.
    pub spec: TopologySpreadConstraint,
}

impl Cluster {
    /// The pod's constraints of one kind: its own, else the default ones.
    pub fn constraints(&self, pod: &Pod, when_unsatisfiable: &str) -> Vec<ResolvedConstraint> {
        let own = own_constraints(pod);
        let from_defaults = own.is_empty();
        let specs = match from_defaults {
            true => self.default_constraints(pod),
            false => own.to_vec(),
        };
        let all = (0..).zip(specs).map(|(index, spec)| ResolvedConstraint {
            index,
            from_defaults,
            spec: resolve(spec, pod),
        });
        all.filter(|c| c.spec.when_unsatisfiable == when_unsatisfiable)
            .collect()
    }

    fn default_constraints(&self, pod: &Pod) -> Vec<TopologySpreadConstraint> {
        let Some(selector) = self.deduced_selector(pod) else {
            return Vec::new();
        };
        let mut specs = match self.defaults.system {
            true => vec![system_default(HOSTNAME, 3), system_default(ZONE, 5)],
            false => self.defaults.constraints.clone(),
        };
        for spec in &mut specs {
            spec.label_selector = Some(selector.clone());
            spec.match_label_keys.clear();
        }
        specs
    }

    /// The selector of default constraints, from the services that select the pod and from its
    /// controller. Absent when these have no selector.
    fn deduced_selector(&self, pod: &Pod) -> Option<LabelSelector> {
        let here = namespace(pod.metadata.as_ref());
        let mut selector = LabelSelector::default();
        for service in &self.services {
            let pairs = service.spec.iter().flat_map(|s| s.selector.clone());
            let pairs: LabelMap = pairs.collect();
            if namespace(service.metadata.as_ref()) == here
                && !pairs.is_empty()
                && all_pairs(&pairs, &labels(pod.metadata.as_ref()))
            {
                selector.match_labels.extend(pairs);
            }
        }
        let controller = pod
            .metadata
            .iter()
            .flat_map(|m| &m.owner_references)
            .find(|owner| owner.controller == Some(true));
        if let Some(owner) = controller {
            self.add_controller(&mut selector, here, owner);
        }
        (selector != LabelSelector::default()).then_some(selector)
    }

    /// The kind and name of the controller that would adopt a pod without one: the first replica set
    /// by name whose selector matches it, else stateful set, else replication controller.
    pub fn adopter(&self, pod: &Pod) -> Option<(String, String)> {
        let here = namespace(pod.metadata.as_ref());
        let of_pod = labels(pod.metadata.as_ref());
        let matches = |selector: Option<&LabelSelector>| {
            selector.is_some_and(|it| *it != LabelSelector::default())
                && selector_matches(selector, &of_pod)
        };
        let mut found: Vec<(u8, &str, &Option<ObjectMeta>)> = Vec::new();
        for set in &self.replica_sets {
            if matches(set.spec.as_ref().and_then(|spec| spec.selector.as_ref())) {
                found.push((0, "ReplicaSet", &set.metadata));
            }
        }
        for set in &self.stateful_sets {
            if matches(set.spec.as_ref().and_then(|spec| spec.selector.as_ref())) {
                found.push((1, "StatefulSet", &set.metadata));
            }
        }
        for controller in &self.replication_controllers {
            let pairs = controller.spec.as_ref().map(|spec| &spec.selector);
            if pairs.is_some_and(|pairs| !pairs.is_empty() && all_pairs(pairs, &of_pod)) {
                found.push((2, "ReplicationController", &controller.metadata));
            }
        }
        found.retain(|(_, _, metadata)| namespace(metadata.as_ref()) == here);
        let first = found
            .into_iter()
            .min_by_key(|(order, _, metadata)| (*order, name(metadata.as_ref()).to_owned()));
        first.map(|(_, kind, metadata)| (kind.to_owned(), name(metadata.as_ref()).to_owned()))
    }

    /// Adds the selector of the pod's controller. The pairs of a replication controller override,
    /// the requirements of a replica set or stateful set are ANDed.
    fn add_controller(&self, selector: &mut LabelSelector, here: &str, owner: &OwnerReference) {
        let is_owner = |metadata: &Option<ObjectMeta>| {
            namespace(metadata.as_ref()) == here && name(metadata.as_ref()) == owner.name
        };
        match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("v1", "ReplicationController") => {
                let all = &self.replication_controllers;
                let spec = all.iter().find(|o| is_owner(&o.metadata));
                let spec = spec.and_then(|o| o.spec.clone()).unwrap_or_default();
                selector.match_labels.extend(spec.selector);
            }
            ("apps/v1", "ReplicaSet") => {
                let mut all = self.replica_sets.iter();
                let owner = all.find(|o| is_owner(&o.metadata));
                and(selector, owner.and_then(|o| o.spec.clone()?.selector));
            }
            ("apps/v1", "StatefulSet") => {
                let mut all = self.stateful_sets.iter();
                let owner = all.find(|o| is_owner(&o.metadata));
                and(selector, owner.and_then(|o| o.spec.clone()?.selector));
            }
            _ => {}
        }
    }
}

/// The pod's own constraints.
pub fn own_constraints(pod: &Pod) -> &[TopologySpreadConstraint] {
    pod.spec
        .as_ref()
        .map_or(&[], |spec| spec.topology_spread_constraints.as_slice())
}

fn system_default(topology_key: &str, max_skew: i32) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: "ScheduleAnyway".into(),
        ..TopologySpreadConstraint::default()
    }
}

/// Fills in unset fields (a soft constraint has no minDomains) and merges the
/// matchLabelKeys into the selector. An absent selector stays absent.
fn resolve(mut resolved: TopologySpreadConstraint, pod: &Pod) -> TopologySpreadConstraint {
    if resolved.when_unsatisfiable == "DoNotSchedule" {
        resolved.min_domains.get_or_insert(1);
    }
    resolved.node_affinity_policy.get_or_insert("Honor".into());
    resolved.node_taints_policy.get_or_insert("Ignore".into());
    let pod_labels = labels(pod.metadata.as_ref());
    if let Some(selector) = &mut resolved.label_selector {
        for key in &resolved.match_label_keys {
            if let Some(value) = pod_labels.get(key) {
                selector.match_expressions.push(equals(key, value));
            }
        }
    }
    resolved
}

fn equals(key: &str, value: &str) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.into(),
        operator: "In".into(),
        values: vec![value.into()],
    }
}

/// ANDs the requirements of an owner's selector; an absent selector has none.
fn and(selector: &mut LabelSelector, theirs: Option<LabelSelector>) {
    let theirs = theirs.unwrap_or_default();
    let pairs = theirs.match_labels.iter();
    let pairs = pairs.map(|(key, value)| equals(key, value));
    selector.match_expressions.extend(pairs);
    selector.match_expressions.extend(theirs.match_expressions);
}
