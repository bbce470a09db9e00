//! Random valid objects from small alphabets, so that names, labels and
//! values collide all the time.

pub mod affinity;
pub mod incoming;
pub mod room;
pub mod storage;

use evenkeel::proto::v1::{
    Change, DefaultConstraints, LabelSelector, LabelSelectorRequirement, Node, NodeSpec,
    ObjectMeta, Pod, PodDisruptionBudget, PodDisruptionBudgetSpec, PodSpec, PodStatus, ReplicaSet,
    ReplicaSetSpec, ReplicationController, ReplicationControllerSpec, Service, ServiceSpec,
    StatefulSet, StatefulSetSpec, Taint, TopologySpreadConstraint,
};
use proptest::collection::{btree_map, vec};
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::build::{HOSTNAME, ZONE};
use crate::model::{Stored, delete_uid, subject};
use crate::recount::LabelMap;

const NODES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];
const PODS: [&str; 8] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];
const NAMESPACES: [&str; 4] = ["", "default", "default", "other"];
const OWNERS: [&str; 2] = ["o0", "o1"];
const UIDS: [&str; 3] = ["", "u1", "u2"];
const POD_KEYS: [&str; 3] = ["app", "tier", "hash"];
const POD_VALUES: [&str; 3] = ["a", "b", ""];
const NODE_KEYS: [&str; 5] = [ZONE, HOSTNAME, "rack", "cpu", "dedicated"];
const TAINT_KEYS: [&str; 3] = ["dedicated", "k", "node.kubernetes.io/unschedulable"];
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "NoExecute", "PreferNoSchedule"];
const KINDS: [&str; 11] = [
    "Node",
    "Pod",
    "Service",
    "ReplicaSet",
    "StatefulSet",
    "ReplicationController",
    "Namespace",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
];

fn text(words: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    select(words).prop_map(str::to_owned)
}

fn pod_labels() -> impl Strategy<Value = LabelMap> {
    btree_map(text(&POD_KEYS), text(&POD_VALUES), 0..3)
}

fn meta(names: &'static [&'static str]) -> impl Strategy<Value = ObjectMeta> {
    (text(names), text(&NAMESPACES), text(&UIDS)).prop_map(|(name, namespace, uid)| ObjectMeta {
        name,
        namespace,
        uid,
        ..ObjectMeta::default()
    })
}

/// A node: most have a zone and their own hostname.
pub fn node() -> impl Strategy<Value = Node> {
    let zone = weighted(0.85, text(&["za", "zb", "zc", ""]));
    let hostname = weighted(0.9, option::of(text(&["shared", "n0"])));
    let rack = option::of(text(&["r0", "r1"]));
    let cpu = weighted(0.6, text(&["4", "8", "many", "007"]));
    let taints = (btree_map(taint_id(), text(&["", "a"]), 0..2), any::<bool>());
    let keys = (zone, hostname, rack, cpu);
    (text(&NODES), text(&UIDS), keys, taints, room::allocatable()).prop_map(
        |(name, uid, (zone, hostname, rack, cpu), (taints, unschedulable), status)| {
            let hostname = hostname.map(|shared| shared.unwrap_or(name.clone()));
            let labels = [
                (ZONE, zone),
                (HOSTNAME, hostname),
                ("rack", rack),
                ("cpu", cpu),
            ];
            let labels = labels
                .into_iter()
                .filter_map(|(k, v)| Some((k.to_owned(), v?)));
            Node {
                metadata: Some(ObjectMeta {
                    labels: labels.collect(),
                    name,
                    uid,
                    ..ObjectMeta::default()
                }),
                spec: Some(NodeSpec {
                    unschedulable,
                    taints: taints
                        .into_iter()
                        .map(|((key, effect), value)| Taint {
                            key,
                            value,
                            effect,
                            ..Taint::default()
                        })
                        .collect(),
                }),
                status,
            }
        },
    )
}

/// The key and the effect of a taint, of which a node has each pair at most once.
fn taint_id() -> impl Strategy<Value = (String, String)> {
    (text(&TAINT_KEYS), text(&TAINT_EFFECTS))
}

/// A pod that exists: running or not, on a node that may not exist.
pub fn pod() -> impl Strategy<Value = Pod> {
    let node_name = text(&[
        "n0", "n1", "n2", "n3", "n4", "n5", "n0", "n1", "ghost", "", "", "",
    ]);
    let phase = text(&[
        "",
        "Pending",
        "Running",
        "Running",
        "Unknown",
        "Succeeded",
        "Failed",
    ]);
    let terminating = prop::bool::weighted(0.15);
    let asks = (incoming::pod(), room::status());
    (meta(&PODS), asks, node_name, phase, terminating).prop_map(
        |(metadata, (asks, status), node_name, phase, terminating)| Pod {
            metadata: Some(ObjectMeta {
                deletion_timestamp: terminating.then(pbjson_types::Timestamp::default),
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                ..asks.metadata.unwrap_or_default()
            }),
            spec: Some(PodSpec {
                node_name,
                ..asks.spec.unwrap_or_default()
            }),
            status: Some(PodStatus { phase, ..status }),
        },
    )
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let pairs = btree_map(text(&POD_KEYS), text(&POD_VALUES), 0..2);
    let requirements = vec(requirement(), 0..2);
    (pairs, requirements).prop_map(|(match_labels, match_expressions)| LabelSelector {
        match_labels,
        match_expressions,
    })
}

fn requirement() -> impl Strategy<Value = LabelSelectorRequirement> {
    let operator = text(&["In", "NotIn", "Exists", "DoesNotExist"]);
    let values = subsequence(&POD_VALUES, 1..=2);
    (text(&POD_KEYS), operator, values).prop_map(|(key, operator, values)| {
        LabelSelectorRequirement {
            values: values_for(&operator, &values),
            key,
            operator,
        }
    })
}

fn values_for(operator: &str, values: &[&str]) -> Vec<String> {
    let count = match operator {
        "In" | "NotIn" => values.len(),
        _ => 0,
    };
    values.iter().take(count).map(|v| (*v).to_owned()).collect()
}

fn constraint(defaults: bool) -> impl Strategy<Value = TopologySpreadConstraint> {
    let key = text(&[ZONE, ZONE, HOSTNAME, "rack"]);
    let action = text(&["DoNotSchedule", "ScheduleAnyway"]);
    let selector = weighted(0.95, selector()).prop_map(move |s| s.filter(|_| !defaults));
    let policy = || option::of(text(&["Honor", "Ignore"]));
    let policies = (policy(), policy());
    let match_label_keys = subsequence(&POD_KEYS, 0..=1);
    (
        1..4i32,
        key,
        action,
        selector,
        weighted(0.3, 1..5i32),
        policies,
        match_label_keys,
    )
        .prop_map(
            |(
                max_skew,
                topology_key,
                when_unsatisfiable,
                selector,
                min_domains,
                policies,
                keys,
            )| {
                let hard = when_unsatisfiable == "DoNotSchedule";
                TopologySpreadConstraint {
                    max_skew,
                    topology_key,
                    when_unsatisfiable,
                    min_domains: min_domains.filter(|_| hard),
                    node_affinity_policy: policies.0,
                    node_taints_policy: policies.1,
                    match_label_keys: match_label_keys_for(selector.as_ref(), &keys),
                    label_selector: selector,
                }
            },
        )
}

/// Returns the keys that are allowed: none without a selector, and none that the selector uses.
fn match_label_keys_for(selector: Option<&LabelSelector>, keys: &[&str]) -> Vec<String> {
    let Some(selector) = selector else {
        return Vec::new();
    };
    let unused = |key: &&&str| {
        let by_pair = selector.match_labels.contains_key(**key);
        !by_pair && selector.match_expressions.iter().all(|e| e.key != **key)
    };
    keys.iter()
        .filter(unused)
        .map(|key| (*key).to_owned())
        .collect()
}

/// Constraints of which no two have the same topology key and action.
fn constraints(defaults: bool) -> impl Strategy<Value = Vec<TopologySpreadConstraint>> {
    vec(constraint(defaults), 0..4).prop_map(|mut constraints| {
        let mut seen = Vec::new();
        constraints.retain(|c| {
            let id = (c.topology_key.clone(), c.when_unsatisfiable.clone());
            let first = !seen.contains(&id);
            seen.push(id);
            first
        });
        constraints
    })
}

/// Default constraints: none, a list or Kubernetes' own.
pub fn defaults() -> impl Strategy<Value = DefaultConstraints> {
    let list = constraints(true).prop_map(|constraints| DefaultConstraints {
        constraints,
        system: false,
    });
    let system = DefaultConstraints {
        constraints: Vec::new(),
        system: true,
    };
    prop_oneof![3 => list, 1 => Just(system)]
}

fn service() -> impl Strategy<Value = Service> {
    let pairs = btree_map(text(&POD_KEYS), text(&POD_VALUES), 0..2);
    (meta(&OWNERS), pairs).prop_map(|(metadata, selector)| Service {
        metadata: Some(metadata),
        spec: Some(ServiceSpec { selector }),
    })
}

fn owning() -> impl Strategy<Value = Change> {
    let selector = weighted(0.9, selector());
    let pairs = btree_map(text(&POD_KEYS), text(&POD_VALUES), 0..2);
    (meta(&OWNERS), selector, pairs, 0..4).prop_map(|(metadata, selector, pairs, kind)| {
        let metadata = Some(metadata);
        match kind {
            0 => ReplicaSet {
                metadata,
                spec: Some(ReplicaSetSpec { selector }),
            }
            .change(),
            1 => StatefulSet {
                metadata,
                spec: Some(StatefulSetSpec {
                    selector,
                    ..Default::default()
                }),
            }
            .change(),
            2 => PodDisruptionBudget {
                metadata,
                spec: Some(PodDisruptionBudgetSpec {
                    selector,
                    ..PodDisruptionBudgetSpec::default()
                }),
                status: None,
            }
            .change(),
            _ => ReplicationController {
                metadata,
                spec: Some(ReplicationControllerSpec { selector: pairs }),
            }
            .change(),
        }
    })
}

fn deletion() -> impl Strategy<Value = Change> {
    let uid = prop_oneof![2 => Just(String::new()), 1 => text(&UIDS)];
    let kind = prop_oneof![3 => Just("Node"), 5 => Just("Pod"), 2 => select(&KINDS[..])];
    (kind, text(&NAMESPACES), 0..8usize, uid).prop_map(|(kind, namespace, index, uid)| {
        let name = match kind {
            "Node" => NODES[index % NODES.len()],
            "Pod" => PODS[index],
            "Namespace" => ["default", "other"][index % 2],
            "PersistentVolumeClaim" => storage::CLAIMS[index % storage::CLAIMS.len()],
            "PersistentVolume" => storage::VOLUMES[index % storage::VOLUMES.len()],
            "StorageClass" => storage::CLASSES[index % storage::CLASSES.len()],
            _ => OWNERS[index % OWNERS.len()],
        };
        delete_uid(kind, &namespace, name, &uid)
    })
}

/// Any one change.
pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => node().prop_map(Stored::change),
        9 => pod().prop_map(Stored::change),
        1 => service().prop_map(Stored::change),
        2 => owning(),
        1 => affinity::namespace().prop_map(Stored::change),
        3 => storage::change(),
        4 => deletion(),
    ]
}

/// Changes of which no two are about the same object.
pub fn batch(most: usize) -> impl Strategy<Value = Vec<Change>> {
    vec(change(), 0..=most).prop_map(|mut changes| {
        let mut seen = Vec::new();
        changes.retain(|change| {
            let subject = subject(change);
            let first = !seen.contains(&subject);
            seen.push(subject);
            first
        });
        changes
    })
}
