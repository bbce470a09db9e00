//! The subject of an explanation: a placement, and the verdict on each cluster.

use crate::explain::case::all_nodes;
use crate::explain::diagnosis::{count, wire_index};
use crate::explain::insight::{domains, first};
use crate::proto::v1;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::left_out::Cause;
use crate::snapshot::{NodeRef, ReadView, Slot, Stopped};
use crate::spread::NodeRefusal;
use crate::spread::fleet::{HolderSpread, Judge, PlacementSpec, holders, score};

/// A decision and the facts that it was made from.
pub struct PlacementCase<'a> {
    /// The constraints, hard ones first.
    pub spreads: &'a [HolderSpread<'a>],
    /// The state that the placement was decided on.
    pub read_view: ReadView<'a>,
    /// The clusters that were judged.
    pub clusters: Vec<JudgedCluster<'a>>,
}

/// A cluster and the verdict on it.
pub struct JudgedCluster<'a> {
    /// The cluster.
    pub slot: Slot,
    /// The cluster's labels and taints.
    pub node: NodeRef<'a>,
    /// The cluster's score, or the reason why it has none.
    pub verdict: Result<i64, NodeRefusal>,
    /// True if the cluster passes the checks other than spread.
    pub passes: bool,
    /// True if the cluster holds the placement already, so it cannot be picked again.
    pub holds: bool,
}

impl<'a> PlacementCase<'a> {
    /// The case of a question, for the clusters `slots`.
    pub fn of(
        question: &'a PlacementSpec,
        judge: &'a Judge<'a>,
        slots: &[Slot],
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let holds = holders(&question.holders, read_view)?;
        let mut clusters = Vec::new();
        for slot in slots {
            let Some(node) = read_view.nodes.get(*slot) else {
                continue;
            };
            let verdict = judge.judge(*slot)?;
            let refusal = verdict.as_ref().err();
            clusters.push(JudgedCluster {
                slot: *slot,
                node,
                passes: refusal.is_none_or(|refusal| refusal.constraint_index.is_some()),
                holds: holds(*slot),
                verdict,
            });
        }
        Ok(Self {
            spreads: &judge.spreads,
            read_view: *read_view,
            clusters,
        })
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> impl Iterator<Item = &'a HolderSpread<'a>> {
        let spreads = self.spreads.iter();
        spreads.filter(|spread| spread.active.constraint.is_hard())
    }

    /// The clusters that may be picked if the constraints admit them.
    pub fn pickable(&self) -> impl Iterator<Item = &JudgedCluster<'a>> {
        let clusters = self.clusters.iter();
        clusters.filter(|cluster| cluster.passes && !cluster.holds)
    }

    /// Returns how many clusters may be picked.
    pub fn open_count(&self) -> usize {
        self.pickable()
            .filter(|cluster| cluster.verdict.is_ok())
            .count()
    }

    /// Decides again with another max skew of a constraint. Returns how many clusters may then be
    /// picked.
    pub fn open_with(&self, changed: &HolderSpread<'_>, max_skew: i32) -> usize {
        let mut spreads = self.spreads.to_vec();
        for spread in &mut spreads {
            if spread.active.index == changed.active.index {
                spread.active.constraint.max_skew = max_skew;
            }
        }
        let admitted = |cluster: &&JudgedCluster<'_>| score(&spreads, cluster.slot).is_ok();
        self.pickable().filter(admitted).count()
    }

    /// Returns the numbers of each constraint, by index.
    pub fn insights(&self, max_domains: usize) -> Vec<v1::ConstraintInsight> {
        let spreads = self.spreads.iter();
        let insights = spreads.map(|spread| self.insight(spread, max_domains));
        let mut insights: Vec<_> = insights.collect();
        insights.sort_by_key(|insight| insight.constraint_index);
        insights
    }

    fn insight(&self, spread: &HolderSpread<'_>, max_domains: usize) -> v1::ConstraintInsight {
        let report = spread.report(usize::MAX);
        let constraint = &spread.active.constraint;
        let key = &*constraint.topology_key;
        let lowest = report.lowest();
        let usable = self.pickable().map(|cluster| cluster.node);
        let clusters = self.clusters.iter();
        let admitted = clusters.filter(|cluster| spread.admits(cluster.slot));
        v1::ConstraintInsight {
            constraint_index: wire_index(&spread.active),
            minimum: match (constraint.is_hard(), report.domain_count) {
                (false, _) => Minimum::Unspecified,
                (true, 0) => Minimum::WithoutDomains,
                (true, _) => Minimum::ByDomains,
            }
            .into(),
            minimum_domain_count: count(lowest.len()),
            minimum_domains: first(&lowest),
            limit: match constraint.is_hard() {
                true => report.global_minimum + i64::from(constraint.max_skew) - 1,
                false => 0,
            },
            admitted_node_count: count(admitted.count()),
            left_out: self.keyless(key),
            domains: domains(&report, max_domains, 1, usable),
        }
    }

    /// The clusters that a constraint does not count, which are only those without the key.
    fn keyless(&self, key: &str) -> Vec<v1::LeftOut> {
        let nodes = all_nodes(&self.read_view).map(|(_, node)| node);
        let keyless = nodes.filter(|node| node.label_text(key).is_none());
        let names: Vec<&str> = keyless.map(NodeRef::name).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![v1::LeftOut {
            cause: Cause::MissingKey.into(),
            node_count: count(names.len()),
            nodes: first(&names),
            matching_pods: 0,
        }]
    }
}
