//! Completes a pod as an API server does when a pod is created: with the fields that it sets if they are
//! missing, and by admission from the LimitRanges of the pod's namespace, its RuntimeClass and its
//! PriorityClass (`docs/semantics.md`, "Templates").

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::controller::add_toleration;
use super::item::text;
use evenkeel_core::matching::names;

/// The classes that each cluster has, with their priorities.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// An addition of admission to a pod that is not known.
#[derive(Debug, Clone)]
pub struct NotCounted {
    /// The field of the pod that the addition would decide, as `unchecked` names it.
    pub field: &'static str,
    /// A sentence for a person that says what is missing, and why. `None` if nothing went wrong:
    /// files and servers seldom have LimitRanges.
    pub words: Option<String>,
}

/// Returns the field of a pod for which admission reads objects of a kind.
fn field_of(kind: &str) -> &'static str {
    match kind {
        "RuntimeClass" => "spec.runtimeClassName",
        "PriorityClass" => "spec.priorityClassName",
        _ => "spec.containers.resources.requests (LimitRange)",
    }
}

/// The objects that admission reads.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// The objects, by kind, namespace and name; classes are in no namespace. An API server merges
    /// several LimitRanges in no defined order.
    objects: BTreeMap<(&'static str, String, String), Value>,
    /// The kinds whose objects are unknown, each with the reason.
    unknown: BTreeMap<&'static str, String>,
    /// True if all objects of a cluster that admission reads were listed, except those of unknown
    /// kinds.
    is_listed: bool,
}

impl Admission {
    /// Keeps an object if admission reads its kind.
    pub fn offer(&mut self, object: &Value) {
        let metadata = &object["metadata"];
        let (kind, namespace) = match text(object, "kind") {
            "LimitRange" => {
                let namespace = names::namespace_or_default(text(metadata, "namespace"));
                ("LimitRange", namespace)
            }
            "RuntimeClass" => ("RuntimeClass", ""),
            "PriorityClass" => ("PriorityClass", ""),
            _ => return,
        };
        let name = text(metadata, "name").to_owned();
        let place = (kind, namespace.to_owned(), name);
        self.objects.insert(place, object.clone());
    }

    /// The objects of a kind in a namespace.
    fn all(&self, kind: &str, namespace: &str) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter();
        let its = objects.filter(move |((of, place, _), _)| *of == kind && place == namespace);
        its.map(|(_, object)| object)
    }

    /// The class of this kind and name.
    fn class(&self, kind: &str, name: &str) -> Option<&Value> {
        let mut classes = self.all(kind, "");
        classes.find(|class| text(&class["metadata"], "name") == name)
    }

    /// Records that the objects of a kind are unknown.
    pub fn is_without(&mut self, kind: &'static str, why: String) {
        self.unknown.insert(kind, why);
    }

    /// Records that all objects of a cluster were listed, except those of
    /// [unknown](Self::is_without) kinds.
    pub fn is_listed(&mut self) {
        self.is_listed = true;
    }

    /// Adds the objects of `other` that are missing here.
    pub fn add_missing(&mut self, other: Self) {
        for (name, object) in other.objects {
            self.objects.entry(name).or_insert(object);
        }
        self.unknown.extend(other.unknown);
        self.is_listed |= other.is_listed;
    }

    /// Completes a pod as an API server does when it is created. Returns the additions that are not
    /// known.
    pub(super) fn complete(&self, pod: &mut Value) -> Vec<NotCounted> {
        set_of_containers(pod);
        let mut missing = self.unknown_of(pod);
        self.limit(pod);
        self.set_priority(pod);
        tolerate_for_a_while(pod);
        let class = text(&pod["spec"], "runtimeClassName").to_owned();
        match self.class("RuntimeClass", &class) {
            Some(class) => run_as(pod, class),
            None if class.is_empty() || self.unknown.contains_key("RuntimeClass") => {}
            None => missing.push(NotCounted {
                field: field_of("RuntimeClass"),
                words: Some(format!(
                    "RuntimeClass {class} is not there: what it adds to the pod is not counted"
                )),
            }),
        }
        set_of_pod(pod);
        missing
    }

    /// Returns the additions that objects of unknown kinds could make to a pod.
    fn unknown_of(&self, pod: &mut Value) -> Vec<NotCounted> {
        let is_named = |class: &str| !text(&pod["spec"], class).is_empty();
        let (runs_as, ranks) = (is_named("runtimeClassName"), is_named("priorityClassName"));
        let requests_all = containers_mut(pod).all(|container| {
            let requests = &container["resources"]["requests"];
            ["cpu", "memory"]
                .iter()
                .all(|name| !requests[name].is_null())
        });
        let matters = |kind: &str| match kind {
            "RuntimeClass" => runs_as,
            "PriorityClass" => ranks,
            _ => !requests_all,
        };
        let is_known = self.objects.keys().any(|(kind, ..)| *kind == "LimitRange");
        let unlisted = !self.is_listed && !is_known;
        let unlisted = unlisted.then_some(("LimitRange", None));
        let unknown = self.unknown.iter().map(|(kind, why)| (*kind, Some(why)));
        let unknown = unlisted.into_iter().chain(unknown);
        let not_counted = |(kind, why): (&str, Option<&String>)| NotCounted {
            field: field_of(kind),
            words: why.map(|why| format!("what a {kind} adds is not counted: {why}")),
        };
        let unknown = unknown.filter(|(kind, _)| matters(kind));
        unknown.map(not_counted).collect()
    }

    /// Sets the default requests of containers in the pod's namespace.
    fn limit(&self, pod: &mut Value) {
        let namespace = text(&pod["metadata"], "namespace");
        let namespace = names::namespace_or_default(namespace).to_owned();
        for range in self.all("LimitRange", &namespace) {
            let limits = range["spec"]["limits"].as_array().into_iter().flatten();
            let limits = limits.filter(|limit| text(limit, "type") == "Container");
            let mut requests = Map::new();
            for limit in limits {
                requests.extend(default_requests(limit));
            }
            for container in containers_mut(pod) {
                request(container, requests.clone());
            }
        }
    }

    /// Sets the priority of the pod's class or, if the pod names no class, of the default class.
    fn set_priority(&self, pod: &mut Value) {
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        let named = spec.get("priorityClassName").and_then(Value::as_str);
        let class = named.and_then(|name| self.class("PriorityClass", name));
        let policy = class
            .and_then(|class| class.get("preemptionPolicy"))
            .cloned();
        let priority = match named.filter(|name| !name.is_empty()) {
            Some(name) => {
                let system = SYSTEM_CLASSES.iter().find(|(class, _)| *class == name);
                let system = system.map(|(_, priority)| json!(priority));
                system.or_else(|| class?.get("value").cloned())
            }
            None => {
                let classes = self.all("PriorityClass", "");
                let defaults = classes.filter(|class| class["globalDefault"] == true);
                let lowest = defaults.min_by_key(|class| class["value"].as_i64());
                lowest.and_then(|class| class.get("value").cloned())
            }
        };
        if let Some(policy) = policy {
            spec.entry("preemptionPolicy").or_insert(policy);
        }
        if let Some(priority) = priority {
            spec.entry("priority").or_insert(priority);
        }
    }
}

/// The default requests of a limit of a LimitRange, by the rules of an API server.
fn default_requests(limit: &Value) -> Map<String, Value> {
    let mut requests = Map::new();
    // The first field with an amount of a resource counts.
    for field in ["defaultRequest", "default", "max", "min"] {
        for (name, amount) in limit[field].as_object().into_iter().flatten() {
            requests.entry(name).or_insert_with(|| amount.clone());
        }
    }
    requests
}

/// Adds tolerations of five minutes for a node that is not ready or unreachable. Every pod gets
/// these, unless it has its own for these taints.
fn tolerate_for_a_while(pod: &mut Value) {
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let own = pod["spec"]["tolerations"].as_array().into_iter().flatten();
        let mut own = own.filter(|own| ["", "NoExecute"].contains(&text(own, "effect")));
        if own.any(|own| ["", taint].contains(&text(own, "key"))) {
            continue;
        }
        let toleration = json!({
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        });
        add_toleration(pod, toleration);
    }
}

/// Adds the overhead of a RuntimeClass, and its node selector and tolerations.
fn run_as(pod: &mut Value, class: &Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(overhead) = class.pointer("/overhead/podFixed") {
        spec.insert("overhead".to_owned(), overhead.clone());
    }
    if let Some(Value::Object(labels)) = class.pointer("/scheduling/nodeSelector") {
        let selector = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        if let Some(selector) = selector.as_object_mut() {
            selector.extend(labels.clone());
        }
    }
    let tolerations = class.pointer("/scheduling/tolerations");
    let tolerations = tolerations.and_then(Value::as_array);
    for toleration in tolerations.into_iter().flatten() {
        add_toleration(pod, toleration.clone());
    }
}

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
    if amounts.is_empty() {
        return;
    }
    let mut at = of;
    for field in ["resources", "requests"] {
        let Some(fields) = at.as_object_mut() else {
            return;
        };
        at = fields.entry(field).or_insert(Value::Null);
        if at.is_null() {
            *at = json!({});
        }
    }
    let Some(requests) = at.as_object_mut() else {
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
