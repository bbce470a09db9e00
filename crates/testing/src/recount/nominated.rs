//! Pods that are nominated to a node. An incoming pod of the same or a lower priority has to find
//! room beside them, although they are not there yet.

use super::cluster::Cluster;
use super::rules::{name, namespace};
use evenkeel::proto::v1::{Node, Pod};

impl Cluster {
    /// The pods nominated to the node that are on no node yet, of at least the priority of an
    /// incoming pod, without the incoming pod itself.
    pub(super) fn nominated_to(&self, node: &Node, incoming: &Pod) -> Vec<&Pod> {
        let here = name(node.metadata.as_ref());
        let is_promised = |pod: &&Pod| node_promised(pod) == Some(here);
        let pods = self.pods.iter().filter(is_promised);
        let is_stronger = |pod: &&Pod| priority(pod) >= priority(incoming);
        pods.filter(is_stronger)
            .filter(|pod| !are_one(pod, incoming))
            .collect()
    }
}

/// The name of the node that a pod without a node is nominated to, until it has finished.
pub fn node_promised(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let has_node = pod.spec.as_ref().is_some_and(|s| !s.node_name.is_empty());
    let has_finished = ["Succeeded", "Failed"].contains(&&*status.phase);
    let promised = &*status.nominated_node_name;
    (!promised.is_empty() && !has_node && !has_finished).then_some(promised)
}

/// The priority of a pod; 0 if it has none.
pub fn priority(pod: &Pod) -> i32 {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.priority).unwrap_or_default()
}

/// Returns whether two objects are the same pod: by uid, or by name where a uid is
/// missing.
fn are_one(a: &Pod, b: &Pod) -> bool {
    let (a, b) = (a.metadata.as_ref(), b.metadata.as_ref());
    let [one, other] = [a, b].map(|metadata| metadata.map_or("", |m| &*m.uid));
    match one.is_empty() || other.is_empty() {
        true => namespace(a) == namespace(b) && name(a) == name(b),
        false => one == other,
    }
}
