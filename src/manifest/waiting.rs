//! A cluster's messages about a pod that waits for a node. No decision reads them.

use serde_json::Value;

use super::item::text;
use crate::matching::names;

/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The condition of a pod that waits for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitingPod {
    /// True if the pod's scheduler found no node for the pod.
    pub(crate) is_unschedulable: bool,
    /// The scheduler's message about the pod; empty if there is none.
    pub(crate) message: String,
    /// The scheduler that the pod names; empty if this is the default scheduler.
    pub(crate) scheduler: String,
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
