//! The hints of the Kubernetes dialect. Each kind of hint is found by a function of the case.

mod always;
mod conflict;
mod idle;
mod minimum;
mod nodes;
mod nominated;
mod pod_affinity;
mod pods;
mod room;
mod skew;
mod volumes;

use super::case::{Case, Hard};
use super::diagnosis::Diagnosis;
use crate::spread::Active;

pub use always::always;
pub(super) use nodes::empty_values;

/// A function that finds hints of one kind.
enum Finder {
    /// Called once for the case.
    Whole(fn(&Case<'_>) -> Vec<Diagnosis>),
    /// Called for each constraint.
    Each(fn(&Case<'_>, &Active) -> Option<Diagnosis>),
    /// Called for each hard constraint.
    Hard(fn(&Case<'_>, &Hard<'_>) -> Option<Diagnosis>),
    /// Called for each hard constraint, when no node is feasible.
    Stuck(fn(&Case<'_>, &Hard<'_>) -> Option<Diagnosis>),
}

/// All finders, the most useful first.
const HINTS: [Finder; 20] = [
    Finder::Whole(room::preemption),
    Finder::Hard(minimum::unusable_domain),
    Finder::Hard(minimum::min_domains),
    Finder::Hard(idle::one_domain),
    Finder::Each(pods::mixed_revisions),
    Finder::Each(pods::other_workloads),
    Finder::Whole(conflict::conflict),
    Finder::Whole(room::room),
    Finder::Whole(nominated::nominated),
    Finder::Whole(pod_affinity::pod_affinity),
    Finder::Whole(volumes::volumes),
    Finder::Stuck(skew::more_pods),
    Finder::Stuck(skew::fewer_pods),
    Finder::Stuck(skew::max_skew),
    Finder::Each(|case, active| Some(always::mismatch(active, case.labels())?.into())),
    Finder::Each(|_, active| Some(always::empty(active)?.into())),
    Finder::Each(nodes::missing_key),
    Finder::Each(nodes::empty_value),
    Finder::Each(pods::uncounted),
    Finder::Each(pods::terminating),
];

impl Finder {
    fn find(&self, case: &Case<'_>) -> Vec<Diagnosis> {
        let (all, hard) = (case.constraints.all.iter(), case.hard.iter());
        match self {
            Self::Whole(find) => find(case),
            Self::Each(find) => all.filter_map(|active| find(case, active)).collect(),
            Self::Stuck(_) if !case.is_stuck() => Vec::new(),
            Self::Hard(find) | Self::Stuck(find) => {
                hard.filter_map(|hard| find(case, hard)).collect()
            }
        }
    }
}

/// The hints of a case.
pub fn all(case: &Case<'_>) -> Vec<Diagnosis> {
    // The remaining hints are left out if the caller stops waiting or the budget is used up.
    let finders = HINTS.iter().take_while(|_| case.affords(case.nodes.len()));
    let hints = finders.flat_map(|finder| finder.find(case));
    let soft = case.constraints.soft().map(always::no_limit);
    hints.chain(soft.map(Diagnosis::from)).collect()
}
