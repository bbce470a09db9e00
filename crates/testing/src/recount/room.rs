//! Room: the requests of pods and the resources of nodes, read again from the wire objects.

use std::collections::BTreeMap;

use super::answers::Rejection;
use super::cluster::Cluster;
use super::requests::{is_sidecar, quantities, requests, rounded};
use super::rules::name;
use evenkeel::proto::v1::{Code, ContainerPort, Node, Pod, Quantity};

const NO_PORTS: &str = "node(s) didn't have free ports for the requested pod ports";

/// The scheduling gates that a pod waits for.
pub fn gates(pod: &Pod) -> Vec<&str> {
    let gates = pod.spec.iter().flat_map(|spec| &spec.scheduling_gates);
    gates.map(|gate| &*gate.name).collect()
}

/// Returns whether a pod names another node than this one.
pub fn names_another(pod: &Pod, node: &Node) -> bool {
    let named = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    !named.is_empty() && named != name(node.metadata.as_ref())
}

/// The rejection of a node that has no room for a pod, with other pods nominated to it.
pub fn refusal(cluster: &Cluster, pod: &Pod, node: &Node, coming: &[&Pod]) -> Option<Rejection> {
    let knows = |node: &Node| !allocatable(node).is_empty();
    if !cluster.nodes.iter().any(knows) {
        return None;
    }
    let taken = |pod: &&Pod| node_taken(pod) == Some(name(node.metadata.as_ref()));
    let there = cluster.pods.iter().filter(taken);
    let there: Vec<&Pod> = there.chain(coming.iter().copied()).collect();
    let taken: Vec<&ContainerPort> = there.iter().flat_map(|pod| ports(pod)).collect();
    let is_taken = |port: &ContainerPort| taken.iter().any(|other| clash(port, other));
    if ports(pod).into_iter().any(is_taken) {
        return Some(Rejection::resolvable(NO_PORTS));
    }
    let has = rounded(&quantities(allocatable(node)));
    let mut used: BTreeMap<String, i128> = BTreeMap::new();
    for pod in &there {
        for (resource, amount) in requests(pod, cluster.minor()) {
            *used.entry(resource).or_default() += amount;
        }
    }
    let at_most = |name: &str| has.get(name).copied().unwrap_or(0);
    let (mut reasons, mut code) = (Vec::new(), Code::Unschedulable);
    if there.len() as i128 + 1 > at_most("pods") {
        reasons.push("Too many pods".to_owned());
    }
    let asked = Pod {
        status: None,
        ..pod.clone()
    };
    let asked = requests(&asked, cluster.minor());
    let common = ["cpu", "memory", "ephemeral-storage"];
    let others = asked
        .keys()
        .map(String::as_str)
        .filter(|name| !common.contains(name));
    for resource in common.into_iter().chain(others) {
        let asked = asked.get(resource).copied().unwrap_or(0);
        let used = used.get(resource).copied().unwrap_or(0);
        if asked > 0 && asked > at_most(resource) - used {
            reasons.push(format!("Insufficient {resource}"));
            if asked > at_most(resource) {
                code = Code::UnschedulableAndUnresolvable;
            }
        }
    }
    (!reasons.is_empty()).then(|| Rejection::by_node(code, reasons))
}

/// The name of the node that a pod takes room on, even while it terminates.
pub fn node_taken(pod: &Pod) -> Option<&str> {
    let phase = pod.status.as_ref().map_or("", |status| &status.phase);
    let on = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    (!on.is_empty() && !["Succeeded", "Failed"].contains(&phase)).then_some(on)
}

fn allocatable(node: &Node) -> &BTreeMap<String, Quantity> {
    static NONE: BTreeMap<String, Quantity> = BTreeMap::new();
    node.status
        .as_ref()
        .map_or(&NONE, |status| &status.allocatable)
}

/// The ports of the node that containers and sidecars take.
pub fn ports(pod: &Pod) -> Vec<&ContainerPort> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let sidecars = spec.init_containers.iter().filter(|c| is_sidecar(c));
    let ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|c| &c.ports);
    ports.filter(|port| port.host_port > 0).collect()
}

fn clash(a: &ContainerPort, b: &ContainerPort) -> bool {
    let or = |given: &str, unset: &str| match given {
        "" => unset.to_owned(),
        given => given.to_owned(),
    };
    let protocol = |port: &ContainerPort| or(&port.protocol, "TCP");
    let address = |port: &ContainerPort| or(&port.host_ip, "0.0.0.0");
    let (here, there) = (address(a), address(b));
    a.host_port == b.host_port
        && protocol(a) == protocol(b)
        && (here == there || here == "0.0.0.0" || there == "0.0.0.0")
}
