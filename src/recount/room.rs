//! Is there room? What pods request, and what nodes have, each read afresh from
//! the wire objects.

use std::collections::BTreeMap;

use super::answers::Rejection;
use super::cluster::Cluster;
use super::rules::name;
use crate::proto::v1::{
    Code, Container, ContainerPort, ContainerStatus, Node, Pod, PodStatus, Quantity,
    ResourceRequirements,
};

const NO_PORTS: &str = "node(s) didn't have free ports for the requested pod ports";

/// Amounts by name of the resource, in billionths of a unit.
type AmountsByName = BTreeMap<String, i128>;

/// The scheduling gates that a pod waits for.
pub fn gates(pod: &Pod) -> Vec<&str> {
    let gates = pod.spec.iter().flat_map(|spec| &spec.scheduling_gates);
    gates.map(|gate| &*gate.name).collect()
}

/// Whether a pod names a node other than this one.
pub fn names_another(pod: &Pod, node: &Node) -> bool {
    let named = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    !named.is_empty() && named != name(node.metadata.as_ref())
}

/// Why a node has no room for a pod, while others are on their way to it.
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
        let reasons = vec![NO_PORTS.to_owned()];
        return Some(Rejection::by_node(Code::Unschedulable, reasons));
    }
    let has = rounded(&quantities(allocatable(node)));
    let mut used: BTreeMap<String, i128> = BTreeMap::new();
    for pod in &there {
        for (resource, amount) in requests(pod) {
            *used.entry(resource).or_default() += amount;
        }
    }
    let at_most = |name: &str| has.get(name).copied().unwrap_or(0);
    let (mut reasons, mut code) = (Vec::new(), Code::Unschedulable);
    if there.len() as i128 + 1 > at_most("pods") {
        reasons.push("Too many pods".to_owned());
    }
    let asked = requests(&Pod {
        status: None,
        ..pod.clone()
    });
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

/// What a pod requests of its node, rounded up: thousandths of a processor, units
/// of everything else.
pub fn requests(pod: &Pod) -> BTreeMap<String, i128> {
    let Some(spec) = &pod.spec else {
        return BTreeMap::new();
    };
    let status = pod.status.as_ref();
    let mut total = AmountsByName::new();
    for container in &spec.containers {
        add(&mut total, &resized(container, status));
    }
    for container in spec.init_containers.iter().filter(|c| is_sidecar(c)) {
        add(&mut total, &resized(container, status));
    }
    for (at, container) in spec.init_containers.iter().enumerate() {
        if !is_sidecar(container) {
            let mut start = of(container.resources.as_ref());
            for before in spec.init_containers[..at].iter().filter(|c| is_sidecar(c)) {
                add(&mut start, &resized(before, status));
            }
            total = larger(&total, &start);
        }
    }
    for (resource, amount) in of(spec.resources.as_ref()) {
        if ["cpu", "memory"].contains(&&*resource) || resource.starts_with("hugepages-") {
            total.insert(resource, amount);
        }
    }
    add(&mut total, &quantities(&spec.overhead));
    total.retain(|resource, _| is_looked_at(resource));
    rounded(&total)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

/// What a running container requests while it may be resized.
fn resized(container: &Container, status: Option<&PodStatus>) -> AmountsByName {
    let spec = of(container.resources.as_ref());
    let Some(status) = status else { return spec };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let told = |entry: &&ContainerStatus| entry.name == container.name && entry.resources.is_some();
    let Some(entry) = lists.into_iter().flatten().find(told) else {
        return spec;
    };
    let there = larger(
        &of(entry.resources.as_ref()),
        &quantities(&entry.allocated_resources),
    );
    let mut conditions = status.conditions.iter();
    match conditions.any(|c| c.r#type == "PodResizePending" && c.reason == "Infeasible") {
        true => there,
        false => larger(&there, &spec),
    }
}

fn of(resources: Option<&ResourceRequirements>) -> AmountsByName {
    resources
        .map(|resources| quantities(&resources.requests))
        .unwrap_or_default()
}

fn quantities(wire: &BTreeMap<String, Quantity>) -> AmountsByName {
    let read =
        |(name, quantity): (&String, &Quantity)| (name.clone(), billionths(&quantity.string));
    wire.iter().map(read).collect()
}

fn add(to: &mut AmountsByName, more: &AmountsByName) {
    for (resource, amount) in more {
        *to.entry(resource.clone()).or_default() += amount;
    }
}

fn larger(a: &AmountsByName, b: &AmountsByName) -> AmountsByName {
    let mut all = a.clone();
    for (resource, amount) in b {
        let known = all.entry(resource.clone()).or_default();
        *known = *amount.max(known);
    }
    all
}

fn rounded(amounts: &AmountsByName) -> BTreeMap<String, i128> {
    let round = |(name, amount): (&String, &i128)| (name.clone(), round_up(name, *amount));
    amounts.iter().map(round).collect()
}

fn round_up(resource: &str, billionths: i128) -> i128 {
    let part = if resource == "cpu" {
        1_000_000
    } else {
        1_000_000_000
    };
    ((billionths + part - 1) / part).min(i64::MAX.into())
}

/// A quantity of a resource as it counts: thousandths of a processor, units of
/// everything else.
pub fn amount(resource: &str, quantity: &str) -> i128 {
    round_up(resource, billionths(quantity))
}

/// A quantity in billionths of a unit, rounded up, and at most 2^63 - 1 units. It
/// is read as a line of decimal digits, longer than any amount.
fn billionths(text: &str) -> i128 {
    const MOST: i128 = i64::MAX as i128 * 1_000_000_000;
    let end = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number = number.trim_start_matches(['+', '-']);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    let mut digits: Vec<u32> = digits.map(|digit| u32::from(digit - b'0')).collect();
    // How many of the digits stand before the point.
    let mut point = i64::try_from(whole.len()).expect("a short text");
    let place = |suffixes: &[&str]| suffixes.iter().position(|known| *known == suffix);
    if let Some(at) = place(&["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]) {
        point += 3 * at as i64 - 9;
    } else if let Some(power) = place(&["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]) {
        for _ in 0..=power {
            point += times_1024(&mut digits);
        }
    } else {
        point += suffix[1..].parse::<i64>().expect("a checked exponent");
    }
    let mut amount: i128 = 0;
    for (at, digit) in (0..).zip(&digits) {
        if at >= point + 9 {
            // Finer than a billionth.
            let rest = digits[at as usize..].iter().any(|digit| *digit > 0);
            return (amount + i128::from(rest)).min(MOST);
        }
        amount = (amount * 10 + i128::from(*digit)).min(MOST * 10);
    }
    let zeros = point + 9 - i64::try_from(digits.len()).expect("a short text");
    for _ in 0..zeros.min(40) {
        amount = (amount * 10).min(MOST * 10);
    }
    amount.min(MOST)
}

/// Multiplies a line of digits by 1,024, by hand. Returns how many digits it grew
/// by at its front.
fn times_1024(digits: &mut Vec<u32>) -> i64 {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        carry += *digit * 1_024;
        *digit = carry % 10;
        carry /= 10;
    }
    let mut grown = 0;
    while carry > 0 {
        digits.insert(0, carry % 10);
        carry /= 10;
        grown += 1;
    }
    grown
}

/// The names of resources that kube-scheduler looks at.
fn is_looked_at(name: &str) -> bool {
    let named = ["cpu", "memory", "ephemeral-storage"].contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/");
    let Some((domain, rest)) = name.split_once('/') else {
        return named;
    };
    let in_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let parts = domain.split('.');
    let mut parts = parts.map(|part| part.chars().zip(part.chars().rev()).next());
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let well_formed = domain.chars().all(in_domain)
        && "requests.".len() + domain.len() <= 253
        && parts.all(|ends| ends.is_some_and(|(first, last)| is_end(first) && is_end(last)));
    let ends = rest.chars().next().zip(rest.chars().next_back());
    let rest_well_formed = rest.len() <= 63
        && rest
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && ends.is_some_and(|(a, b)| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric());
    named || (!name.starts_with("requests.") && well_formed && rest_well_formed)
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
