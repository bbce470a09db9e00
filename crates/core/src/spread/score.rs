//! Score: rates nodes by the soft constraints (`docs/semantics.md`, "Score").

use super::active::Constraints;
use super::cells::{IGNORED, ScoreCells};
use super::report::Report;
use super::scoring::{MAX_SCORE, RawRange};
use super::soft::Soft;
use crate::snapshot::{ReadView, Slot, Stopped};

/// The scores of candidates.
pub struct Scores<'a> {
    /// True if there was nothing to score by.
    pub skipped: bool,
    soft: Vec<Soft<'a>>,
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
        let skipped = constraints.soft().next().is_none() || read_view.nodes.is_empty();
        if skipped {
            return Ok(Self {
                skipped,
                soft: Vec::new(),
                cells: ScoreCells::one(candidates.len()),
                scores: vec![0; 2],
            });
        }
        let mut soft: Vec<Soft<'_>> = Vec::new();
        for active in constraints.soft() {
            read_view.deadline.step(candidates.len())?;
            soft.push(Soft::of(active, read_view)?);
        }
        let ignored = if constraints.all_keys_required {
            keyless(&soft, candidates)
        } else {
            None
        };
        for soft in &mut soft {
            soft.weigh(candidates, ignored.as_deref());
        }
        let cells = ScoreCells::of(&soft, candidates, ignored.as_deref());
        Ok(Self {
            skipped,
            soft,
            scores: normalize(&cells),
            cells,
        })
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
    let range = RawRange::of(taken);
    // A score is 0 to 100, so it fits into a byte.
    let score = |raw: i64| range.score(raw) as u8;
    let width = usize::try_from(range.max - range.min).unwrap_or(usize::MAX);
    // With fewer scores than cells, one division per score is cheaper than one
    // per cell.
    let table: Option<Vec<u8>> =
        (width < cells.raw.len()).then(|| (range.min..=range.max).map(score).collect());
    let score = |raw: &i64| match &table {
        // The raw score of a cell without a score is less than the minimum.
        Some(table) => usize::try_from(*raw - range.min).map_or(0, |above| table[above]),
        None if *raw < 0 => 0,
        None => score(*raw),
    };
    cells.raw.iter().map(score).collect()
}
