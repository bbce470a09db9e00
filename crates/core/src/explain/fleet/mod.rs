//! Explanations in the Fleet dialect: clusters that hold a placement, and the dead ends of
//! KubeFleet's rules (`docs/semantics.md`, "Fleet dialect").

mod case;
mod hints;

pub use case::{JudgedCluster, PlacementCase};
pub use hints::mismatch;

use super::Explanation;
use super::diagnosis::Diagnosis;
use super::words::{plural, sentence, so_many};
use crate::snapshot::Stopped;

/// Explains a case. Insights name the first `max_domains` domains.
pub fn explain(case: &PlacementCase<'_>, max_domains: usize) -> Result<Explanation, Stopped> {
    let findings = hints::all(case)?;
    Ok(Explanation {
        summary: summary(case, &findings),
        insights: case.insights(max_domains),
        hints: findings.into_iter().map(|finding| finding.hint).collect(),
    })
}

/// The sentence: the result, the causes, and the remedy.
fn summary(case: &PlacementCase<'_>, findings: &[Diagnosis]) -> String {
    let (open, all) = (case.open_count(), case.clusters.len());
    let verdict = match (open, all) {
        (_, 0) => return "There is no cluster to decide about.".to_owned(),
        (0, _) => format!("None of {} can be picked", plural(all, "cluster")),
        _ if open == all => format!("All {} can be picked", plural(all, "cluster")),
        _ => format!("{open} of {} can be picked", plural(all, "cluster")),
    };
    let remedy = findings.iter().find_map(|finding| finding.remedy.as_ref());
    sentence(&verdict, &causes(case), remedy.filter(|_| open == 0))
}

/// Returns the causes that keep the placement off clusters, each with its number of clusters.
fn causes(case: &PlacementCase<'_>) -> Vec<String> {
    let hold = case.clusters.iter().filter(|cluster| cluster.holds).count();
    let others = case.clusters.iter().filter(|cluster| !cluster.holds);
    let refused = others.filter_map(|cluster| cluster.verdict.as_ref().err());
    let refused_by = |index: Option<usize>| {
        let by_index = refused
            .clone()
            .filter(|refusal| refusal.constraint_index == index);
        by_index.count()
    };
    let unfit = refused_by(None);
    let over_skew = case
        .hard()
        .map(|spread| (refused_by(Some(spread.active.index)), spread));
    let mut causes: Vec<String> = over_skew
        .filter(|(clusters, _)| *clusters > 0)
        .map(|(clusters, spread)| {
            let (clusters, constraint) = (plural(clusters, "cluster"), &spread.active.constraint);
            let (key, max_skew) = (&constraint.topology_key, constraint.max_skew);
            format!("{clusters} would leave {key} with a skew above {max_skew}")
        })
        .collect();
    if unfit > 0 {
        causes.push(format!(
            "{} cordoned, tainted or excluded by affinity",
            so_many(unfit, "cluster", "is", "are")
        ));
    }
    if hold > 0 {
        causes.push(so_many(hold, "cluster", "holds", "hold") + " it already");
    }
    causes
}
