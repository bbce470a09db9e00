//! Explains to a person why a pod cannot be placed, which changes would help, and the numbers
//! behind the decision.
//!
//! `case` is the decision to explain, `hints` finds the hints, `insight` has the numbers of each
//! constraint, and `summary` is one sentence. A suggested constraint is checked: the question is
//! decided again with it. `fleet` does the same for the Fleet dialect.
//!
//! Findings are texts, so this module writes them as protobuf messages. Filter does not use it.

mod case;
pub mod fleet;
mod hints;
mod insight;
mod summary;
mod words;

pub use case::Case;
pub use hints::always;
pub use words::quoted;
pub use words::{among, but_for, joined, number, plural, verb};

use crate::proto::v1;
use crate::snapshot::Stopped;

/// The hints and insights about a decision.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// One sentence with the verdict, the causes, and the change that would help.
    pub summary: String,
    /// The hints: facts that keep the pod off nodes, changes that would help, and facts that are
    /// easily overlooked.
    pub hints: Vec<v1::Hint>,
    /// The numbers behind each constraint, in order.
    pub insights: Vec<v1::ConstraintInsight>,
}

/// Explains a case. Insights name the first `max_domains` domains.
pub fn explain(case: &Case<'_>, max_domains: usize) -> Result<Explanation, Stopped> {
    let findings = hints::all(case)?;
    Ok(Explanation {
        summary: summary::of(case, &findings)?,
        insights: insight::all(case, max_domains)?,
        hints: findings.into_iter().map(|finding| finding.hint).collect(),
    })
}
