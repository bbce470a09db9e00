//! Explains to a person why a pod finds no place, which changes would help, and the numbers behind
//! that.
//!
//! `case` is the decision to explain, `hints` are the findings, each a function of the case,
//! `insight` has the numbers of each constraint, `summary` is the sentence. A hint's suggestion is
//! checked: its change is made, and the question is decided again. `fleet` does the same for the
//! Fleet dialect.
//!
//! Findings are texts, so they are written as messages here. Nothing in the path of Filter uses
//! this room.

mod case;
mod diagnosis;
pub mod fleet;
mod hints;
mod insight;
mod summary;
mod words;

pub use case::Case;
pub use hints::always;
pub use words::quoted;
pub use words::{among, but_for, joined, noun, number, plural, verb};

use crate::proto::v1;

/// The hints and insights about a decision.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// One sentence: whether the pod fits, why, and which change would help.
    pub summary: String,
    /// Hints: facts that keep the pod out, changes that would help, and facts that are easily
    /// overlooked.
    pub hints: Vec<v1::Hint>,
    /// The numbers behind each constraint, in order.
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
