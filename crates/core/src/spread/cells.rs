//! Cells of candidates: no soft constraint distinguishes the candidates of a cell, so their score
//! is computed once.

use super::scoring::round_half_up;
use super::soft::Soft;
use crate::snapshot::Slot;

/// The cell of the candidates that Score ignores because they lack a topology key.
pub(super) const IGNORED: u32 = 0;

/// The raw score of cells without candidates and of [`IGNORED`].
const NO_SCORE: i64 = -1;

/// The candidates, grouped.
pub(super) struct ScoreCells {
    /// The cell of each candidate.
    pub of_candidates: Vec<u32>,
    /// The raw score of each cell; negative if it has none.
    pub raw: Vec<i64>,
}

impl ScoreCells {
    /// All candidates in one cell, with raw score 0.
    pub(super) fn one(candidates: usize) -> Self {
        Self {
            of_candidates: vec![1; candidates],
            raw: vec![NO_SCORE, 0],
        }
    }

    /// The cells of candidates; some candidates may be `ignored`.
    pub(super) fn of(soft: &[Soft<'_>], candidates: &[Slot], ignored: Option<&[bool]>) -> Self {
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
