//! Sets fields of pods that an API server sets if they are missing: requests from limits, and host
//! ports in the node's network (`docs/semantics.md`, "Templates").

use serde_json::{Map, Value, json};

/// The lists of containers that have requests.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// Sets the requests of containers that only have limits, and the host ports of a pod in the node's
/// network. A pod from an API server does not change.
pub(super) fn set_of_containers(pod: &mut Value) {
    let on_host = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    for container in containers_mut(pod) {
        let limits = container.pointer("/resources/limits");
        if let Some(limits) = limits.and_then(Value::as_object).cloned() {
            request(container, limits);
        }
        let ports = container.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|_| on_host) {
            let own = port.get("hostPort").and_then(Value::as_i64);
            if own.unwrap_or_default() == 0
                && let Some(number) = port.get("containerPort").cloned()
            {
                port["hostPort"] = number;
            }
        }
    }
}

/// Sets the requests of the pod as a whole from its limits as a whole, for the resources that its
/// containers do not request. For other resources, the containers' sum counts.
pub(super) fn set_of_pod(pod: &mut Value) {
    let limits = pod.pointer("/spec/resources/limits");
    let Some(mut limits) = limits.and_then(Value::as_object).cloned() else {
        return;
    };
    let requested = |name: &str| {
        let mut containers = CONTAINERS
            .iter()
            .filter_map(|list| pod["spec"][list].as_array());
        containers.any(|containers| {
            let mut all = containers.iter();
            all.any(|container| !container["resources"]["requests"][name].is_null())
        })
    };
    limits.retain(|name, _| match &**name {
        "cpu" | "memory" => !requested(name),
        name => name.starts_with("hugepages-"),
    });
    request(&mut pod["spec"], limits);
}

/// Adds requests to `resources` of a container or of a pod's spec, for resources without a request.
pub(super) fn request(of: &mut Value, amounts: Map<String, Value>) {
    if amounts.is_empty() || !of.is_object() {
        return;
    }
    let resources = &mut of["resources"];
    if resources.is_null() {
        *resources = json!({});
    }
    if !resources.is_object() {
        return;
    }
    let requests = &mut resources["requests"];
    if requests.is_null() {
        *requests = json!({});
    }
    let Some(requests) = requests.as_object_mut() else {
        return;
    };
    for (name, amount) in amounts {
        requests.entry(name).or_insert(amount);
    }
}

/// The containers of a pod that are objects.
pub(super) fn containers_mut(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut);
    let lists = spec.into_iter().flat_map(|spec| spec.iter_mut());
    let lists = lists.filter(|(name, _)| CONTAINERS.contains(&name.as_str()));
    lists
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
        .filter(|container| container.is_object())
}
