//! How good nodes are for the soft constraints (`docs/semantics.md`,
//! "Score").

use super::active::{Active, Constraints};
use super::report::{Report, Tally};
use crate::snapshot::{Counted, Cut, DomainId, Lens, Slot};

/// The best score of a node.
pub(super) const MAX_SCORE: i64 = 100;

/// The raw score of a candidate that is left out for want of a topology key.
const IGNORED: i64 = -1;

/// The scores of candidates.
pub struct Scores<'a> {
    /// Whether there was nothing to score by.
    pub skipped: bool,
    raw: Vec<i64>,
    /// 0 to 100, one per candidate, in their order.
    pub scores: Vec<i32>,
    soft: Vec<Soft<'a>>,
}

/// How good a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeScore {
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
    /// The nodes that have the topology key, and whether all do.
    keyed: Lens,
    all_keyed: bool,
    /// Candidates that are not ignored, by domain.
    candidates: Vec<u32>,
    weight: f64,
    /// What a node of each domain adds to its raw score.
    parts: Vec<f64>,
}

impl<'a> Scores<'a> {
    /// Scores candidates, all of which exist.
    pub fn of(constraints: &'a Constraints, candidates: &[Slot], cut: &Cut<'a>) -> Self {
        let mut scores = Self {
            skipped: constraints.soft().next().is_none() || cut.nodes.is_empty(),
            raw: vec![0; candidates.len()],
            scores: vec![0; candidates.len()],
            soft: Vec::new(),
        };
        if scores.skipped {
            return scores;
        }
        scores.soft = constraints
            .soft()
            .map(|active| Soft::of(active, cut))
            .collect();
        if constraints.all_keys_required {
            scores.ignore_keyless(candidates);
        }
        let whole = !scores.raw.contains(&IGNORED);
        for soft in &mut scores.soft {
            soft.weigh(candidates, &mut scores.raw, whole);
        }
        let (min, max) = scores.sum(candidates);
        scores.normalize(min, max);
        scores
    }

    /// Leaves out the candidates that lack a topology key.
    fn ignore_keyless(&mut self, candidates: &[Slot]) {
        for soft in self.soft.iter().filter(|soft| !soft.all_keyed) {
            for (slot, raw) in candidates.iter().zip(&mut self.raw) {
                if !soft.has_key(*slot) {
                    *raw = IGNORED;
                }
            }
        }
    }

    /// Adds up the raw scores, constraint by constraint, as the plugin does;
    /// the smallest and the largest, which is at least 0.
    fn sum(&mut self, candidates: &[Slot]) -> (i64, i64) {
        let (mut min, mut max) = (i64::MAX, 0);
        // So many that their sums stay in the nearest cache.
        let mut sums = [0.0; 512];
        for (chunk, raw) in self.raw.chunks_mut(sums.len()).enumerate() {
            let start = chunk * sums.len();
            let sums = &mut sums[..raw.len()];
            sums.fill(0.0);
            for soft in &self.soft {
                soft.add_to(sums, candidates, start);
            }
            for (raw, sum) in raw.iter_mut().zip(sums).filter(|(raw, _)| **raw != IGNORED) {
                *raw = round_half_up(*sum);
                min = min.min(*raw);
                max = max.max(*raw);
            }
        }
        (min, max)
    }

    /// Brings raw scores to 0..100, the lowest being the best.
    fn normalize(&mut self, min: i64, max: i64) {
        if min > max {
            return;
        }
        // A score is 0 to 100, so it is no less as an `i32`.
        let score = |raw: i64| match max {
            0 => MAX_SCORE as i32,
            _ => (MAX_SCORE * (max + min - raw) / max) as i32,
        };
        let range = usize::try_from(max - min).unwrap_or(usize::MAX);
        if range < self.raw.len() {
            // Fewer scores than nodes: a division each, not one a node.
            let table: Vec<i32> = (min..=max).map(score).collect();
            for (out, raw) in self.scores.iter_mut().zip(&self.raw) {
                // Being ignored is before the start.
                *out = usize::try_from(*raw - min).map_or(0, |above| table[above]);
            }
        } else {
            for (out, raw) in self.scores.iter_mut().zip(&self.raw) {
                *out = if *raw == IGNORED { 0 } else { score(*raw) };
            }
        }
    }

    /// The score of the candidate at an index.
    pub fn node(&self, index: usize) -> NodeScore {
        let ignored = self.raw[index] == IGNORED;
        NodeScore {
            score: self.scores[index].into(),
            raw: if ignored { 0 } else { self.raw[index] },
            ignored,
        }
    }

    /// The indices of the best `n` candidates, best first, ties in the order
    /// of the candidates.
    pub fn best(&self, n: usize) -> Vec<usize> {
        // There are 101 scores: count from above who is surely among the best.
        let mut at_score = [0_usize; MAX_SCORE as usize + 1];
        self.scores
            .iter()
            .for_each(|score| at_score[*score as usize] += 1);
        let mut room = n;
        let mut least = MAX_SCORE as usize;
        while least > 0 && at_score[least] < room {
            room -= at_score[least];
            least -= 1;
        }
        let mut best = Vec::with_capacity(n.min(self.scores.len()));
        for (index, score) in self.scores.iter().enumerate() {
            let score = *score as usize;
            if score > least || (score == least && room > 0) {
                room -= usize::from(score == least);
                best.push(index);
            }
        }
        best.sort_by_key(|index| std::cmp::Reverse(self.scores[*index]));
        best
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
        let counted = cut.count(active.query());
        // Where every node counts for itself, having the key is another matter.
        let keyed = match &active.keyed {
            Some(key) => cut.lens(key),
            None => counted.lens().clone(),
        };
        Self {
            active,
            all_keyed: keyed.topology.keyed() == cut.nodes.len(),
            counted,
            keyed,
            candidates: Vec::new(),
            weight: 0.0,
            parts: Vec::new(),
        }
    }

    /// Counts the domains of the candidates that are not ignored, and what a
    /// node of each adds to its raw score.
    fn weigh(&mut self, slots: &[Slot], raw: &mut [i64], whole: bool) {
        let candidates = self.candidates_by_domain(slots, raw, whole);
        let size = candidates
            .iter()
            .filter(|candidates| **candidates > 0)
            .count();
        // A size is far below 2^52, so it is exact as a double.
        self.weight = (size as f64 + 2.0).ln();
        self.candidates = candidates;
        let offset = f64::from(self.active.constraint.max_skew - 1);
        let part = |count: u32| f64::from(count) * self.weight + offset;
        self.parts = self
            .counted
            .counts()
            .iter()
            .map(|count| part(*count))
            .collect();
        self.parts.resize(self.counted.value_count(), part(0));
    }

    /// Candidates that are not ignored, by domain; `whole` if none is.
    fn candidates_by_domain(&self, slots: &[Slot], raw: &mut [i64], whole: bool) -> Vec<u32> {
        if whole && self.all_keyed && self.counted.is_whole(slots) {
            return self.counted.lens().topology.nodes_in().to_vec();
        }
        let mut candidates = vec![0; self.counted.value_count().max(1)];
        self.counted.zip_domains(slots, 0, raw, |domain, raw| {
            if *raw != IGNORED {
                // A candidate without the key is in the domain of the empty
                // value.
                let domain = if domain.is_some() {
                    domain
                } else {
                    DomainId::EMPTY
                };
                candidates[domain.index()] += 1;
            }
        });
        candidates
    }

    /// Adds its part to the sum of each candidate that has its key.
    fn add_to(&self, sums: &mut [f64], slots: &[Slot], start: usize) {
        // Being in no domain is past the end.
        let part = |domain: DomainId| self.parts.get(domain.index()).copied().unwrap_or(0.0);
        if self.active.keyed.is_none() || self.all_keyed {
            self.counted
                .zip_domains(slots, start, sums, |domain, sum| *sum += part(domain));
            return;
        }
        for (slot, sum) in slots[start..].iter().zip(sums) {
            if self.has_key(*slot) {
                *sum += part(self.counted.domain_of(*slot));
            }
        }
    }

    /// Whether a node has the topology key.
    fn has_key(&self, slot: Slot) -> bool {
        self.keyed.topology.domain_of(slot).is_some()
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

/// Rounds a sum, which is not negative, half away from zero, as the plugin
/// does. Saturates for sums beyond what a cluster can hold.
pub(super) fn round_half_up(sum: f64) -> i64 {
    let whole = sum as i64;
    // The difference of a double and its whole part is exact.
    whole.saturating_add(i64::from(sum - whole as f64 >= 0.5))
}
