//! KubeFleet's objects: clusters, and placements with their policy.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::document::Item;
use super::object::{describe, text, typed};
use super::{Error, Source};
use crate::proto::v1::{Node, NodeSelectorTerm, Pod, TopologySpreadConstraint};

/// The label that says which placement an object of a cluster is of. Pods with
/// it stand for the clusters that hold the placement.
const PLACEMENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";

/// API group of KubeFleet's clusters.
const CLUSTER_GROUP: &str = "cluster.kubernetes-fleet.io/";

/// API group of what says which cluster holds a placement.
const BINDING_GROUP: &str = "placement.kubernetes-fleet.io/";

/// Kinds that say which cluster holds a placement.
const BINDING_KINDS: [&str; 2] = ["ClusterResourceBinding", "ResourceBinding"];

/// Kinds with a placement policy.
const PLACEMENT_KINDS: [&str; 2] = ["ClusterResourcePlacement", "ResourcePlacement"];

/// How clusters are chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Policy {
    /// All that fit.
    PickAll,
    /// These, by name.
    PickFixed(Vec<String>),
    /// So many, preferring some.
    PickN {
        /// The wanted total.
        clusters: i32,
        /// What is preferred.
        preferences: Vec<Preference>,
    },
}

/// A preference for clusters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Preference {
    /// What a cluster that matches is worth.
    pub(crate) weight: i64,
    /// What it has to match; `None` matches all.
    pub(crate) term: Option<NodeSelectorTerm>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct PolicyFields {
    placement_type: String,
    cluster_names: Vec<String>,
    number_of_clusters: Option<i32>,
    affinity: AffinityFields,
    topology_spread_constraints: Vec<TopologySpreadConstraint>,
    tolerations: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityFields {
    cluster_affinity: ClusterAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClusterAffinity {
    required_during_scheduling_ignored_during_execution: Required,
    preferred_during_scheduling_ignored_during_execution: Vec<Preferred>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Required {
    cluster_selector_terms: Vec<Term>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Preferred {
    weight: i64,
    preference: Term,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    label_selector: Option<Value>,
    property_selector: Option<Value>,
    property_sorter: Option<Value>,
}

/// Whether an object is a cluster of a fleet.
pub(super) fn is_cluster(kind: &str, version: &str) -> bool {
    kind == "MemberCluster" && version.starts_with(CLUSTER_GROUP)
}

/// Whether an object says that a cluster holds a placement.
pub(super) fn is_binding(kind: &str, version: &str) -> bool {
    BINDING_KINDS.contains(&kind) && version.starts_with(BINDING_GROUP)
}

/// Whether a kind has a placement policy.
pub(super) fn is_placement(kind: &str) -> bool {
    PLACEMENT_KINDS.contains(&kind)
}

/// A cluster as a node: with its name, labels and taints.
pub(super) fn cluster(mut item: Item, source: &Source) -> Result<Node, Error> {
    let taints = item.value.pointer("/spec/taints").cloned();
    item.value["spec"] = json!({ "taints": taints.unwrap_or_else(|| json!([])) });
    typed(item, source)
}

/// A binding as a pod on its cluster, with the label of its placement. `None`
/// where the cluster gives the placement up: KubeFleet does not count it then.
pub(super) fn binding(item: Item, source: &Source) -> Result<Option<Pod>, Error> {
    let at = |pointer: &str| item.value.pointer(pointer).cloned().unwrap_or_default();
    if at("/spec/state") == "Unscheduled" || !at("/metadata/deletionTimestamp").is_null() {
        return Ok(None);
    }
    let value = json!({
        "kind": at("/kind"),
        "metadata": {
            "name": at("/metadata/name"),
            "namespace": text(&at("/metadata"), "namespace"),
            "labels": { PLACEMENT_LABEL: at("/metadata/labels")[PLACEMENT_LABEL] },
        },
        "spec": { "nodeName": text(&at("/spec"), "targetCluster") },
    });
    let origin = item.origin;
    typed(Item { value, origin }, source).map(Some)
}

/// A placement as a pod with its constraints, and its policy.
pub(super) fn placement(item: Item, source: &Source) -> Result<(Pod, Policy), Error> {
    let place = item.origin.describe(source);
    let object = describe(&item.value);
    let fault = |field: String, message: &str| Error::Field {
        place: place.clone(),
        object: object.clone(),
        field,
        message: message.to_owned(),
    };
    let policy = item.value.pointer("/spec/policy").cloned();
    let policy = policy.unwrap_or_else(|| json!({}));
    let fields: PolicyFields = serde_path_to_error::deserialize(policy).map_err(|error| {
        let field = format!("spec.policy.{}", error.path());
        fault(field, &error.inner().to_string())
    })?;
    let affinity = &fields.affinity.cluster_affinity;
    let at = "spec.policy.affinity.clusterAffinity";
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let mut terms = Vec::new();
    for (i, term) in required.cluster_selector_terms.iter().enumerate() {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let field = format!("{at}.{required}.clusterSelectorTerms[{i}]");
        terms.push(node_term(term, &field, &fault)?);
    }
    let mut preferences = Vec::new();
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    for (i, one) in preferred.iter().enumerate() {
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let field = format!("{at}.{preferred}[{i}].preference");
        preferences.push(Preference {
            weight: one.weight,
            term: node_term(&one.preference, &field, &fault)?,
        });
    }
    let policy = match (&*fields.placement_type, fields.number_of_clusters) {
        ("" | "PickAll", _) => Policy::PickAll,
        ("PickFixed", _) => Policy::PickFixed(fields.cluster_names.clone()),
        ("PickN", Some(clusters)) => Policy::PickN {
            clusters,
            preferences,
        },
        ("PickN", None) => {
            let field = "spec.policy.numberOfClusters".to_owned();
            return Err(fault(field, "is required with PickN"));
        }
        _ => {
            let field = "spec.policy.placementType".to_owned();
            return Err(fault(field, "must be PickAll, PickN or PickFixed"));
        }
    };
    Ok((pod(&item, &fields, terms, source)?, policy))
}

/// The placement as a pod.
fn pod(
    item: &Item,
    fields: &PolicyFields,
    terms: Vec<Option<NodeSelectorTerm>>,
    source: &Source,
) -> Result<Pod, Error> {
    let metadata = item.value.get("metadata").unwrap_or(&Value::Null);
    let name = text(metadata, "name");
    let mut spec = json!({ "tolerations": fields.tolerations });
    // One term that matches all makes the others moot.
    let terms: Option<Vec<NodeSelectorTerm>> = terms.into_iter().collect();
    if let Some(terms) = terms.filter(|terms| !terms.is_empty()) {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        spec["affinity"] = json!({ "nodeAffinity": { required: { "nodeSelectorTerms": terms } } });
    }
    let value = json!({
        "kind": text(&item.value, "kind"),
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "labels": { PLACEMENT_LABEL: name },
        },
        "spec": spec,
    });
    let mut pod: Pod = typed(
        Item {
            value,
            origin: item.origin,
        },
        source,
    )?;
    let spec = pod.spec.get_or_insert_default();
    spec.topology_spread_constraints = fields.topology_spread_constraints.clone();
    Ok(pod)
}

/// A term of cluster affinity as one of node affinity; `None` matches all.
fn node_term(
    term: &Term,
    field: &str,
    fault: &impl Fn(String, &str) -> Error,
) -> Result<Option<NodeSelectorTerm>, Error> {
    for (name, property) in [
        ("propertySelector", &term.property_selector),
        ("propertySorter", &term.property_sorter),
    ] {
        if property.is_some() {
            let field = format!("{field}.{name}");
            let why = "cluster properties are not known here; only labels can be selected by";
            return Err(fault(field, why));
        }
    }
    let Some(selector) = &term.label_selector else {
        return Ok(None);
    };
    let none = Map::new();
    let pairs = selector.get("matchLabels").and_then(Value::as_object);
    let mut expressions: Vec<Value> = pairs
        .unwrap_or(&none)
        .iter()
        .map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] }))
        .collect();
    let more = selector.get("matchExpressions").and_then(Value::as_array);
    expressions.extend(more.into_iter().flatten().cloned());
    if expressions.is_empty() {
        return Ok(None);
    }
    let term = json!({ "matchExpressions": expressions });
    let term = serde_path_to_error::deserialize(term)
        .map_err(|error| fault(format!("{field}.labelSelector"), &error.inner().to_string()))?;
    Ok(Some(term))
}
