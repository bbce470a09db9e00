//! The hint about nodes that refuse the pod because of nominated pods.

use crate::explain::case::{Case, JudgedNode};
use crate::explain::diagnosis::{Diagnosis, count, general_hint};
use crate::explain::words::{among, number, plural, verb};
use crate::proto::v1;
use crate::proto::v1::hint::Kind;
use crate::spread::NominatedOn;

/// The highest priority that Kubernetes lets users give.
const HIGHEST_OF_USERS: i32 = 1_000_000_000;

/// Finds nodes that refuse the pod only because of pods nominated to them, and the priority with
/// which the pod would go first.
pub fn nominated(case: &Case<'_>) -> Vec<Diagnosis> {
    let is_kept_off = |node: &&JudgedNode<'_>| {
        let refusal = node.refusal.as_ref();
        refusal.is_some_and(|refusal| refusal.nominated_pods > 0)
    };
    let nodes: Vec<&JudgedNode<'_>> = case.nodes.iter().filter(is_kept_off).collect();
    let on = nodes.iter().filter_map(|node| case.nominated_on(node));
    let pods = on.flat_map(NominatedOn::pods);
    let priorities: Vec<i32> = pods.map(|pod| pod.priority).collect();
    let Some(highest) = priorities.iter().copied().max() else {
        return Vec::new();
    };
    let names: Vec<&str> = nodes.iter().map(|node| node.name).collect();
    let mut message = format!(
        "{} ({}) would take it but for {} nominated there, which {} of at least its priority and \
         {} as if {} there",
        plural(nodes.len(), "node"),
        among(&names),
        match priorities.len() {
            1 => "a pod".to_owned(),
            pods => plural(pods, "pod"),
        },
        verb(priorities.len(), "is", "are"),
        verb(priorities.len(), "counts", "count"),
        verb(priorities.len(), "it were", "they were"),
    );
    let (mut admitted, mut remedy) = (0, None);
    if highest < HIGHEST_OF_USERS {
        let above = format!("a priority above {}", number(highest));
        let onto = plural(nodes.len(), "node");
        message.push_str(&format!(". With {above} it could go to {onto} more"));
        admitted = count(case.feasible_count() + nodes.len());
        remedy = case
            .is_stuck()
            .then(|| format!("give it {above}, which lets it onto {onto}"));
    }
    let hint = v1::Hint {
        admitted_node_count: admitted,
        ..general_hint(Kind::NominatedPods, message)
    };
    vec![Diagnosis { hint, remedy }]
}
