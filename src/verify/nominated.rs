//! Which pods are nominated to which node, looked up again among the pods of all
//! namespaces.

use std::collections::BTreeMap;

use super::finding::Findings;
use super::nodes::json;
use super::pods::each_stored;
use crate::matching::{Requests, RequestsByVersion};
use crate::proto::v1;
use crate::recount;
use crate::snapshot::{Frozen, NominatedPod};

/// Compares those that are kept. `None` as soon as `is_cancelled` says so.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    each_stored(frozen, is_cancelled, |namespace, name, pod| {
        if let Some(node) = recount::node_promised(pod) {
            found.insert(format!("{namespace}/{name}"), recounted(node, pod));
        }
    })?;
    let nominations = frozen.nominations().iter();
    let kept: BTreeMap<String, String> = nominations
        .map(|(node, pod)| (format!("{}/{}", pod.namespace, pod.name), kept(node, pod)))
        .collect();
    let none = String::from("none");
    for pod in kept.keys().chain(found.keys()) {
        let of =
            |nominations: &BTreeMap<String, String>| nominations.get(pod).unwrap_or(&none).clone();
        let mut pod = findings.about("", || format!("nominated pod {pod}"));
        pod.compare("node, priority, labels and requests", of(&kept), of(&found));
    }
    Some(())
}

fn kept(node: &str, pod: &NominatedPod) -> String {
    let requests = pod.requests.as_deref().and_then(Requests::to_wire);
    let labels = json(&pod.labels);
    format!(
        "{node} {:?} {} {labels} {}",
        pod.uid,
        pod.priority,
        json(&requests)
    )
}

fn recounted(node: &str, pod: &v1::Pod) -> String {
    let labels = json(&recount::labels(pod.metadata.as_ref()));
    let uid = pod.metadata.as_ref().map_or("", |m| &m.uid);
    // What a pod requests is held against a recount in `room.rs`.
    let requests = RequestsByVersion::of(pod).newest.to_wire();
    let priority = recount::priority(pod);
    format!("{node} {uid:?} {priority} {labels} {}", json(&requests))
}
