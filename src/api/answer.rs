//! Turns decisions into responses. This runs while the read view is open, because answers borrow
//! names from it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use fixedbitset::FixedBitSet;
use prost::bytes::Bytes;

use crate::proto::v1;
use crate::snapshot::{Defaults, Imagined, Nodes, ReadView, Slot, bits};
use crate::spread::{DomainReport, NodeRefusal, Reason, Report};

/// A count for the wire.
pub fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the named nodes that the snapshot does not hold, each once, in their order.
pub fn unknown_nodes<'n>(names: impl Iterator<Item = &'n str>, nodes: &Nodes) -> Vec<String> {
    let mut seen = HashSet::new();
    let unknown = names.filter(|name| nodes.find(name).is_none() && seen.insert(*name));
    unknown.map(str::to_owned).collect()
}

/// The candidates of a decision.
pub struct Candidates<'a> {
    /// The nodes that the snapshot holds, in the order of the answer.
    pub known: Cow<'a, [Slot]>,
    /// The names that the snapshot does not hold.
    pub unknown: Vec<String>,
    /// A bit per candidate, set if it is among the known; `None` when all are.
    held: Option<FixedBitSet>,
    /// A revision at or after the last change of the candidates' order; 0 if the caller gave the
    /// order, or an overlay changes it.
    pub ordered_at: i64,
}

impl<'a> Candidates<'a> {
    /// The candidates of a request: those named, or all nodes in node order.
    pub fn of(wire: Option<&v1::NodeNames>, read_view: &ReadView<'a>) -> Self {
        let nodes = read_view.nodes;
        let Some(wire) = wire else {
            let known = Cow::Borrowed(nodes.order());
            return Self {
                known,
                unknown: Vec::new(),
                held: None,
                ordered_at: nodes.ordered_at,
            };
        };
        let slots: Vec<_> = wire.names.iter().map(|name| nodes.find(name)).collect();
        let all_known = slots.iter().all(Option::is_some);
        let unknown = match all_known {
            true => Vec::new(),
            false => unknown_nodes(wire.names.iter().map(String::as_str), nodes),
        };
        let held = (!all_known).then(|| bits(&slots, Option::is_some));
        Self {
            known: slots.into_iter().flatten().collect(),
            unknown,
            held,
            ordered_at: 0,
        }
    }

    /// Keeps only the candidates that `pass`. All candidates have to be known.
    pub fn keep(&mut self, pass: FixedBitSet) {
        self.known = pass.ones().map(|at| self.known[at]).collect();
        self.held = Some(pass);
    }

    /// Sorts named candidates by name. Afterwards the bitmaps no longer match the candidates.
    pub fn sort_by_name(&mut self, nodes: &Nodes) {
        self.known
            .to_mut()
            .sort_unstable_by(|a, b| nodes.name(*a).cmp(nodes.name(*b)));
    }

    /// A bit per candidate, also for unknown ones. It is set for known candidates whose bit in
    /// `set` is set.
    pub fn bitmap(&self, set: &FixedBitSet) -> Bytes {
        let Some(held) = &self.held else {
            return pack(set);
        };
        let mut all = FixedBitSet::with_capacity(held.len());
        for (known, at) in held.ones().enumerate() {
            all.set(at, set.contains(known));
        }
        pack(&all)
    }

    /// A bit per candidate, set for all known ones.
    pub fn known_bitmap(&self) -> Bytes {
        match &self.held {
            Some(held) => pack(held),
            None => {
                let mut all = FixedBitSet::with_capacity(self.known.len());
                all.insert_range(..);
                pack(&all)
            }
        }
    }
}

/// Packs bits into bytes: bit i is bit i % 8 of byte i / 8.
fn pack(bits: &FixedBitSet) -> Bytes {
    let words = bits.as_slice();
    let mut bytes = Vec::with_capacity(size_of_val(words));
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(bits.len().div_ceil(8));
    bytes.into()
}

/// A refused node, for the wire.
pub fn node_verdict(node: String, refusal: &NodeRefusal) -> v1::NodeVerdict {
    v1::NodeVerdict {
        node,
        code: code(refusal).into(),
        reason: refusal.text().into_owned(),
        constraint_index: index(refusal.constraint_index),
        matching_pods: refusal.matching_pods,
        skew: refusal.skew,
        reasons: refusal.reasons().map(refusal_reason).collect(),
        nominated_pods: count(refusal.nominated_pods),
    }
}

/// Returns the code of a refusal, which says whether the node would be feasible if other pods
/// moved.
pub fn code(refusal: &NodeRefusal) -> v1::Code {
    match refusal.is_resolvable {
        true => v1::Code::Unschedulable,
        false => v1::Code::UnschedulableAndUnresolvable,
    }
}

/// A reason of a refusal, in a form for programs.
fn refusal_reason(reason: &Reason) -> v1::RefusalReason {
    v1::RefusalReason {
        code: reason.code().into(),
        resource: reason.resource().unwrap_or_default().to_owned(),
    }
}

/// The index of a constraint for the wire; -1 for none.
pub fn index(index: Option<usize>) -> i32 {
    index.and_then(|i| i32::try_from(i).ok()).unwrap_or(-1)
}

/// Returns the number of nodes with each reason, for the wire: most first, then by the words.
pub fn reason_counts(refused: &BTreeMap<Reason, usize>) -> Vec<v1::ReasonCount> {
    let counted = |(reason, nodes): (&Reason, &usize)| v1::ReasonCount {
        reason: reason.text().into_owned(),
        count: count(*nodes),
        code: reason.code().into(),
        resource: reason.resource().unwrap_or_default().to_owned(),
    };
    let mut counts: Vec<_> = refused.iter().map(counted).collect();
    counts.sort_unstable_by(|a, b| (b.count, &a.reason).cmp(&(a.count, &b.reason)));
    counts
}

/// A constraint's report.
pub fn constraint_report(report: &Report<'_>) -> v1::ConstraintReport {
    let domain = |domain: &DomainReport<'_>| v1::Domain {
        value: domain.tally.value.to_owned(),
        matching_pods: domain.tally.matching_pods,
        skew: domain.skew,
        feasible: domain.feasible,
        eligible_nodes: domain.tally.eligible_nodes,
        feasible_nodes: domain.feasible_nodes,
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

/// The kind of a snapshot's default constraints, for the wire.
pub fn defaults_kind(defaults: &Defaults) -> i32 {
    let kind = match (defaults.system, defaults.constraints.is_empty()) {
        (true, _) => v1::DefaultsKind::System,
        (false, true) => v1::DefaultsKind::Unspecified,
        (false, false) => v1::DefaultsKind::List,
    };
    kind.into()
}

/// The revision that a plan is about, and the kind of the default constraints of the snapshot.
pub fn plan_head(imagined: &Imagined<'_>) -> (i64, i32) {
    imagined.read_any(|view| (view.revision, defaults_kind(view.defaults)))
}
