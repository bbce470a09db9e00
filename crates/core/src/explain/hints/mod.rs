//! The hints of the Kubernetes dialect. Each kind of hint is found by a function of the case.

mod constraints;
mod minimum;
mod pods;
mod room;
mod skew;
mod volumes;

use super::case::{Case, Hard};
use super::words::Diagnosis;
use crate::snapshot::Stopped;
use crate::spread::Active;

pub use constraints::always;
pub(super) use constraints::empty_values;

/// A function that finds hints of one kind.
enum Finder {
    /// Called once for the case.
    Whole(fn(&Case<'_>) -> Result<Vec<Diagnosis>, Stopped>),
    /// Called for each constraint.
    Each(fn(&Case<'_>, &Active) -> Result<Option<Diagnosis>, Stopped>),
    /// Called for each hard constraint.
    Hard(FindOfHard),
    /// Called for each hard constraint, when no node is feasible.
    Stuck(FindOfHard),
}

type FindOfHard = fn(&Case<'_>, &Hard<'_>) -> Result<Option<Diagnosis>, Stopped>;

/// All finders, the most useful first.
const HINTS: [Finder; 20] = [
    Finder::Whole(room::preemption),
    Finder::Hard(minimum::unusable_domain),
    Finder::Hard(minimum::min_domains),
    Finder::Hard(constraints::one_domain),
    Finder::Each(pods::mixed_revisions),
    Finder::Each(pods::other_workloads),
    Finder::Whole(constraints::conflict),
    Finder::Whole(room::room),
    Finder::Whole(|case| Ok(room::nominated(case))),
    Finder::Whole(pods::pod_affinity),
    Finder::Whole(volumes::volumes),
    Finder::Stuck(skew::more_pods),
    Finder::Stuck(skew::fewer_pods),
    Finder::Stuck(skew::max_skew),
    Finder::Each(|case, active| {
        Ok(constraints::mismatch(active, case.labels()).map(Diagnosis::from))
    }),
    Finder::Each(|_, active| Ok(constraints::empty(active).map(Diagnosis::from))),
    Finder::Each(|case, active| Ok(constraints::missing_key(case, active))),
    Finder::Each(|case, active| Ok(constraints::empty_value(case, active))),
    Finder::Each(pods::uncounted),
    Finder::Each(pods::terminating),
];

impl Finder {
    /// Finds the hints of the kind. Before each look at the nodes it counts them.
    fn find(&self, case: &Case<'_>, hints: &mut Vec<Diagnosis>) -> Result<(), Stopped> {
        match self {
            Self::Whole(find) => {
                case.step()?;
                hints.extend(find(case)?);
            }
            Self::Each(find) => {
                for active in &case.constraints.all {
                    case.step()?;
                    hints.extend(find(case, active)?);
                }
            }
            Self::Stuck(_) if !case.is_stuck() => {}
            Self::Hard(find) | Self::Stuck(find) => {
                for hard in &case.hard {
                    case.step()?;
                    hints.extend(find(case, hard)?);
                }
            }
        }
        Ok(())
    }
}

/// The hints of a case.
pub fn all(case: &Case<'_>) -> Result<Vec<Diagnosis>, Stopped> {
    let mut hints = Vec::new();
    for finder in &HINTS {
        finder.find(case, &mut hints)?;
    }
    let soft = case.constraints.soft().map(constraints::no_limit);
    hints.extend(soft.map(Diagnosis::from));
    Ok(hints)
}
