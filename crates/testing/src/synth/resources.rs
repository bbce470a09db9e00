//! The resources of nodes in a synthetic cluster, and the requests of its pods.

use std::collections::BTreeMap;

use evenkeel::proto::v1;

/// Processors and memory by instance type, in the order of the instance types,
/// less what the system needs.
const ALLOCATABLE: [[&str; 2]; 4] = [
    ["1930m", "7Gi"],
    ["3920m", "15Gi"],
    ["7910m", "30Gi"],
    ["15890m", "60Gi"],
];

/// Local disk of a node.
const DISK: &str = "80Gi";

/// The number of pods that a node takes.
const MAX_PODS: &str = "110";

/// Processors and memory that each pod of a workload requests: workloads use these
/// in turns.
const REQUESTS: [[&str; 2]; 5] = [
    ["25m", "64Mi"],
    ["50m", "128Mi"],
    ["100m", "256Mi"],
    ["50m", "256Mi"],
    ["100m", "128Mi"],
];

/// Returns the resources of a node with an instance type, given by its index.
pub(super) fn allocatable(instance_type: usize) -> v1::NodeStatus {
    let [cpu, memory] = ALLOCATABLE[instance_type];
    v1::NodeStatus {
        declared_features: Vec::new(),
        allocatable: quantities([
            ("cpu", cpu),
            ("ephemeral-storage", DISK),
            ("memory", memory),
            ("pods", MAX_PODS),
        ]),
    }
}

/// The container of each pod of a workload, given by its number.
pub(super) fn container(workload: usize) -> v1::Container {
    let [cpu, memory] = REQUESTS[workload % REQUESTS.len()];
    v1::Container {
        name: "main".to_owned(),
        resources: Some(v1::ResourceRequirements {
            requests: quantities([("cpu", cpu), ("memory", memory)]),
        }),
        ..v1::Container::default()
    }
}

fn quantities<const N: usize>(named: [(&str, &str); N]) -> BTreeMap<String, v1::Quantity> {
    let quantity = |(name, text): (&str, &str)| {
        let string = text.to_owned();
        (name.to_owned(), v1::Quantity { string })
    };
    named.into_iter().map(quantity).collect()
}
