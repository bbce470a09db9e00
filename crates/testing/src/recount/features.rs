//! The features that a pod needs of its node, and those that the node declares.

use super::answers::Rejection;
use evenkeel::proto::v1::{Node, Pod};

/// The rejection of a node that does not declare a feature that the pod needs.
pub fn refusal(pod: &Pod, node: &Node, minor: u32) -> Option<Rejection> {
    let status = node.status.clone().unwrap_or_default();
    let is_missing = |feature: &&str| !status.declared_features.iter().any(|it| it == feature);
    let missing = needed(pod, minor).iter().any(is_missing);
    missing.then(|| Rejection::unresolvable("node(s) didn't match Pod's required features"))
}

fn needed(pod: &Pod, minor: u32) -> Vec<&'static str> {
    let spec = pod.spec.clone().unwrap_or_default();
    let (mut rules, mut options) = (0, 0);
    for container in spec.containers.iter().chain(&spec.init_containers) {
        for rule in &container.restart_policy_rules {
            rules += usize::from(rule.action == "RestartAllContainers");
        }
        options += container
            .volume_mounts
            .iter()
            .map(|it| it.bind_mount_options.len())
            .sum::<usize>();
    }
    for container in &spec.ephemeral_containers {
        let common = container
            .ephemeral_container_common
            .clone()
            .unwrap_or_default();
        let mounts = container.volume_mounts.iter().chain(&common.volume_mounts);
        options += mounts.map(|it| it.bind_mount_options.len()).sum::<usize>();
    }
    let mut needed = Vec::new();
    if minor >= 36 && rules > 0 {
        needed.push("RestartAllContainersOnContainerExits");
    }
    if minor >= 36 && spec.host_network && spec.host_users == Some(false) {
        needed.push("UserNamespacesHostNetworkSupport");
    }
    if minor >= 37 && options > 0 {
        needed.push("VolumeBindMountOptions");
    }
    needed
}
