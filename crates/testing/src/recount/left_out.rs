//! The nodes that a pod leaves out by naming others.

use super::cluster::Cluster;
use super::room;
use super::rules::name;
use evenkeel::proto::v1::{Node, NodeSelectorTerm, Pod};

const CONFLICT: &str = "pod affinity terms conflict";
const SIMULTANEOUSLY: &str =
    "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously";

/// The reason why a node is left out before the checks, in the words of a minor version.
pub fn reason(pod: &Pod, node: &Node, minor: u32) -> Option<&'static str> {
    let own = pod.spec.as_ref().map_or("", |spec| &*spec.node_name);
    let counts = !own.is_empty() && minor >= 37;
    let terms = terms(pod);
    let all_name = !terms.is_empty() && terms.iter().all(|term| !names_in(term).is_empty());
    let means = |wanted: &str| {
        let mut terms = terms.iter();
        terms.any(|term| {
            names_in(term)
                .iter()
                .all(|values| values.iter().any(|it| it == wanted))
        })
    };
    let mut any = terms.iter().flat_map(|term| names_in(term)).flatten();
    if all_name && !any.any(|wanted| means(wanted)) {
        return Some(CONFLICT);
    }
    match (counts, all_name) {
        (true, true) if !means(own) => Some(SIMULTANEOUSLY),
        (true, true) => room::names_another(pod, node)
            .then_some("node(s) didn't satisfy plugin(s) [NodeAffinity NodeName]"),
        (true, false) => {
            room::names_another(pod, node).then_some("node(s) didn't satisfy plugin(s) [NodeName]")
        }
        (false, true) => (!means(name(node.metadata.as_ref())))
            .then_some("node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        (false, false) => None,
    }
}

/// Returns whether all nodes are left out, so that nothing else about the pod is checked.
pub fn leaves_none(cluster: &Cluster, pod: &Pod) -> bool {
    let all = [CONFLICT, SIMULTANEOUSLY].map(Some);
    let mut reasons = cluster
        .nodes
        .iter()
        .map(|node| reason(pod, node, cluster.minor()));
    reasons.any(|reason| all.contains(&reason))
}

fn terms(pod: &Pod) -> &[NodeSelectorTerm] {
    let spec = pod.spec.as_ref();
    let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|it| {
        it.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    required.map_or(&[], |required| &required.node_selector_terms)
}

/// The lists of names in a term: a node has to be in each of them.
fn names_in(term: &NodeSelectorTerm) -> Vec<&Vec<String>> {
    let fields = term.match_fields.iter();
    let named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    named.map(|field| &field.values).collect()
}
