//! The arithmetic of Score (`docs/semantics.md`, "Score"), which is nowhere else.

use crate::matching::Constraint;

/// The best score of a node.
pub const MAX_SCORE: i64 = 100;

/// The weight that a soft constraint adds to raw scores.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weight {
    /// The weight of each matching pod.
    pub per_pod: f64,
    /// The addend for each node that has the key.
    offset: f64,
}

impl Weight {
    /// The weight of a constraint with this many domains among the scored nodes.
    pub fn of(constraint: &Constraint, size: usize) -> Self {
        Self {
            // A size is far below 2^52, so a double holds it exactly.
            per_pod: (size as f64 + 2.0).ln(),
            offset: f64::from(constraint.max_skew - 1),
        }
    }

    /// The addend of a node in a domain with this many matching pods.
    pub fn part(&self, matching_pods: u32) -> f64 {
        f64::from(matching_pods) * self.per_pod + self.offset
    }
}

/// Rounds a sum, which is not negative, half away from zero, as the plugin
/// does. Saturates for sums that no cluster can reach.
pub fn round_half_up(sum: f64) -> i64 {
    let whole = sum as i64;
    // The difference of a double and its whole part is exact.
    whole.saturating_add(i64::from(sum - whole as f64 >= 0.5))
}

/// The range of the raw scores of a decision, which normalization needs.
#[derive(Debug, Clone, Copy)]
pub struct RawRange {
    /// The smallest raw score.
    pub min: i64,
    /// The largest raw score, at least 0.
    pub max: i64,
}

impl RawRange {
    /// The range of the raw scores of all scored nodes.
    pub fn of(raw: impl Iterator<Item = i64>) -> Self {
        let widen = |range: Option<(i64, i64)>, raw: i64| {
            let (min, max) = range.unwrap_or((raw, raw));
            Some((min.min(raw), max.max(raw)))
        };
        let (min, max) = raw.fold(None, widen).unwrap_or((0, 0));
        Self {
            min,
            max: max.max(0),
        }
    }

    /// The score of a node: 0 to 100, the lowest raw score being the best.
    pub fn score(&self, raw: i64) -> i64 {
        match self.max {
            0 => MAX_SCORE,
            max => MAX_SCORE * (max + self.min - raw) / max,
        }
    }
}
