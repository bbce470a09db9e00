//! KubeFleet's objects: clusters, and placements with their policy.

use serde::Deserialize;
use serde_json::{Value, json};

use super::admission::NotCounted;
use super::item::{Item, describe, text};
use super::source::ManifestError;
use evenkeel_core::proto::v1::{
    LabelSelector, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, TopologySpreadConstraint,
};

/// The label with the name of the placement of an object on a cluster. A pod with this label means
/// that its cluster holds the placement.
const PLACEMENT_LABEL: &str = "kubernetes-fleet.io/parent-CRP";

/// The way in which clusters are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementPolicy {
    /// All clusters that fit.
    PickAll,
    /// These clusters, by name.
    PickFixed(Vec<String>),
    /// A number of clusters, by preference.
    PickN {
        /// The wanted number of clusters in total.
        clusters: i32,
        /// The preferences, each with its weight.
        preferences: Vec<Preference>,
    },
}

/// A preference for clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Preference {
    /// The weight of a cluster that matches.
    pub weight: i64,
    /// The term that a cluster must match; `None` matches all.
    pub term: Option<NodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
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
    cluster_selector_terms: Vec<ClusterTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Preferred {
    weight: i64,
    preference: ClusterTerm,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClusterTerm {
    label_selector: LabelSelector,
    property_selector: Option<Value>,
    property_sorter: Option<Value>,
}

/// Returns whether an object is a cluster of a fleet.
pub(super) fn is_cluster(kind: &str, version: &str) -> bool {
    kind == "MemberCluster" && version.starts_with("cluster.kubernetes-fleet.io/")
}

/// Returns whether an object is a binding, which says that a cluster holds a placement.
pub(super) fn is_binding(kind: &str, version: &str) -> bool {
    matches!(kind, "ClusterResourceBinding" | "ResourceBinding")
        && version.starts_with("placement.kubernetes-fleet.io/")
}

/// Returns whether a kind has a placement policy.
pub(super) fn is_placement(kind: &str) -> bool {
    matches!(kind, "ClusterResourcePlacement" | "ResourcePlacement")
}

/// A cluster as a node: with its name, labels and taints.
pub(super) fn cluster(mut item: Item) -> Result<Node, ManifestError> {
    let taints = item.value.pointer("/spec/taints").cloned();
    item.value["spec"] = json!({ "taints": taints.unwrap_or_else(|| json!([])) });
    item.decode()
}

/// A binding as a pod on its cluster, with the label of its placement. `None` if the cluster gives
/// up the placement, because KubeFleet does not count such a binding.
pub(super) fn binding(item: Item) -> Result<Option<Pod>, ManifestError> {
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
    Item { value, origin }.decode().map(Some)
}

/// A placement as a pod with its constraints, and its policy.
pub(super) fn placement(item: Item) -> Result<(Pod, PlacementPolicy), ManifestError> {
    let place = item.origin.describe();
    let object = describe(&item.value);
    let fault = |field: String, message: &str| ManifestError::Field {
        place: place.clone(),
        object: object.clone(),
        field: format!("spec.policy.{field}"),
        message: message.to_owned(),
    };
    let policy = item.value.pointer("/spec/policy").cloned();
    let policy = policy.unwrap_or_else(|| json!({}));
    let mut fields: PolicyFields = serde_path_to_error::deserialize(policy)
        .map_err(|error| fault(error.path().to_string(), &error.inner().to_string()))?;
    let affinity = std::mem::take(&mut fields.affinity.cluster_affinity);
    let terms = required(&affinity, &fault)?;
    let policy = policy_of(&fields, preferences(&affinity, &fault)?, &fault)?;
    Ok((pod(&item, fields, terms)?, policy))
}

/// What a placement requires or prefers of properties of clusters, which are not known here.
pub(super) fn not_counted(placement: &Value) -> Vec<NotCounted> {
    let affinity = &placement["spec"]["policy"]["affinity"]["clusterAffinity"];
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
    let any = |list: Option<&Vec<Value>>, pointer: &str| {
        list.is_some_and(|list| list.iter().any(|term| term.pointer(pointer).is_some()))
    };
    let unknown = "properties of clusters are not known here";
    let mut missing = Vec::new();
    if any(
        required["clusterSelectorTerms"].as_array(),
        "/propertySelector",
    ) {
        missing.push(NotCounted {
            field: "spec.policy.affinity.clusterAffinity (propertySelector)",
            words: Some(format!(
                "{unknown}: a cluster that is named may not meet the required propertySelector"
            )),
        });
    }
    if any(preferred, "/preference/propertySorter") {
        missing.push(NotCounted {
            field: "spec.policy.affinity.clusterAffinity (propertySorter)",
            words: Some(format!(
                "{unknown}: a preferred propertySorter excludes no cluster, but may rank them otherwise"
            )),
        });
    }
    missing
}

/// The required terms, of which a cluster must match at least one.
fn required(
    affinity: &ClusterAffinity,
    fault: &impl Fn(String, &str) -> ManifestError,
) -> Result<Vec<Option<NodeSelectorTerm>>, ManifestError> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let required = &affinity.required_during_scheduling_ignored_during_execution;
    let terms = required.cluster_selector_terms.iter().enumerate();
    let terms = terms.map(|(i, term)| {
        if term.property_sorter.is_some() {
            let field = format!("affinity.clusterAffinity.{REQUIRED}.clusterSelectorTerms[{i}]");
            let why = "KubeFleet sorts clusters only by preferred terms";
            return Err(fault(format!("{field}.propertySorter"), why));
        }
        Ok(node_term(term))
    });
    terms.collect()
}

fn preferences(
    affinity: &ClusterAffinity,
    fault: &impl Fn(String, &str) -> ManifestError,
) -> Result<Vec<Preference>, ManifestError> {
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let preferred = &affinity.preferred_during_scheduling_ignored_during_execution;
    // How a sorter ranks clusters is unknown here.
    let preferred = preferred.iter().enumerate();
    let ranked = preferred.filter(|(_, one)| one.preference.property_sorter.is_none());
    let preferences = ranked.map(|(i, one)| {
        if one.preference.property_selector.is_some() {
            let field = format!("affinity.clusterAffinity.{PREFERRED}[{i}].preference");
            let why = "KubeFleet selects by properties only in required terms";
            return Err(fault(format!("{field}.propertySelector"), why));
        }
        Ok(Preference {
            weight: one.weight,
            term: node_term(&one.preference),
        })
    });
    preferences.collect()
}

fn policy_of(
    fields: &PolicyFields,
    preferences: Vec<Preference>,
    fault: &impl Fn(String, &str) -> ManifestError,
) -> Result<PlacementPolicy, ManifestError> {
    let wrong = |field: &str, message| Err(fault(field.to_owned(), message));
    match (&*fields.placement_type, fields.number_of_clusters) {
        ("" | "PickAll", _) => Ok(PlacementPolicy::PickAll),
        ("PickFixed", _) => Ok(PlacementPolicy::PickFixed(fields.cluster_names.clone())),
        ("PickN", Some(clusters)) => Ok(PlacementPolicy::PickN {
            clusters,
            preferences,
        }),
        ("PickN", None) => wrong("numberOfClusters", "is required with PickN"),
        _ => wrong("placementType", "must be PickAll, PickN or PickFixed"),
    }
}

/// The placement as a pod.
fn pod(
    item: &Item,
    fields: PolicyFields,
    terms: Vec<Option<NodeSelectorTerm>>,
) -> Result<Pod, ManifestError> {
    let metadata = &item.value["metadata"];
    let name = text(metadata, "name");
    let mut spec = json!({ "tolerations": fields.tolerations });
    // If one term matches every cluster, the other terms are irrelevant.
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
    let origin = item.origin.clone();
    let mut pod: Pod = Item { value, origin }.decode()?;
    let spec = pod.spec.get_or_insert_default();
    spec.topology_spread_constraints = fields.topology_spread_constraints;
    Ok(pod)
}

/// A term of cluster affinity as a term of node affinity; `None` matches all.
fn node_term(term: &ClusterTerm) -> Option<NodeSelectorTerm> {
    let LabelSelector {
        match_labels,
        match_expressions,
    } = term.label_selector.clone();
    let mut labels: Vec<(String, String)> = match_labels.into_iter().collect();
    labels.sort_unstable();
    let labels = labels
        .into_iter()
        .map(|(key, value)| NodeSelectorRequirement {
            key,
            operator: "In".to_owned(),
            values: vec![value],
        });
    let others = match_expressions
        .into_iter()
        .map(|it| NodeSelectorRequirement {
            key: it.key,
            operator: it.operator,
            values: it.values,
        });
    let match_expressions: Vec<_> = labels.chain(others).collect();
    let match_fields = Vec::new();
    (!match_expressions.is_empty()).then_some(NodeSelectorTerm {
        match_expressions,
        match_fields,
    })
}
