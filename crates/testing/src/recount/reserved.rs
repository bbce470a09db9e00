//! Decisions about the cluster after the claims of reservations are bound.

use std::borrow::Cow;

use super::answers::{FilterRecount, ScoreRecount};
use super::cluster::Cluster;
use super::room::node_taken;
use super::rules::name;
use evenkeel::proto::v1::{NodeChecks, Pod};

impl Cluster {
    /// Filter: a verdict for each known candidate in their order, or for every
    /// node in ascending order of the name.
    pub fn filter(
        &self,
        pod: &Pod,
        candidates: Option<&[String]>,
        checks: NodeChecks,
    ) -> FilterRecount {
        let now = self.with_held_storage();
        let answer = now.filter_as_is(pod, candidates, checks);
        answer.with_feasible_in_domains(&self.nodes)
    }

    /// Score of the known candidates, by default of the nodes that pass Filter.
    pub fn score(
        &self,
        pod: &Pod,
        candidates: Option<&[String]>,
        checks: NodeChecks,
    ) -> ScoreRecount {
        let now = self.with_held_storage();
        now.score_as_is(pod, candidates, checks)
    }

    /// The cluster after the claims of reservations were bound, in the order of the reservations.
    /// The pods of reservations are named `~` and a number.
    pub(super) fn with_held_storage(&self) -> Cow<'_, Self> {
        let number = |pod: &Pod| -> Option<u64> {
            let number = name(pod.metadata.as_ref()).strip_prefix('~')?;
            number.parse().ok()
        };
        let reserved = self.pods.iter();
        let mut reserved: Vec<(u64, &Pod)> = reserved
            .filter_map(|pod| Some((number(pod)?, pod)))
            .collect();
        if reserved.is_empty() {
            return Cow::Borrowed(self);
        }
        reserved.sort_by_key(|(number, _)| *number);
        let mut now = self.clone();
        for (number, pod) in reserved {
            let mut pod = pod.clone();
            // An assigned pod has a uid, but its claims are to be read as those of a new pod.
            pod.metadata.get_or_insert_default().uid.clear();
            if let Some(node) = node_taken(&pod) {
                now.bind_storage(&pod, node, &format!("reservation-{number}"));
            }
        }
        Cow::Owned(now)
    }
}
