//! Says why: what keeps a pod out, what would let it in, and the numbers
//! behind that, for a person.
//!
//! `case` is what is explained, `hints` are the findings, each a function of
//! the case, `insight` is what stands behind a constraint, `summary` the one
//! sentence. What a hint says would help was decided: the hint's change was
//! made, and the question asked again. `fleet` does the same for the Fleet
//! dialect.
//!
//! Findings are texts, so they are written as messages here. Nothing in the
//! path of Filter uses this room.

mod case;
mod diagnosis;
pub mod fleet;
mod hints;
mod insight;
mod summary;
mod words;

pub use case::Case;
pub use hints::always;
pub use words::{among, noun, plural};

use crate::proto::v1;

/// What there is to say about a decision.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// One sentence: what comes of the pod, why, and what would help.
    pub summary: String,
    /// What keeps the pod out, would let it in, or is easily overlooked.
    pub hints: Vec<v1::Hint>,
    /// What stands behind each constraint, in order.
    pub insights: Vec<v1::ConstraintInsight>,
}

/// Explains a case. Insights name the first `max_domains` domains.
pub fn explain(case: &Case<'_>, max_domains: usize) -> Explanation {
    let findings = hints::all(case);
    Explanation {
        summary: summary::of(case, &findings),
        insights: insight::all(case, max_domains),
        hints: findings.into_iter().map(|finding| finding.hint).collect(),
    }
}
