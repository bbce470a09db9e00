//! The pods nominated to each node, looked up again among the pods of all namespaces.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Findings;
use super::nodes::json;
use super::pods::each_stored;
use crate::matching::{Requests, RequestsByVersion};
use crate::proto::v1;
use crate::recount;
use crate::snapshot::{Frozen, NominatedPod, is_reservation};

/// Compares the kept nominated pods. `None` as soon as `is_cancelled` returns true.
pub fn compare(
    frozen: &Frozen,
    findings: &mut Findings,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<()> {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut decided = BTreeSet::new();
    each_stored(frozen, is_cancelled, |namespace, name, pod| {
        let uid = pod.metadata.as_ref().map_or("", |m| &m.uid).to_owned();
        if is_reservation(name) {
            decided.insert(uid);
        } else if let Some(node) = recount::node_promised(pod) {
            found.insert(format!("{namespace}/{name}"), (recounted(node, pod), uid));
        }
    })?;
    decided.remove("");
    let found: BTreeMap<String, String> = found
        .into_iter()
        .filter(|(_, (_, uid))| !decided.contains(uid))
        .map(|(name, (promised, _))| (name, promised))
        .collect();
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
    // `room.rs` compares the requests of a pod with a recount.
    let requests = RequestsByVersion::of(pod).newest.to_wire();
    let priority = recount::priority(pod);
    format!("{node} {uid:?} {priority} {labels} {}", json(&requests))
}
