//! How good nodes are for the soft constraints (`docs/semantics.md`,
//! "Score").

use std::cmp::Reverse;

use super::active::{Active, Constraints};
use super::question::Question;
use super::report::{Report, Tally};
use crate::snapshot::{Cut, Nodes, Slot, Symbol, View, count_per_node};

/// The key whose domains are single nodes: there, every node counts for
/// itself.
const HOSTNAME: &str = "kubernetes.io/hostname";

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
    active: &'a Active<'a>,
    key: Symbol,
    counts: Counts<'a>,
    /// The domains of the candidates that are not ignored.
    tallies: Vec<Tally<'a>>,
    weight: f64,
}

enum Counts<'a> {
    /// Matching pods on each node itself, by slot.
    PerNode(Vec<u32>),
    /// Matching pods per domain.
    PerDomain(View<'a>),
}

impl<'a> Scores<'a> {
    /// Scores candidates, all of which exist.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints<'a>,
        candidates: &[Slot],
        cut: &Cut<'a>,
    ) -> Self {
        let nodes = cut.nodes;
        if constraints.soft().next().is_none() || nodes.is_empty() {
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
        let mut keys: Vec<&str> = Vec::new();
        if constraints.all_keys_required {
            keys.extend(
                constraints
                    .soft()
                    .map(|active| &*active.constraint.topology_key),
            );
        }
        let symbols: Vec<Symbol> = keys.iter().map(|key| symbol(nodes, key)).collect();
        let ignored = |slot: Slot| {
            let node = nodes.get(slot);
            node.is_none_or(|node| symbols.iter().any(|key| node.label(*key).is_none()))
        };
        let scored: Vec<Slot> = candidates
            .iter()
            .copied()
            .filter(|slot| !ignored(*slot))
            .collect();
        let soft: Vec<Soft<'a>> = constraints
            .soft()
            .map(|active| Soft::of(active, question, constraints, &keys, &scored, cut))
            .collect();
        let score = |slot: &Slot| {
            let ignored = ignored(*slot);
            let raw = if ignored {
                0
            } else {
                raw_score(&soft, *slot, nodes)
            };
            NodeScore {
                slot: *slot,
                score: 0,
                raw,
                ignored,
            }
        };
        let mut scores: Vec<NodeScore> = candidates.iter().map(score).collect();
        normalize(&mut scores);
        Self {
            skipped: false,
            nodes: scores,
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
    pub fn reports(self, max_domains: usize) -> Vec<Report<'a>> {
        self.soft
            .into_iter()
            .map(|soft| soft.report(max_domains))
            .collect()
    }
}

impl<'a> Soft<'a> {
    fn of(
        active: &'a Active<'a>,
        question: &'a Question,
        constraints: &Constraints<'_>,
        keys: &[&'a str],
        scored: &[Slot],
        cut: &Cut<'a>,
    ) -> Self {
        let nodes = cut.nodes;
        let (counts, tallies) = if &*active.constraint.topology_key == HOSTNAME {
            let counts = count_per_node(&active.selector, nodes, cut.namespace);
            let tally = |slot: &Slot| {
                let node = nodes.get(*slot)?;
                let matching_pods = i64::from(counts[slot.index()]);
                Some(Tally {
                    matching_pods,
                    value: node.name(),
                    eligible_nodes: 1,
                })
            };
            let tallies = scored.iter().filter_map(tally).collect();
            (Counts::PerNode(counts), tallies)
        } else {
            let missing_is_empty = !constraints.all_keys_required;
            let query = active.query(question, keys.into(), missing_is_empty);
            let view = View::of(&query, nodes, cut.namespace);
            let tallies = tally_domains(&view, scored);
            (Counts::PerDomain(view), tallies)
        };
        // A size is far below 2^52, so it is exact as a double.
        let weight = (tallies.len() as f64 + 2.0).ln();
        let key = symbol(nodes, &active.constraint.topology_key);
        Self {
            active,
            key,
            counts,
            tallies,
            weight,
        }
    }

    fn count(&self, slot: Slot) -> u32 {
        match &self.counts {
            Counts::PerNode(counts) => counts[slot.index()],
            Counts::PerDomain(view) => view.at(slot).map_or(0, |domain| domain.matching_pods),
        }
    }

    fn report(self, max_domains: usize) -> Report<'a> {
        let minimum = self
            .tallies
            .iter()
            .map(|tally| tally.matching_pods)
            .min()
            .unwrap_or(0);
        let report = Report::of(self.active, self.tallies, max_domains, minimum, |_| true);
        Report {
            weight: self.weight,
            ..report
        }
    }
}

fn symbol(nodes: &Nodes, key: &str) -> Symbol {
    nodes.symbols().find(key).unwrap_or(Symbol::ABSENT)
}

/// The domains of the candidates, with how many of those are in each.
fn tally_domains<'a>(view: &View<'a>, scored: &[Slot]) -> Vec<Tally<'a>> {
    let mut candidates = vec![0_i64; view.values().len()];
    for domain in scored.iter().filter_map(|slot| view.domain_of(*slot)) {
        candidates[domain.index()] += 1;
    }
    let domains = view.values().iter().zip(candidates);
    let domains = domains.filter(|(_, candidates)| *candidates > 0);
    let tally = |(domain, eligible_nodes): (&crate::snapshot::Domain<'a>, i64)| Tally {
        value: domain.value,
        matching_pods: i64::from(domain.matching_pods),
        eligible_nodes,
    };
    domains.map(tally).collect()
}

fn raw_score(soft: &[Soft<'_>], slot: Slot, nodes: &Nodes) -> i64 {
    let node = nodes.get(slot);
    let with_key = soft
        .iter()
        .filter(|s| node.is_some_and(|n| n.label(s.key).is_some()));
    let sum: f64 = with_key
        .map(|s| {
            let offset = f64::from(s.active.constraint.max_skew - 1);
            f64::from(s.count(slot)) * s.weight + offset
        })
        .fold(0.0, |sum, part| sum + part);
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
