//! How good nodes are for the soft constraints (`docs/semantics.md`,
//! "Score").

use std::cmp::Reverse;

use super::active::{Active, Constraints};
use super::report::{Report, Tally};
use crate::snapshot::{Counted, Cut, DomainId, Lens, Nodes, Slot};

/// The best score of a node.
const MAX_SCORE: i64 = 100;

/// The scores of candidates.
pub struct Scores<'a> {
    /// Whether there was nothing to score by.
    pub skipped: bool,
    /// One per candidate, in their order.
    pub nodes: Vec<NodeScore>,
    soft: Vec<Soft<'a>>,
}

/// How good a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeScore {
    /// The node.
    pub slot: Slot,
    /// 0 to 100, higher is better.
    pub score: i64,
    /// The sum before it was brought to 0..100; lower is better.
    pub raw: i64,
    /// Whether the node was left out for want of a topology key.
    pub ignored: bool,
}

/// A soft constraint, counted.
struct Soft<'a> {
    active: &'a Active,
    counted: Counted<'a>,
    /// The nodes that have the topology key.
    keyed: Lens,
    /// Candidates by domain.
    candidates: Vec<u32>,
    size: usize,
    weight: f64,
}

impl<'a> Scores<'a> {
    /// Scores candidates, all of which exist.
    pub fn of(constraints: &'a Constraints, candidates: &[Slot], cut: &Cut<'a>) -> Self {
        if constraints.soft().next().is_none() || cut.nodes.is_empty() {
            let score = |slot: &Slot| NodeScore {
                slot: *slot,
                score: 0,
                raw: 0,
                ignored: false,
            };
            let nodes = candidates.iter().map(score).collect();
            return Self {
                skipped: true,
                nodes,
                soft: Vec::new(),
            };
        }
        let mut soft: Vec<Soft<'a>> = constraints
            .soft()
            .map(|active| Soft::of(active, cut))
            .collect();
        let all_keys = constraints.all_keys_required;
        let ignored = |soft: &[Soft<'_>], slot| all_keys && !soft.iter().all(|s| s.has_key(slot));
        let scored = candidates.iter().copied();
        let scored: Vec<Slot> = scored.filter(|slot| !ignored(&soft, *slot)).collect();
        soft.iter_mut().for_each(|soft| soft.weigh(&scored));
        let score = |slot: &Slot| {
            let ignored = ignored(&soft, *slot);
            let raw = if ignored { 0 } else { raw_score(&soft, *slot) };
            NodeScore {
                slot: *slot,
                score: 0,
                raw,
                ignored,
            }
        };
        let mut nodes: Vec<NodeScore> = candidates.iter().map(score).collect();
        normalize(&mut nodes);
        Self {
            skipped: false,
            nodes,
            soft,
        }
    }

    /// The best `n`, best first, ties in node order.
    pub fn keep_best(&mut self, n: usize, nodes: &Nodes) {
        let rank = |score: &NodeScore| (Reverse(score.score), nodes.name(score.slot));
        if n < self.nodes.len() {
            self.nodes
                .select_nth_unstable_by(n, |a, b| rank(a).cmp(&rank(b)));
            self.nodes.truncate(n);
        }
        self.nodes.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
    }

    /// The numbers behind each soft constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.soft
            .iter()
            .map(|soft| soft.report(max_domains))
            .collect()
    }
}

impl<'a> Soft<'a> {
    fn of(active: &'a Active, cut: &Cut<'a>) -> Self {
        Self {
            active,
            counted: cut.count(active.query()),
            keyed: cut.lens(&active.everybody()),
            candidates: Vec::new(),
            size: 0,
            weight: 0.0,
        }
    }

    /// Counts the domains of the candidates that are not ignored.
    fn weigh(&mut self, scored: &[Slot]) {
        self.candidates = vec![0; self.counted.value_count()];
        for slot in scored {
            let domain = self.domain_of(*slot);
            let candidates = &mut self.candidates[domain.index()];
            self.size += usize::from(*candidates == 0);
            *candidates += 1;
        }
        // A size is far below 2^52, so it is exact as a double.
        self.weight = (self.size as f64 + 2.0).ln();
    }

    /// Whether a node has the topology key.
    fn has_key(&self, slot: Slot) -> bool {
        self.keyed.topology.domain_of(slot).is_some()
    }

    /// The domain of a candidate; one without the key is in that of the empty
    /// value.
    fn domain_of(&self, slot: Slot) -> DomainId {
        match self.counted.domain_of(slot) {
            DomainId::NONE => DomainId::EMPTY,
            domain => domain,
        }
    }

    fn report(&self, max_domains: usize) -> Report<'_> {
        let domains = self
            .candidates
            .iter()
            .enumerate()
            .filter(|(_, candidates)| **candidates > 0);
        let tally = |(index, candidates): (usize, &u32)| {
            let domain = self.counted.domain(DomainId::at(index));
            Tally {
                matching_pods: i64::from(domain.matching_pods),
                value: domain.value,
                eligible_nodes: i64::from(*candidates),
            }
        };
        let tallies: Vec<Tally<'_>> = domains.map(tally).collect();
        let minimum = tallies
            .iter()
            .map(|tally| tally.matching_pods)
            .min()
            .unwrap_or(0);
        let report = Report::of(self.active, tallies, max_domains, minimum, |_| true);
        Report {
            weight: self.weight,
            ..report
        }
    }
}

fn raw_score(soft: &[Soft<'_>], slot: Slot) -> i64 {
    let mut sum = 0.0;
    for soft in soft.iter().filter(|soft| soft.has_key(slot)) {
        let count = soft.counted.matching_pods(soft.domain_of(slot));
        let offset = f64::from(soft.active.constraint.max_skew - 1);
        sum += f64::from(count) * soft.weight + offset;
    }
    // `round` goes half away from zero, as the plugin's does. Saturating for
    // sums beyond what a cluster can hold.
    sum.round() as i64
}

/// Brings raw scores to 0..100, the lowest being the best.
fn normalize(scores: &mut [NodeScore]) {
    let raw = || {
        scores
            .iter()
            .filter(|score| !score.ignored)
            .map(|score| score.raw)
    };
    let max = raw().fold(0, i64::max);
    let min = raw().min().unwrap_or(0);
    for score in scores.iter_mut().filter(|score| !score.ignored) {
        score.score = if max == 0 {
            MAX_SCORE
        } else {
            MAX_SCORE * (max + min - score.raw) / max
        };
    }
}
