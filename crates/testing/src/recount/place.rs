//! Place, round by round: Filter, Score, the best node, and the pod on it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::pod_affinity::with_merged_terms;
use super::rules::name;
use evenkeel::proto::v1::{NodeChecks, PlaceRequest, Pod};

/// A node that Place picked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickedNode {
    /// Name of the node.
    pub node: String,
    /// The node's score when it was picked, without its bonus.
    pub score: i64,
}

impl Cluster {
    /// The picks for a request of the Kubernetes dialect, in order. Its overlay is
    /// not read.
    pub fn place(&self, request: &PlaceRequest) -> Vec<PickedNode> {
        let pod = request.pod.clone().unwrap_or_default();
        let checks = NodeChecks::try_from(request.node_checks).unwrap_or_default();
        let candidates = request.candidates.as_ref().map(|all| &*all.names);
        let counted = self.counted_on_nodes(&pod);
        let mut now = self.with_held_storage().into_owned();
        let mut times: BTreeMap<String, i32> = BTreeMap::new();
        let mut picks = Vec::new();
        while picks.len() < request.replicas as usize {
            let taken = |node: &str| times.get(node).copied().unwrap_or(0);
            let is_full = |node: &String| {
                let capacity = request.capacities.iter().find(|c| c.node == *node);
                capacity.is_some_and(|capacity| taken(node) >= capacity.replicas)
            };
            let mut feasible = now.filter_as_is(&pod, candidates, checks).feasible();
            feasible.retain(|node| !is_full(node));
            let scores = now.score_as_is(&pod, Some(&feasible), checks).scores;
            let rank = |node: &str, score: i64| {
                let bonus = request.bonuses.iter().find(|bonus| bonus.node == node);
                let total = score + bonus.map_or(0, |bonus| bonus.score);
                let counted = counted.get(node).copied();
                (total, Reverse((taken(node), counted, node.to_owned())))
            };
            let best = scores.into_iter().max_by_key(|s| rank(&s.node, s.score));
            let Some(best) = best else {
                break;
            };
            now.bind_storage(&pod, &best.node, &format!("of-pick-{}", picks.len()));
            now.pods.push(running_on(&pod, &best.node));
            *times.entry(best.node.clone()).or_default() += 1;
            picks.push(PickedNode {
                node: best.node,
                score: best.score,
            });
        }
        picks
    }

    /// Returns for each node the number of pods that the constraints of a pod count, added up over
    /// the constraints.
    fn counted_on_nodes(&self, pod: &Pod) -> BTreeMap<String, i64> {
        let kinds = ["DoNotSchedule", "ScheduleAnyway"];
        let constraints = kinds.map(|kind| self.constraints(pod, kind)).concat();
        let on_node = |node| {
            let counts = constraints.iter().map(|c| self.count(pod, node, &c.spec));
            counts.sum()
        };
        let nodes = self.nodes.iter();
        nodes
            .map(|node| (name(node.metadata.as_ref()).to_owned(), on_node(node)))
            .collect()
    }
}

/// The pod of a request, once it runs on a node.
fn running_on(pod: &Pod, node: &str) -> Pod {
    let mut running = with_merged_terms(pod);
    running.status = None;
    running.metadata.get_or_insert_default().deletion_timestamp = None;
    running.spec.get_or_insert_default().node_name = node.to_owned();
    running
}
