//! The fields of a pod that no decision reads. Plans read those that a ReplicaSet's controller
//! reads, and those that keep the pod where it is. People read a cluster's messages about a pod
//! that waits for a node.

use std::fmt;

use serde_json::Value;

use super::item::{
    DELETION_COST, DO_NOT_DISRUPT, SAFE_TO_EVICT, SCALE_DOWN_DISABLED, STAYING, text,
};
use evenkeel_core::matching::names;
use evenkeel_core::proto::v1::PodFacts;

/// The facts about a pod in its JSON form. Invalid values are left out.
pub(super) fn pod_facts(pod: &Value) -> PodFacts {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| {
        text(condition, "type") == "Ready" && text(condition, "status") == "True"
    });
    let sidecars = pod["spec"]["initContainers"].as_array();
    let sidecars = sidecars.into_iter().flatten();
    let sidecars = sidecars.filter(|container| text(container, "restartPolicy") == "Always");
    let sidecars: Vec<&str> = sidecars.map(|container| text(container, "name")).collect();
    let is_sidecar = |status: &&Value| sidecars.contains(&text(status, "name"));
    PodFacts {
        name: text(metadata, "name").to_owned(),
        uid: text(metadata, "uid").to_owned(),
        ready: ready.is_some(),
        ready_time: ready.and_then(|condition| time(&condition["lastTransitionTime"])),
        deletion_cost: deletion_cost(text(&metadata["annotations"], DELETION_COST)),
        restarts: most_restarts(&status["containerStatuses"], |_| true),
        sidecar_restarts: most_restarts(&status["initContainerStatuses"], is_sidecar),
        creation_time: time(&metadata["creationTimestamp"]),
    }
}

/// Returns whether a node in its JSON form has an annotation that keeps it.
pub(super) fn keeps_node(node: &Value) -> bool {
    let annotations = &node["metadata"]["annotations"];
    let mut marks = [SCALE_DOWN_DISABLED, DO_NOT_DISRUPT].into_iter();
    marks.any(|name| annotations[name] == "true")
}

/// A reason why a pod should stay where it is that a snapshot does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StayReason {
    /// The pod has this annotation.
    Annotation(&'static str),
    /// The pod stores data on its node.
    LocalStorage,
}

impl StayReason {
    /// The reason for a pod in its JSON form; `None` if the pod may move.
    pub(super) fn of(pod: &Value) -> Option<Self> {
        let annotations = &pod["metadata"]["annotations"];
        let is_set = |(name, wanted): &(&str, &str)| {
            let value = annotations[name].as_str();
            value.is_some_and(|value| wanted.is_empty() || value == *wanted)
        };
        if let Some((name, _)) = STAYING.into_iter().find(is_set) {
            return Some(Self::Annotation(name));
        }
        if annotations[SAFE_TO_EVICT] == "true" {
            return None;
        }
        let volumes = pod["spec"]["volumes"].as_array();
        let is_local =
            |volume: &Value| volume["emptyDir"].is_object() || volume["hostPath"].is_object();
        let is_local = volumes.into_iter().flatten().any(is_local);
        is_local.then_some(Self::LocalStorage)
    }

    /// Returns whether the reason is local storage.
    pub fn is_local_storage(self) -> bool {
        self == Self::LocalStorage
    }
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(name) => write!(f, "annotation {name}"),
            Self::LocalStorage => f.write_str("local storage"),
        }
    }
}

/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The condition of a pod that waits for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitingPod {
    /// True if the pod's scheduler found no node for the pod.
    pub is_unschedulable: bool,
    /// The scheduler's message about the pod; empty if there is none.
    pub message: String,
    /// The scheduler that the pod names; empty if this is the default scheduler.
    pub scheduler: String,
}

impl WaitingPod {
    /// Namespace, name and condition of a pod that waits. `None` for other objects, and for pods
    /// about which the cluster says nothing.
    pub(super) fn of(object: &Value) -> Option<((String, String), Self)> {
        let (spec, metadata) = (&object["spec"], &object["metadata"]);
        if text(object, "kind") != "Pod" || !text(spec, "nodeName").is_empty() {
            return None;
        }
        let conditions = object["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let scheduled = conditions.find(|it| text(it, "type") == "PodScheduled");
        let refused = scheduled.filter(|it| text(it, "status") == "False");
        let said = Self {
            is_unschedulable: refused.is_some_and(|it| text(it, "reason") == "Unschedulable"),
            message: refused.map_or("", |it| text(it, "message")).to_owned(),
            scheduler: other_scheduler(spec).unwrap_or_default(),
        };
        let namespace = names::namespace_or_default(text(metadata, "namespace"));
        let name = (namespace.to_owned(), text(metadata, "name").to_owned());
        (said != Self::default()).then_some((name, said))
    }
}

/// The scheduler that the spec of a pod names; `None` if this is the default scheduler.
pub(super) fn other_scheduler(spec: &Value) -> Option<String> {
    let name = text(spec, "schedulerName");
    let is_other = !name.is_empty() && name != DEFAULT_SCHEDULER;
    is_other.then(|| name.to_owned())
}

/// A time in its JSON form.
pub(super) fn time(value: &Value) -> Option<pbjson_types::Timestamp> {
    serde_json::from_value(value.clone()).ok()
}

fn most_restarts(statuses: &Value, counts: impl Fn(&&Value) -> bool) -> i32 {
    let statuses = statuses.as_array().into_iter().flatten().filter(counts);
    let restarts = statuses.filter_map(|status| status["restartCount"].as_i64());
    let most = restarts.max().unwrap_or(0);
    i32::try_from(most).unwrap_or(i32::MAX)
}

/// The value of the annotation; 0 if Kubernetes would refuse it.
fn deletion_cost(text: &str) -> i32 {
    let is_plain = match text.as_bytes() {
        [b'-' | b'1'..=b'9', ..] => true,
        digits => digits == b"0",
    };
    let value = text.parse().ok().filter(|_| is_plain);
    value.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deletion_costs_are_read_as_kubernetes_reads_them() {
        let cases = [
            ("5", 5),
            ("-7", -7),
            ("0", 0),
            ("+10", 0),
            ("008", 0),
            ("", 0),
            ("1e3", 0),
            ("2147483647", i32::MAX),
            ("2147483648", 0),
        ];
        for (text, cost) in cases {
            assert_eq!(deletion_cost(text), cost, "{text:?}");
        }
    }

    #[test]
    fn what_a_pod_says_of_itself() {
        let pod = json!({
            "metadata": {
                "name": "web-1", "creationTimestamp": "1970-01-01T00:00:05Z",
                "annotations": {DELETION_COST: "3"},
            },
            "spec": {"initContainers": [
                {"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"},
            ]},
            "status": {
                "conditions": [
                    {"type": "PodScheduled", "status": "True"},
                    {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
                ],
                "containerStatuses": [{"name": "a", "restartCount": 1}, {"name": "b", "restartCount": 4}],
                "initContainerStatuses": [
                    {"name": "proxy", "restartCount": 2}, {"name": "setup", "restartCount": 6},
                ],
            },
        });
        let at = |seconds| Some(pbjson_types::Timestamp { seconds, nanos: 0 });
        let expected = PodFacts {
            name: "web-1".to_owned(),
            ready: true,
            ready_time: at(9),
            deletion_cost: 3,
            restarts: 4,
            sidecar_restarts: 2,
            creation_time: at(5),
            ..PodFacts::default()
        };
        assert_eq!(pod_facts(&pod), expected);
        let nothing = json!({"metadata": {"name": "x", "creationTimestamp": "soon"}});
        let expected = PodFacts {
            name: "x".to_owned(),
            ..PodFacts::default()
        };
        assert_eq!(pod_facts(&nothing), expected);
    }
}
