//! Score: rates nodes by the soft constraints (`docs/semantics.md`, "Score"). Its arithmetic is
//! nowhere else.

use std::cmp::Reverse;

use super::hard::{GlobalMinimum, Report, first};
use super::question::{Active, Constraints};
use crate::snapshot::{
    DomainCount, DomainCounts, DomainId, PartitionInUse, ReadView, Slot, Stopped,
};

/// The best score of a node.
pub const MAX_SCORE: i64 = 100;

/// Rounds a sum, which is not negative, half away from zero, as the plugin
/// does. Saturates for sums that no cluster can reach.
fn round_half_up(sum: f64) -> i64 {
    let whole = sum as i64;
    // The difference of a double and its whole part is exact.
    whole.saturating_add(i64::from(sum - whole as f64 >= 0.5))
}

/// The raw score of a candidate that Score ignores because it lacks a topology key.
const IGNORED: i64 = -1;

/// A soft constraint, counted.
#[derive(Clone)]
struct Soft<'a> {
    active: &'a Active,
    counted: DomainCounts<'a>,
    /// The nodes that have the topology key.
    keyed: PartitionInUse,
    /// True if all nodes have the topology key.
    all_keyed: bool,
    /// The number of candidates in each domain, without ignored candidates.
    candidates: Vec<u32>,
    /// The weight of each matching pod.
    weight: f64,
}

impl<'a> Soft<'a> {
    fn of(active: &'a Active, read_view: &ReadView<'a>) -> Result<Self, Stopped> {
        let counted = read_view.count(active.query())?;
        // If every node is a domain of its own, the partition has all nodes, with or without the
        // key. So another partition says which nodes have the key.
        let keyed = match &active.keyed {
            Some(key) => read_view.in_use(key)?,
            None => counted.in_use().clone(),
        };
        Ok(Self {
            active,
            all_keyed: keyed.topology.keyed() == read_view.nodes.len(),
            counted,
            keyed,
            candidates: Vec::new(),
            weight: 0.0,
        })
    }

    /// Returns whether a node has the topology key.
    fn has_key(&self, slot: Slot) -> bool {
        self.all_keyed || self.keyed.topology.domain_of(slot).is_some()
    }

    /// Sets the weight from the number of domains of the candidates that are not ignored.
    fn weigh(&mut self, slots: &[Slot], ignored: Option<&[bool]>) {
        let mut candidates = vec![0; self.counted.value_count().max(1)];
        let is_ignored = |index: usize| ignored.is_some_and(|ignored| ignored[index]);
        for (_, slot) in slots.iter().enumerate().filter(|(i, _)| !is_ignored(*i)) {
            // A candidate without the key is in the domain of the empty value.
            let domain = match self.counted.domain_of(*slot) {
                DomainId::NONE => DomainId::EMPTY,
                domain => domain,
            };
            candidates[domain.index()] += 1;
        }
        let size = candidates.iter().filter(|there| **there > 0).count();
        // A size is far below 2^52, so a double holds it exactly.
        self.weight = (size as f64 + 2.0).ln();
        self.candidates = candidates;
    }

    /// Returns the addend of the constraint to the raw score of a node.
    fn part_of(&self, slot: Slot) -> f64 {
        if !self.has_key(slot) {
            return 0.0;
        }
        let domain = self.counted.domain_of(slot);
        if !domain.is_some() {
            return 0.0;
        }
        let offset = f64::from(self.active.constraint.max_skew - 1);
        f64::from(self.counted.matching_pods(domain)) * self.weight + offset
    }

    /// The numbers behind the constraint.
    fn report(&self, max_domains: usize) -> Report<'_> {
        let counted = &self.counted;
        let domains = self.candidates.iter().enumerate().filter(|(_, n)| **n > 0);
        let pods = domains.map(|(i, _)| counted.matching_pods(DomainId::at(i)));
        let listed = counted.fewest_among(&self.candidates, max_domains);
        let listed = listed.into_iter().map(|id| DomainCount {
            eligible_nodes: self.candidates[id.index()].into(),
            ..counted.domain(id)
        });
        let domain_count = pods.clone().count();
        // No soft constraint has `minDomains`.
        let minimum = GlobalMinimum::of(None, domain_count, pods.min());
        Report {
            weight: self.weight,
            ..Report::of(self.active, domain_count, listed, minimum)
        }
    }
}

/// The scores of candidates.
#[derive(Clone)]
pub struct Scores<'a> {
    /// True if there was nothing to score by.
    pub skipped: bool,
    soft: Vec<Soft<'a>>,
    all_keys_required: bool,
    /// The raw score of each candidate; [`IGNORED`] if it has none.
    raw: Vec<i64>,
    /// The score of each candidate: 0 to 100.
    scores: Vec<u8>,
}

/// The score of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeScore {
    /// 0 to 100, higher is better.
    pub score: i64,
    /// The sum before normalization to 0..100; lower is better.
    pub raw: i64,
    /// True if the node was ignored because it lacks a topology key.
    pub ignored: bool,
}

impl<'a> Scores<'a> {
    /// Scores candidates, all of which exist.
    pub fn of(
        constraints: &'a Constraints,
        candidates: &[Slot],
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut scores = Self::counted(constraints, read_view)?;
        let steps = scores.soft.len().saturating_mul(candidates.len());
        read_view.deadline.step(steps)?;
        scores.score(candidates);
        Ok(scores)
    }

    /// The counts of the soft constraints, before any candidate is scored.
    pub fn counted(
        constraints: &'a Constraints,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let soft = constraints.soft().filter(|_| !read_view.nodes.is_empty());
        let soft: Vec<Soft<'_>> = soft
            .map(|active| Soft::of(active, read_view))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            skipped: soft.is_empty(),
            soft,
            all_keys_required: constraints.all_keys_required,
            raw: Vec::new(),
            scores: Vec::new(),
        })
    }

    /// Scores candidates, all of which exist, instead of those before.
    pub fn score(&mut self, candidates: &[Slot]) {
        if self.skipped {
            self.raw = vec![0; candidates.len()];
            self.scores = vec![0; candidates.len()];
            return;
        }
        let ignored = match self.all_keys_required {
            true => keyless(&self.soft, candidates),
            false => None,
        };
        for soft in &mut self.soft {
            soft.weigh(candidates, ignored.as_deref());
        }
        // As in the plugin, the parts are added up in the order of the constraints.
        let sum = |slot: &Slot| self.soft.iter().map(|soft| soft.part_of(*slot)).sum();
        self.raw = candidates
            .iter()
            .map(|slot| round_half_up(sum(slot)))
            .collect();
        let ignored = ignored.into_iter().flatten();
        for (raw, _) in self.raw.iter_mut().zip(ignored).filter(|(_, it)| *it) {
            *raw = IGNORED;
        }
        self.scores = normalize(&self.raw);
    }

    /// Counts one more pod like that of the question on a node. It counts in the next scores.
    pub fn add(&mut self, slot: Slot) {
        let counting = self.soft.iter_mut();
        for soft in counting.filter(|soft| soft.active.counts_itself()) {
            soft.counted.add(slot);
        }
    }

    /// The score of the candidate at an index: 0 to 100.
    pub fn at(&self, index: usize) -> i64 {
        self.scores[index].into()
    }

    /// The scores of all candidates, in their order: 0 to 100.
    pub fn packed(&self) -> &[u8] {
        &self.scores
    }

    /// The score of the candidate at an index.
    pub fn node(&self, index: usize) -> NodeScore {
        NodeScore {
            score: self.at(index),
            raw: self.raw[index].max(0),
            ignored: self.raw[index] == IGNORED,
        }
    }

    /// The indices of the best `n` candidates, best first. Candidates of equal score keep their
    /// order.
    pub fn best(&self, n: usize) -> Vec<usize> {
        let all = self.scores.iter().map(|score| Reverse(*score)).zip(0..);
        let best = first(all.collect(), n).into_iter();
        best.map(|(_, index)| index).collect()
    }

    /// The numbers behind each soft constraint, of all its domains, whichever were scored.
    pub fn whole_reports(&self, max_domains: usize) -> impl Iterator<Item = Report<'_>> {
        self.soft.iter().map(move |soft| Report {
            weight: soft.weight,
            ..Report::counted(soft.active, &soft.counted, max_domains)
        })
    }

    /// The numbers behind each soft constraint.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.soft
            .iter()
            .map(|soft| soft.report(max_domains))
            .collect()
    }
}

/// A flag for each candidate that lacks a topology key; `None` if no candidate does.
fn keyless(soft: &[Soft<'_>], candidates: &[Slot]) -> Option<Vec<bool>> {
    let partial: Vec<&Soft<'_>> = soft.iter().filter(|soft| !soft.all_keyed).collect();
    let lacks = |slot: &Slot| !partial.iter().all(|soft| soft.has_key(*slot));
    (!partial.is_empty()).then(|| candidates.iter().map(lacks).collect())
}

/// Returns the score of each candidate: raw scores normalized to 0..100, the lowest being the best.
fn normalize(all: &[i64]) -> Vec<u8> {
    let scored = all.iter().copied().filter(|raw| *raw != IGNORED);
    let (min, max) = (scored.clone().min().unwrap_or(0), scored.max().unwrap_or(0));
    // A score is 0 to 100, so it fits into a byte.
    let score = |raw: i64| match max {
        0 => MAX_SCORE as u8,
        max => (MAX_SCORE * (max + min - raw) / max) as u8,
    };
    // With fewer scores than candidates, one division per score is cheaper than one per candidate.
    let width = usize::try_from(max - min).unwrap_or(usize::MAX);
    let table: Option<Vec<u8>> = (width < all.len()).then(|| (min..=max).map(score).collect());
    let score = |raw: &i64| match &table {
        _ if *raw == IGNORED => 0,
        Some(table) => table[(*raw - min) as usize],
        None => score(*raw),
    };
    all.iter().map(score).collect()
}
