//! The one sentence about a placement.

use std::collections::BTreeMap;

use super::case::PlacementCase;
use crate::explain::diagnosis::Diagnosis;
use crate::explain::words::{plural, sentence, verb};
use crate::spread::fleet::{OverSkew, RefusedBy};

/// The sentence of a placement: the result, the reason, and what would help.
pub fn of(case: &PlacementCase<'_>, findings: &[Diagnosis]) -> String {
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

/// What keeps the placement off the others, by how many clusters.
fn causes(case: &PlacementCase<'_>) -> Vec<String> {
    let hold = case.clusters.iter().filter(|cluster| cluster.holds).count();
    let mut by_spread: BTreeMap<usize, (usize, &str, i32)> = BTreeMap::new();
    let mut unfit = 0;
    for cluster in case.clusters.iter().filter(|cluster| !cluster.holds) {
        match &cluster.verdict {
            Ok(_) => {}
            Err(RefusedBy::ByCheck(_)) => unfit += 1,
            Err(RefusedBy::BySpread(OverSkew { spread, .. })) => {
                let constraint = &spread.active.constraint;
                let entry = by_spread.entry(spread.active.index);
                let entry = entry.or_insert((0, &constraint.topology_key, constraint.max_skew));
                entry.0 += 1;
            }
        }
    }
    let mut causes: Vec<String> = by_spread
        .into_values()
        .map(|(clusters, key, max_skew)| {
            let clusters = plural(clusters, "cluster");
            format!("{clusters} would leave {key} with a skew above {max_skew}")
        })
        .collect();
    if unfit > 0 {
        causes.push(format!(
            "{} {} cordoned, tainted or excluded by affinity",
            plural(unfit, "cluster"),
            verb(unfit, "is", "are")
        ));
    }
    if hold > 0 {
        causes.push(format!(
            "{} {} it already",
            plural(hold, "cluster"),
            verb(hold, "holds", "hold")
        ));
    }
    causes
}
