//! Explanations in the Fleet dialect: clusters that hold a placement, and the dead ends of
//! KubeFleet's rules (`docs/semantics.md`, "Fleet dialect").

mod case;
mod hints;
mod summary;

pub use case::{JudgedCluster, PlacementCase};
pub use hints::mismatch;

use super::Explanation;

/// Explains a case. Insights name the first `max_domains` domains.
pub fn explain(case: &PlacementCase<'_>, max_domains: usize) -> Explanation {
    let findings = hints::all(case);
    Explanation {
        summary: summary::of(case, &findings),
        insights: case.insights(max_domains),
        hints: findings.into_iter().map(|finding| finding.hint).collect(),
    }
}
