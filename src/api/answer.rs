//! Decisions to responses. Runs while the cut is held, because answers borrow
//! names from it.

use std::collections::BTreeMap;

use crate::proto::v1;
use crate::snapshot::{Cut, Slot};
use crate::spread::{NodeScore, Reason, Refusal, Report};

/// A count for the wire.
pub fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A candidate of a decision: the node, if the snapshot holds it.
pub struct Candidates<'a> {
    /// The nodes, in the order of the answer; `None` for unknown names.
    pub slots: Vec<Option<Slot>>,
    /// The names that the snapshot does not hold.
    pub unknown: Vec<String>,
    cut: Cut<'a>,
}

impl<'a> Candidates<'a> {
    /// The candidates of a request: those named, or all nodes in node order.
    pub fn of(wire: Option<&v1::NodeNames>, cut: Cut<'a>) -> Self {
        let nodes = cut.nodes;
        let Some(wire) = wire else {
            let slots = nodes.order().iter().copied().map(Some).collect();
            return Self {
                slots,
                unknown: Vec::new(),
                cut,
            };
        };
        let slots: Vec<_> = wire.names.iter().map(|name| nodes.find(name)).collect();
        let unknown = wire
            .names
            .iter()
            .zip(&slots)
            .filter(|(_, slot)| slot.is_none());
        let unknown = unknown.map(|(name, _)| name.clone()).collect();
        Self {
            slots,
            unknown,
            cut,
        }
    }

    /// The candidates that the snapshot holds.
    pub fn known(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied().flatten()
    }

    /// The name of a node.
    pub fn name(&self, slot: Slot) -> String {
        self.cut.nodes.name(slot).to_owned()
    }

    /// A bit per candidate, set for those that `is_set` says.
    pub fn bitmap(&self, is_set: impl Fn(Slot) -> bool) -> prost::bytes::Bytes {
        let mut bitmap = vec![0_u8; self.slots.len().div_ceil(8)];
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.is_some_and(&is_set) {
                bitmap[i / 8] |= 1 << (i % 8);
            }
        }
        bitmap.into()
    }
}

/// A refused node.
pub fn node_verdict(node: String, refusal: &Refusal) -> v1::NodeVerdict {
    let code = if refusal.reason.is_resolvable() {
        v1::Code::Unschedulable
    } else {
        v1::Code::UnschedulableAndUnresolvable
    };
    v1::NodeVerdict {
        node,
        code: code.into(),
        reason: refusal.reason.as_str().to_owned(),
        constraint_index: index(refusal.constraint_index),
        matching_pods: refusal.matching_pods,
        skew: refusal.skew,
    }
}

fn index(index: Option<usize>) -> i32 {
    index.and_then(|i| i32::try_from(i).ok()).unwrap_or(-1)
}

/// How many nodes share each reason: most first, then by reason.
pub fn reason_counts(refusals: impl Iterator<Item = Reason>) -> Vec<v1::ReasonCount> {
    count_reasons(refusals.map(Reason::as_str))
}

/// As [`reason_counts`], of reasons in words.
pub fn count_reasons<R: AsRef<str> + Ord>(reasons: impl Iterator<Item = R>) -> Vec<v1::ReasonCount> {
    let mut counts: BTreeMap<R, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    ordered_reasons(counts)
}

/// Counts by reason for the wire: most first, then by reason.
pub fn ordered_reasons<R: AsRef<str> + Ord>(counts: BTreeMap<R, usize>) -> Vec<v1::ReasonCount> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let wire = |(reason, n): (R, usize)| v1::ReasonCount {
        reason: reason.as_ref().to_owned(),
        count: count(n),
    };
    counts.into_iter().map(wire).collect()
}

/// A constraint's report.
pub fn constraint_report(report: &Report<'_>) -> v1::ConstraintReport {
    let domain = |domain: &crate::spread::DomainReport<'_>| v1::Domain {
        value: domain.tally.value.to_owned(),
        matching_pods: domain.tally.matching_pods,
        skew: domain.skew,
        feasible: domain.feasible,
        eligible_nodes: domain.tally.eligible_nodes,
    };
    v1::ConstraintReport {
        constraint_index: index(Some(report.active.index)),
        constraint: Some(report.active.to_wire()),
        from_defaults: report.active.from_defaults,
        domain_count: count(report.domain_count),
        global_minimum: report.global_minimum,
        self_match: i32::from(report.active.self_match > 0),
        domains: report.domains.iter().map(domain).collect(),
        weight: report.weight,
        min_domains_unmet: report.min_domains_unmet,
    }
}

/// A node's score.
pub fn node_score(node: String, score: &NodeScore) -> v1::NodeScore {
    v1::NodeScore {
        node,
        score: score.score,
        raw: score.raw,
        ignored: score.ignored,
    }
}
