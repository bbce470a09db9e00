//! Score: rates nodes by the soft constraints (`docs/semantics.md`, "Score"). Its arithmetic is
//! nowhere else.

use super::hard::{GlobalMinimum, Report};
use super::question::{Active, Constraints};
use crate::matching::Constraint;
use crate::snapshot::{
    DomainCount, DomainCounts, DomainId, Nodes, PartitionInUse, ReadView, Slot, Stopped,
};

/// The best score of a node.
pub const MAX_SCORE: i64 = 100;

/// The weight that a soft constraint adds to raw scores.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// The weight of each matching pod.
    per_pod: f64,
    /// The addend for each node that has the key.
    offset: f64,
}

impl Weight {
    /// The weight of a constraint with this many domains among the scored nodes.
    fn of(constraint: &Constraint, size: usize) -> Self {
        Self {
            // A size is far below 2^52, so a double holds it exactly.
            per_pod: (size as f64 + 2.0).ln(),
            offset: f64::from(constraint.max_skew - 1),
        }
    }

    /// The addend of a node in a domain with this many matching pods.
    fn part(&self, matching_pods: u32) -> f64 {
        f64::from(matching_pods) * self.per_pod + self.offset
    }
}

/// Rounds a sum, which is not negative, half away from zero, as the plugin
/// does. Saturates for sums that no cluster can reach.
fn round_half_up(sum: f64) -> i64 {
    let whole = sum as i64;
    // The difference of a double and its whole part is exact.
    whole.saturating_add(i64::from(sum - whole as f64 >= 0.5))
}

/// With at most this many domains, the class of a node is its domain, else its count.
const FEW_DOMAINS: usize = 64;

/// A soft constraint, counted.
#[derive(Clone)]
struct Soft<'a> {
    active: &'a Active,
    counted: DomainCounts<'a>,
    nodes: &'a Nodes,
    /// The nodes that have the topology key.
    keyed: PartitionInUse,
    /// True if all nodes have the topology key.
    all_keyed: bool,
    /// The number of candidates in each domain, without ignored candidates.
    candidates: Vec<u32>,
    /// True if the candidates are all nodes and each has the key.
    whole: bool,
    weight: Weight,
}

/// The classes of nodes under a constraint, which adds the same to all nodes of a class. Class 0
/// has the nodes that lack the key, for which it adds 0.
struct Classes {
    /// The addend of a node of each class.
    parts: Vec<f64>,
    /// True if a class stands for a count, not for a domain.
    by_count: bool,
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
            nodes: read_view.nodes,
            all_keyed: keyed.topology.keyed() == read_view.nodes.len(),
            counted,
            keyed,
            candidates: Vec::new(),
            whole: false,
            weight: Weight::default(),
        })
    }

    /// Returns whether a node has the topology key.
    fn has_key(&self, slot: Slot) -> bool {
        self.all_keyed || self.keyed.topology.domain_of(slot).is_some()
    }

    /// Sets the weight from the number of domains of the candidates that are not ignored.
    fn weigh(&mut self, slots: &[Slot], ignored: Option<&[bool]>) {
        self.whole = ignored.is_none() && self.all_keyed && self.nodes.is_order(slots);
        let candidates = self.candidates_by_domain(slots, ignored);
        let size = candidates
            .iter()
            .filter(|candidates| **candidates > 0)
            .count();
        self.weight = Weight::of(&self.active.constraint, size);
        self.candidates = candidates;
    }

    fn candidates_by_domain(&self, slots: &[Slot], ignored: Option<&[bool]>) -> Vec<u32> {
        if self.whole {
            return self.counted.in_use().topology.nodes_in().to_vec();
        }
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
        candidates
    }

    /// Returns the addend of the constraint to the raw score of a node.
    fn part_of(&self, slot: Slot) -> f64 {
        if !self.has_key(slot) {
            return 0.0;
        }
        match self.counted.domain_of(slot) {
            DomainId::NONE => 0.0,
            domain => self.weight.part(self.counted.matching_pods(domain)),
        }
    }

    /// Returns the number of classes.
    fn class_count(&self) -> usize {
        let (domains, counts) = (self.counted.value_count(), self.counted.largest() as usize);
        1 + if domains <= FEW_DOMAINS {
            domains
        } else {
            counts + 1
        }
    }

    /// The classes; their number is [`Self::class_count`].
    fn classes(&self) -> Classes {
        let by_count = self.counted.value_count() > FEW_DOMAINS;
        let part = |class: usize| match class.checked_sub(1) {
            None => 0.0,
            Some(count) if by_count => self.weight.part(u32::try_from(count).unwrap_or(u32::MAX)),
            Some(domain) => self
                .weight
                .part(self.counted.matching_pods(DomainId::at(domain))),
        };
        Classes {
            parts: (0..self.class_count()).map(part).collect(),
            by_count,
        }
    }

    /// Adds the class of each of `slots`, times `stride`, to its number.
    fn add_classes(&self, classes: &Classes, slots: &[Slot], stride: u32, numbers: &mut [u32]) {
        let counts = self.counted.counts();
        let of_domain = |domain: DomainId| match domain {
            DomainId::NONE => 0,
            domain if classes.by_count => self.counted.matching_pods(domain) + 1,
            // There are few domains, so their numbers are small.
            domain => domain.index() as u32 + 1,
        };
        if !self.all_keyed || !self.nodes.is_order(slots) {
            for (slot, number) in slots.iter().zip(numbers) {
                if self.has_key(*slot) {
                    *number += of_domain(self.counted.domain_of(*slot)) * stride;
                }
            }
            return;
        }
        let layout = self.counted.in_use().topology.layout(self.nodes);
        if classes.by_count
            && let Some(counts) = layout.in_a_row(counts)
        {
            for (count, number) in counts.iter().zip(numbers) {
                *number += (*count + 1) * stride;
            }
            return;
        }
        for (domain, number) in layout.domains().iter().zip(numbers) {
            *number += of_domain(*domain) * stride;
        }
    }

    /// The numbers behind the constraint.
    fn report(&self, max_domains: usize) -> Report<'_> {
        let counted = &self.counted;
        let partition = &counted.in_use().partition;
        let domain_count = self.candidates.iter().filter(|n| **n > 0).count();
        // If all nodes are candidates and as many domains are in the partition, the domains are the
        // same.
        let same = self.whole && partition.domain_count() == domain_count;
        let minimum = || {
            let domains = self.candidates.iter().enumerate().filter(|(_, n)| **n > 0);
            domains
                .map(|(i, _)| counted.matching_pods(DomainId::at(i)))
                .min()
        };
        let (listed, minimum) = if same {
            (counted.fewest(max_domains), counted.smallest())
        } else {
            let least = counted.fewest_among(&self.candidates, max_domains);
            (least, minimum())
        };
        let tally = |id: DomainId| DomainCount {
            eligible_nodes: self.candidates[id.index()].into(),
            ..counted.domain(id)
        };
        // No soft constraint has `minDomains`.
        let minimum = GlobalMinimum::of(None, domain_count, minimum);
        let listed = listed.into_iter().map(tally);
        Report {
            weight: self.weight.per_pod,
            ..Report::of(self.active, domain_count, listed, minimum)
        }
    }
}

/// The cell of the candidates that Score ignores because they lack a topology key.
const IGNORED: u32 = 0;

/// The raw score of cells without candidates and of [`IGNORED`].
const NO_SCORE: i64 = -1;

/// Candidates in cells: no soft constraint distinguishes the candidates of a cell, so their score is
/// computed once.
#[derive(Clone)]
struct ScoreCells {
    /// The cell of each candidate.
    of_candidates: Vec<u32>,
    /// The raw score of each cell; negative if it has none.
    raw: Vec<i64>,
}

impl ScoreCells {
    /// All candidates in one cell, with raw score 0.
    fn one(candidates: usize) -> Self {
        Self {
            of_candidates: vec![1; candidates],
            raw: vec![NO_SCORE, 0],
        }
    }

    /// The cells of candidates; some candidates may be `ignored`.
    fn of(soft: &[Soft<'_>], candidates: &[Slot], ignored: Option<&[bool]>) -> Self {
        let cells = soft
            .iter()
            .try_fold(1_usize, |cells, soft| cells.checked_mul(soft.class_count()));
        match cells {
            // With fewer candidates than cells, hardly any candidates would share a cell.
            Some(cells) if cells <= candidates.len() => Self::shared(soft, candidates, ignored),
            _ => Self::single(soft, candidates, ignored),
        }
    }

    /// Every candidate in a cell of its own.
    fn single(soft: &[Soft<'_>], candidates: &[Slot], ignored: Option<&[bool]>) -> Self {
        let parts = |slot: &Slot| soft.iter().map(|soft| soft.part_of(*slot)).sum::<f64>();
        let raw = candidates.iter().map(|slot| round_half_up(parts(slot)));
        let mut cells = Self {
            raw: std::iter::once(NO_SCORE).chain(raw).collect(),
            of_candidates: (1..).take(candidates.len()).collect(),
        };
        let ignored = ignored.into_iter().flatten().enumerate();
        for (index, _) in ignored.filter(|(_, ignored)| **ignored) {
            cells.of_candidates[index] = IGNORED;
            cells.raw[index + 1] = NO_SCORE;
        }
        cells
    }

    /// A cell for each combination of classes.
    fn shared(soft: &[Soft<'_>], candidates: &[Slot], ignored: Option<&[bool]>) -> Self {
        let mut of_candidates = vec![IGNORED + 1; candidates.len()];
        let mut sums = vec![0.0];
        for soft in soft {
            let classes = soft.classes();
            // There are at most as many cells as candidates, so the number fits into 32 bits.
            let stride = sums.len() as u32;
            soft.add_classes(&classes, candidates, stride, &mut of_candidates);
            // As in the plugin, the parts are added up in the order of the constraints.
            let parts = classes.parts.iter();
            sums = parts
                .flat_map(|part| sums.iter().map(move |sum| sum + part))
                .collect();
        }
        let ignored = ignored.into_iter().flatten();
        for (cell, _) in of_candidates
            .iter_mut()
            .zip(ignored)
            .filter(|(_, ignored)| **ignored)
        {
            *cell = IGNORED;
        }
        let mut taken = vec![false; sums.len() + 1];
        for cell in &of_candidates {
            taken[*cell as usize] = true;
        }
        let raw = sums
            .iter()
            .zip(&taken[1..])
            .map(|(sum, taken)| match taken {
                true => round_half_up(*sum),
                false => NO_SCORE,
            });
        Self {
            raw: std::iter::once(NO_SCORE).chain(raw).collect(),
            of_candidates,
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
    /// The candidates, grouped by cells.
    cells: ScoreCells,
    /// The score of each cell: 0 to 100.
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
            cells: ScoreCells::one(0),
            scores: vec![0; 2],
        })
    }

    /// Scores candidates, all of which exist, instead of those before.
    pub fn score(&mut self, candidates: &[Slot]) {
        if self.skipped {
            self.cells = ScoreCells::one(candidates.len());
            return;
        }
        let ignored = match self.all_keys_required {
            true => keyless(&self.soft, candidates),
            false => None,
        };
        for soft in &mut self.soft {
            soft.weigh(candidates, ignored.as_deref());
        }
        self.cells = ScoreCells::of(&self.soft, candidates, ignored.as_deref());
        self.scores = normalize(&self.cells);
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
        self.scores[self.cells.of_candidates[index] as usize].into()
    }

    /// The scores of all candidates, in their order: 0 to 100.
    pub fn packed(&self) -> Vec<u8> {
        let score = |cell: &u32| self.scores[*cell as usize];
        self.cells.of_candidates.iter().map(score).collect()
    }

    /// The score of the candidate at an index.
    pub fn node(&self, index: usize) -> NodeScore {
        let cell = self.cells.of_candidates[index];
        NodeScore {
            score: self.scores[cell as usize].into(),
            raw: self.cells.raw[cell as usize].max(0),
            ignored: cell == IGNORED,
        }
    }

    /// The indices of the best `n` candidates, best first. Candidates of equal score keep their
    /// order. `n` is at least 1.
    pub fn best(&self, n: usize) -> Vec<usize> {
        // Once `n` candidates have at least a certain score, later candidates need a higher score.
        // There are 101 scores, so few candidates are kept.
        let mut at_score = [0_usize; MAX_SCORE as usize + 1];
        let (mut wanted, mut at_wanted_or_above) = (0, 0);
        let mut best: Vec<(u8, usize)> = Vec::new();
        for (index, cell) in self.cells.of_candidates.iter().enumerate() {
            let score = self.scores[*cell as usize];
            if score < wanted {
                continue;
            }
            best.push((score, index));
            at_score[score as usize] += 1;
            at_wanted_or_above += 1;
            while at_wanted_or_above >= n {
                at_wanted_or_above -= at_score[wanted as usize];
                wanted += 1;
            }
            if i64::from(wanted) > MAX_SCORE {
                break;
            }
        }
        best.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        best.into_iter().map(|(_, index)| index).take(n).collect()
    }

    /// The numbers behind each soft constraint, of all its domains, whichever were scored.
    pub fn whole_reports(&self, max_domains: usize) -> impl Iterator<Item = Report<'_>> {
        self.soft.iter().map(move |soft| Report {
            weight: soft.weight.per_pod,
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

/// Returns the score of each cell: raw scores normalized to 0..100, the lowest being the best.
fn normalize(cells: &ScoreCells) -> Vec<u8> {
    let taken = cells.raw.iter().copied().filter(|raw| *raw >= 0);
    let widen = |range: Option<(i64, i64)>, raw: i64| {
        let (min, max) = range.unwrap_or((raw, raw));
        Some((min.min(raw), max.max(raw)))
    };
    let (min, max) = taken.fold(None, widen).unwrap_or((0, 0));
    // A score is 0 to 100, so it fits into a byte.
    let score = |raw: i64| match max {
        0 => MAX_SCORE as u8,
        max => (MAX_SCORE * (max + min - raw) / max) as u8,
    };
    let width = usize::try_from(max - min).unwrap_or(usize::MAX);
    // With fewer scores than cells, one division per score is cheaper than one
    // per cell.
    let table: Option<Vec<u8>> =
        (width < cells.raw.len()).then(|| (min..=max).map(score).collect());
    let score = |raw: &i64| match &table {
        // The raw score of a cell without a score is less than the minimum.
        Some(table) => usize::try_from(*raw - min).map_or(0, |above| table[above]),
        None if *raw < 0 => 0,
        None => score(*raw),
    };
    cells.raw.iter().map(score).collect()
}
