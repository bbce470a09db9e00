//! Pods that a decision is about.

use evenkeel::proto::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta,
    OwnerReference, Pod, PodSpec, Toleration,
};
use proptest::collection::{btree_map, vec};
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::{
    NODE_KEYS, NODES, OWNERS, affinity, constraints, meta, pod_labels, room, storage, text,
    values_for,
};
use crate::build::ZONE;
use crate::recount::LabelMap;

/// A pod that a decision is about.
pub fn pod() -> impl Strategy<Value = Pod> {
    let constraints = prop_oneof![3 => constraints(false), 1 => Just(Vec::new())];
    let terms = weighted(0.4, vec(node_term(), 1..3));
    let selector = btree_map(text(&[ZONE, "rack"]), text(&["za", "r0", ""]), 0..=1);
    let selector = prop_oneof![4 => Just(LabelMap::new()), 1 => selector];
    let meta = (meta(&["", "p0", "new"]), pod_labels(), vec(owner(), 0..3));
    let pods = (affinity::rules(0.1), affinity::rules(0.25));
    let place = (terms, selector, vec(toleration(), 0..3), pods);
    let asks = (room::requests(), storage::volumes());
    (meta, constraints, place, asks).prop_map(
        |((metadata, labels, owner_references), constraints, place, (requests, volumes))| {
            let (terms, node_selector, tolerations, (pod_affinity, pod_anti_affinity)) = place;
            let required = terms.map(|node_selector_terms| NodeSelector {
                node_selector_terms,
            });
            let affinity = Affinity {
                node_affinity: required.map(|required| NodeAffinity {
                    required_during_scheduling_ignored_during_execution: Some(required),
                    ..NodeAffinity::default()
                }),
                pod_affinity,
                pod_anti_affinity,
            };
            Pod {
                metadata: Some(ObjectMeta {
                    labels,
                    owner_references,
                    ..metadata
                }),
                spec: Some(PodSpec {
                    node_selector,
                    volumes,
                    tolerations,
                    topology_spread_constraints: constraints,
                    affinity: (affinity != Affinity::default()).then_some(affinity),
                    ..requests
                }),
                status: None,
            }
        },
    )
}

fn owner() -> impl Strategy<Value = OwnerReference> {
    let kind = text(&[
        "ReplicaSet",
        "StatefulSet",
        "ReplicationController",
        "DaemonSet",
    ]);
    let api_version = text(&["apps/v1", "apps/v1", "v1", "extensions/v1beta1"]);
    let controller = option::of(prop::bool::weighted(0.8));
    (kind, api_version, text(&OWNERS), controller).prop_map(
        |(kind, api_version, name, controller)| OwnerReference {
            kind,
            name,
            uid: "some".into(),
            api_version,
            controller,
        },
    )
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let key = text(&["", "dedicated", "k", "node.kubernetes.io/unschedulable"]);
    let operator = text(&["", "Equal", "Exists"]);
    let effect = text(&["", "NoSchedule", "NoExecute", "PreferNoSchedule"]);
    (key, operator, text(&["", "a"]), effect).prop_map(|(key, operator, value, effect)| {
        let operator = if key.is_empty() {
            "Exists".into()
        } else {
            operator
        };
        Toleration {
            value: if operator == "Exists" {
                String::new()
            } else {
                value
            },
            key,
            operator,
            effect,
            toleration_seconds: None,
        }
    })
}

/// A requirement on nodes. Comparisons are with `cpu`, the only label that is a number.
fn node_requirement() -> impl Strategy<Value = NodeSelectorRequirement> {
    let operator = text(&["In", "NotIn", "Exists", "DoesNotExist"]);
    let values = subsequence(&["za", "zb", "r0", "n0", "4", "x y"], 1..=3);
    let set = (text(&NODE_KEYS), operator, values);
    let set = set.prop_map(|(key, operator, values)| NodeSelectorRequirement {
        values: values_for(&operator, &values),
        key,
        operator,
    });
    let comparison = (text(&["Gt", "Lt"]), text(&["4", "7", "8", "za"]));
    let comparison = comparison.prop_map(|(operator, bound)| NodeSelectorRequirement {
        key: "cpu".into(),
        operator,
        values: vec![bound],
    });
    prop_oneof![2 => set, 1 => comparison]
}

fn node_term() -> impl Strategy<Value = NodeSelectorTerm> {
    let field = (text(&["In", "NotIn"]), text(&NODES));
    let fields = vec(field, 0..2).prop_map(|fields| {
        let fields = fields
            .into_iter()
            .map(|(operator, node)| NodeSelectorRequirement {
                key: "metadata.name".into(),
                operator,
                values: vec![node],
            });
        fields.collect()
    });
    (vec(node_requirement(), 0..3), fields).prop_map(|(match_expressions, match_fields)| {
        NodeSelectorTerm {
            match_expressions,
            match_fields,
        }
    })
}
