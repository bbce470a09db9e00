//! The order in which a ReplicaSet deletes pods
//! (kube-controller-manager: `ActivePodsWithRanks`).

use std::cmp::Reverse;

use crate::proto::v1;
use crate::snapshot::{NamedPod, Phase};

/// The rank of a pod in this order: the pod with the smallest rank goes first. Times are compared
/// exactly. The controller instead compares ages rounded down to a power of two, by which the order
/// would depend on the time of the question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionRank {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    deletion_cost: i32,
    /// The number of pods of the workload that the pod's node has.
    doubled: Reverse<usize>,
    ready_time: Option<Reverse<(i64, i32)>>,
    restarts: Reverse<(i32, i32)>,
    creation_time: Option<Reverse<(i64, i32)>>,
    uid: String,
    name: String,
}

impl DeletionRank {
    /// The part of the rank that no deletion cost outweighs: on a node, phase and readiness.
    pub fn tier(&self) -> impl Ord + use<> {
        (self.is_assigned, self.phase, self.is_ready)
    }

    /// The rank of a pod whose node has `doubled` pods of the workload. Without facts, a running
    /// pod counts as ready.
    pub fn of(pod: &NamedPod, doubled: usize, facts: Option<&v1::PodFacts>) -> Self {
        let none = v1::PodFacts {
            ready: pod.phase == Phase::Running,
            ..v1::PodFacts::default()
        };
        let facts = facts.unwrap_or(&none);
        let latest_first = |time: &Option<pbjson_types::Timestamp>| {
            let time = time.as_ref()?;
            Some(Reverse((time.seconds, time.nanos)))
        };
        Self {
            is_assigned: pod.node.is_some(),
            phase: match pod.phase {
                Phase::Unknown => 1,
                Phase::Running => 2,
                _ => 0,
            },
            is_ready: facts.ready,
            deletion_cost: facts.deletion_cost,
            doubled: Reverse(doubled),
            ready_time: latest_first(&facts.ready_time).filter(|_| facts.ready),
            restarts: Reverse((facts.restarts, facts.sidecar_restarts)),
            creation_time: latest_first(&facts.creation_time),
            uid: pod.uid.clone(),
            name: pod.name.clone(),
        }
    }
}
