//! The room of nodes and the requests of pods, of few amounts, so that pods often just fit.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Container, ContainerPort, ContainerRestartRule, ContainerStatus, NodeStatus, PodCondition,
    PodSchedulingGate, PodSpec, PodStatus, Quantity, ResourceRequirements, VolumeMount,
};
use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{NODES, text};

const RESOURCES: [&str; 6] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "a.b/gpu",
    "hugepages-2Mi",
    "things",
];
const AMOUNTS: [&str; 10] = [
    "0", "1", "2", "500m", "0.1", "1500m", ".25", "1e0", "2500u", "1Ki",
];

fn amounts(most: usize) -> impl Strategy<Value = BTreeMap<String, Quantity>> {
    let amount = text(&AMOUNTS).prop_map(|string| Quantity { string });
    btree_map(text(&RESOURCES), amount, 0..=most)
}

fn requirements() -> impl Strategy<Value = Option<ResourceRequirements>> {
    weighted(
        0.7,
        amounts(3).prop_map(|requests| ResourceRequirements { requests }),
    )
}

/// Names of features that nodes declare, one of which no decision knows.
const FEATURES: [&str; 4] = [
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
    "Unknown",
];

/// The status of a node. Half of the nodes say what is allocatable, and a third declare features.
pub fn allocatable() -> impl Strategy<Value = Option<NodeStatus>> {
    let amount = text(&["1", "2", "4", "3500m", "1Ki", "0"]);
    let amount = amount.prop_map(|string| Quantity { string });
    let amounts = btree_map(text(&RESOURCES), amount, 2..6);
    let pods = weighted(0.9, text(&["3", "5", "9"]));
    let amounts = (amounts, pods).prop_map(|(mut allocatable, pods)| {
        allocatable.extend(pods.map(|string| ("pods".to_owned(), Quantity { string })));
        allocatable
    });
    let features = weighted(0.3, subsequence(&FEATURES[..], 1..=4));
    let status = (weighted(0.5, amounts), features).prop_map(|(allocatable, features)| {
        let features = features.unwrap_or_default();
        NodeStatus {
            allocatable: allocatable.unwrap_or_default(),
            declared_features: features.into_iter().map(str::to_owned).collect(),
        }
    });
    status.prop_map(|status| (status != NodeStatus::default()).then_some(status))
}

fn container() -> impl Strategy<Value = Container> {
    let port = (
        0..3i32,
        text(&["", "TCP", "UDP"]),
        text(&["", "0.0.0.0", "10.0.0.1", "::"]),
    );
    let port = port.prop_map(|(host_port, protocol, host_ip)| ContainerPort {
        host_port,
        protocol,
        host_ip,
    });
    let ports = prop_oneof![2 => Just(Vec::new()), 1 => vec(port, 1..3)];
    let restart_policy = text(&["", "Always", "Never"]);
    (text(&["a", "b"]), ports, requirements(), restart_policy).prop_map(
        |(name, ports, resources, restart_policy)| Container {
            name,
            ports,
            resources,
            restart_policy,
            ..Container::default()
        },
    )
}

/// A container of an incoming pod, which may need a feature of its node.
fn incoming_container() -> impl Strategy<Value = Container> {
    let action = text(&["Restart", "RestartAllContainers"]);
    let rules = vec(
        action.prop_map(|action| ContainerRestartRule { action }),
        1..3,
    );
    let options = vec(text(&["ro", "noexec"]), 0..2);
    let mount = options.prop_map(|bind_mount_options| VolumeMount { bind_mount_options });
    let more = (weighted(0.1, rules), weighted(0.1, vec(mount, 1..3)));
    (container(), more).prop_map(|(container, (rules, mounts))| Container {
        restart_policy_rules: rules.unwrap_or_default(),
        volume_mounts: mounts.unwrap_or_default(),
        ..container
    })
}

/// The parts of a spec that say what a pod requests and which node it chooses itself. Half of the
/// pods request nothing.
pub fn requests() -> impl Strategy<Value = PodSpec> {
    let containers = (
        vec(incoming_container(), 0..3),
        vec(incoming_container(), 0..3),
    );
    let host = (any::<bool>(), weighted(0.3, any::<bool>()));
    let whole = (weighted(0.2, requirements()), weighted(0.2, amounts(2)));
    let gate = text(&["a", "b"]).prop_map(|name| PodSchedulingGate { name });
    let gates = prop_oneof![15 => Just(Vec::new()), 1 => vec(gate, 1..3)];
    let own = (weighted(0.1, text(&NODES)), gates);
    let some = (containers, whole, own, host).prop_map(|(containers, whole, own, host)| PodSpec {
        host_network: host.0,
        host_users: host.1,
        containers: containers.0,
        init_containers: containers.1,
        resources: whole.0.flatten(),
        overhead: whole.1.unwrap_or_default(),
        node_name: own.0.unwrap_or_default(),
        scheduling_gates: own.1,
        ..PodSpec::default()
    });
    let spec = prop_oneof![Just(PodSpec::default()), some];
    let priority = weighted(0.5, select(&[-1, 0, 5][..]));
    (spec, priority).prop_map(|(spec, priority)| PodSpec { priority, ..spec })
}

/// The status of a pod: what its node says of the containers, and the nominated node.
pub fn status() -> impl Strategy<Value = PodStatus> {
    let entry = (text(&["a", "b"]), amounts(2), requirements());
    let entry = entry.prop_map(|(name, allocated_resources, resources)| ContainerStatus {
        name,
        allocated_resources,
        resources,
    });
    let condition = (
        text(&["PodResizePending", "Ready"]),
        text(&["Infeasible", "Deferred"]),
    );
    let condition = condition.prop_map(|(r#type, reason)| PodCondition { r#type, reason });
    let whole = (weighted(0.4, amounts(2)), requirements());
    let some = (vec(entry, 0..3), vec(condition, 0..=1), whole);
    let some = some.prop_map(|(mut entries, conditions, whole)| PodStatus {
        init_container_statuses: entries.split_off(entries.len().min(1)),
        container_statuses: entries,
        conditions,
        allocated_resources: whole.0.unwrap_or_default(),
        resources: whole.1,
        ..PodStatus::default()
    });
    let status = prop_oneof![3 => Just(PodStatus::default()), 1 => some];
    let nominated = weighted(0.3, text(&["n0", "n1", "n2", "n3", "n0", "n1", "ghost"]));
    (status, nominated).prop_map(|(status, nominated)| PodStatus {
        nominated_node_name: nominated.unwrap_or_default(),
        ..status
    })
}
