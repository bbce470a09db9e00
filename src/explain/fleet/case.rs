//! What is explained: a placement, and what every constraint says of each
//! cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::diagnosis::{count, wire_index};
use crate::proto::v1;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::left_out::Cause;
use crate::snapshot::{NodeRef, ReadView, Slot};
use crate::spread::fleet::{
    HolderSpread, Judge, PickEffect, PlacementSpec, RefusedBy, holders, score,
};

/// What it costs to look at a cluster and its labels, in units.
const UNITS_PER_CLUSTER: usize = 20;

/// Names that an insight lists.
const LISTED: usize = 10;

/// A decision and what it was made from.
pub struct PlacementCase<'a> {
    /// The constraints, hard ones first.
    pub spreads: &'a [HolderSpread],
    /// The state that it was decided on.
    pub read_view: ReadView<'a>,
    /// The clusters that were judged.
    pub clusters: Vec<JudgedCluster<'a>>,
}

/// A cluster and what came of it.
pub struct JudgedCluster<'a> {
    /// The cluster.
    pub slot: Slot,
    /// Its labels and taints.
    pub node: NodeRef<'a>,
    /// Its score, or why it has none.
    pub verdict: Result<i64, RefusedBy<'a>>,
    /// Whether it passes the checks besides spread.
    pub passes: bool,
    /// Whether it holds the placement already: it cannot be picked again.
    pub holds: bool,
}

impl<'a> PlacementCase<'a> {
    /// The case of a question, decided about `slots`.
    pub fn of(
        question: &'a PlacementSpec,
        judge: &'a Judge<'a>,
        slots: &[Slot],
        read_view: &ReadView<'a>,
    ) -> Self {
        let holds = holders(&question.holders, read_view);
        let judged = |slot: &Slot| {
            Some(JudgedCluster {
                slot: *slot,
                node: read_view.nodes.get(*slot)?,
                verdict: judge.judge(*slot),
                passes: judge.check(*slot).is_ok(),
                holds: holds(*slot),
            })
        };
        Self {
            spreads: judge.spreads(),
            read_view: *read_view,
            clusters: slots.iter().filter_map(judged).collect(),
        }
    }

    /// The hard constraints, in order.
    pub fn hard(&self) -> impl Iterator<Item = &'a HolderSpread> {
        let spreads = self.spreads.iter();
        spreads.filter(|spread| spread.active.constraint.is_hard())
    }

    /// The clusters that may be picked as far as constraints do not matter.
    pub fn pickable(&self) -> impl Iterator<Item = &JudgedCluster<'a>> {
        let clusters = self.clusters.iter();
        clusters.filter(|cluster| cluster.passes && !cluster.holds)
    }

    /// How many clusters may be picked.
    pub fn open_count(&self) -> usize {
        self.pickable()
            .filter(|cluster| cluster.verdict.is_ok())
            .count()
    }

    /// Whether a constraint admits a cluster.
    pub fn admits(spread: &HolderSpread, slot: Slot) -> bool {
        let class = spread.class(spread.domain_of(slot));
        spread.effect(class) != PickEffect::Refuses
    }

    /// Decides again with another max skew of a constraint: how many clusters
    /// could be picked.
    pub fn open_with(&self, changed: &HolderSpread, max_skew: i32) -> usize {
        let mut spreads = self.spreads.to_vec();
        for spread in &mut spreads {
            if spread.active.index == changed.active.index {
                spread.active.constraint.max_skew = max_skew;
            }
        }
        let admitted = |cluster: &&JudgedCluster<'_>| score(&spreads, cluster.slot).is_ok();
        self.pickable().filter(admitted).count()
    }

    /// The values of a key among the clusters that may be picked.
    pub fn pickable_values(&self, key: &str) -> BTreeSet<&'a str> {
        let pickable = self.pickable();
        pickable
            .filter_map(|cluster| cluster.node.label_text(key))
            .collect()
    }

    /// All clusters of the snapshot, judged or not.
    pub fn all_clusters(&self) -> impl Iterator<Item = NodeRef<'a>> {
        let nodes = self.read_view.nodes;
        let slots = match self
            .read_view
            .affords(nodes.len().saturating_mul(UNITS_PER_CLUSTER))
        {
            true => nodes.order(),
            false => &[],
        };
        slots.iter().filter_map(|slot| nodes.get(*slot))
    }

    /// What stands behind each constraint, by index.
    pub fn insights(&self, max_domains: usize) -> Vec<v1::ConstraintInsight> {
        let insights = self
            .spreads
            .iter()
            .map(|spread| self.insight(spread, max_domains));
        let mut insights: Vec<_> = insights.collect();
        insights.sort_by_key(|insight| insight.constraint_index);
        insights
    }

    fn insight(&self, spread: &HolderSpread, max_domains: usize) -> v1::ConstraintInsight {
        let report = spread.report(usize::MAX);
        let constraint = &spread.active.constraint;
        let key = &*constraint.topology_key;
        let domains = report.domains.iter();
        let lowest = domains.filter(|d| d.tally.matching_pods == report.global_minimum);
        let lowest: Vec<String> = lowest.map(|d| d.tally.value.to_owned()).collect();
        let mut usable: BTreeMap<&str, i64> = BTreeMap::new();
        for value in self.pickable().filter_map(|c| c.node.label_text(key)) {
            *usable.entry(value).or_default() += 1;
        }
        let listed = report.domains.iter().take(max_domains);
        let domains = listed.map(|domain| v1::DomainInsight {
            value: domain.tally.value.to_owned(),
            matching_pods_after: domain.tally.matching_pods + 1,
            usable_node_count: usable.get(domain.tally.value).copied().unwrap_or(0),
        });
        let admitted = self
            .clusters
            .iter()
            .filter(|c| Self::admits(spread, c.slot));
        v1::ConstraintInsight {
            constraint_index: wire_index(&spread.active),
            minimum: match (constraint.is_hard(), report.domain_count) {
                (false, _) => Minimum::Unspecified,
                (true, 0) => Minimum::WithoutDomains,
                (true, _) => Minimum::ByDomains,
            }
            .into(),
            minimum_domain_count: count(lowest.len()),
            minimum_domains: lowest.into_iter().take(LISTED).collect(),
            limit: match constraint.is_hard() {
                true => report.global_minimum + i64::from(constraint.max_skew) - 1,
                false => 0,
            },
            admitted_node_count: count(admitted.count()),
            left_out: self.keyless(key),
            domains: domains.collect(),
        }
    }

    /// Only clusters without the key are left out.
    fn keyless(&self, key: &str) -> Vec<v1::LeftOut> {
        let names = self
            .all_clusters()
            .filter(|node| node.label_text(key).is_none());
        let names: Vec<String> = names.map(|node| node.name().to_owned()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![v1::LeftOut {
            cause: Cause::MissingKey.into(),
            node_count: count(names.len()),
            nodes: names.into_iter().take(LISTED).collect(),
            matching_pods: 0,
        }]
    }
}
