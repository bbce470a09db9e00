//! The disruptions that a pod disruption budget allows.

use crate::matching::{Path, Violations};
use crate::proto::v1;

/// The number of a budget's pods that may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisruptionBudget {
    bound: BudgetBound,
    /// The number of evictions that the budget's controller allows at present.
    allowed: Option<i32>,
}

/// The bound of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetBound {
    /// This share has to be available.
    MinAvailable(BudgetShare),
    /// This share may be unavailable.
    MaxUnavailable(BudgetShare),
}

/// A share of some pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BudgetShare {
    Count(i32),
    Percent(i32),
}

/// A budget without a bound allows nothing.
impl Default for DisruptionBudget {
    fn default() -> Self {
        Self {
            bound: BudgetBound::MaxUnavailable(BudgetShare::Count(0)),
            allowed: None,
        }
    }
}

impl DisruptionBudget {
    /// Checks a budget, whose spec is at `path`.
    pub fn compile(
        wire: &v1::PodDisruptionBudget,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let none = v1::PodDisruptionBudgetSpec::default();
        let spec = wire.spec.as_ref().unwrap_or(&none);
        let (min, max) = (path.field("minAvailable"), path.field("maxUnavailable"));
        let bound = match (&spec.min_available, &spec.max_unavailable) {
            (Some(_), Some(_)) => {
                faults.add(max, "must not be set with minAvailable");
                None
            }
            (Some(wire), None) => {
                BudgetShare::compile(wire, min, faults).map(BudgetBound::MinAvailable)
            }
            (None, Some(wire)) => {
                BudgetShare::compile(wire, max, faults).map(BudgetBound::MaxUnavailable)
            }
            (None, None) => None,
        };
        let allowed = wire
            .status
            .as_ref()
            .and_then(|status| status.disruptions_allowed);
        Self {
            bound: bound.unwrap_or(Self::default().bound),
            allowed,
        }
    }

    /// The budget that allows this many pods of a workload to be unavailable.
    pub fn of_unavailable(pods: i32) -> Self {
        Self {
            bound: BudgetBound::MaxUnavailable(BudgetShare::Count(pods)),
            allowed: None,
        }
    }

    /// Returns the number of pods that may be evicted at present: the number of the controller, or
    /// else a number computed from all and from running pods.
    pub fn allows(&self, pods: usize, running: usize) -> usize {
        if let Some(allowed) = self.allowed {
            return usize::try_from(allowed).unwrap_or(0);
        }
        let wanted = match self.bound {
            BudgetBound::MinAvailable(share) => share.of(pods),
            BudgetBound::MaxUnavailable(share) => pods.saturating_sub(share.of(pods)),
        };
        running.saturating_sub(wanted)
    }
}

impl BudgetShare {
    fn compile(wire: &v1::IntOrString, path: Path<'_>, faults: &mut Violations) -> Option<Self> {
        if wire.r#type == 0 {
            if wire.int_val < 0 {
                faults.add(path, "must be at least 0");
            }
            return Some(Self::Count(wire.int_val));
        }
        let digits = wire.str_val.strip_suffix('%');
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let percent = digits.and_then(|digits| digits.parse().ok());
        match percent.filter(|percent| (0..=100).contains(percent)) {
            Some(percent) => Some(Self::Percent(percent)),
            None => {
                faults.add(path, "must be a number, or a percentage such as \"25%\"");
                None
            }
        }
    }

    /// The share of this many pods. A percentage is rounded up.
    fn of(self, pods: usize) -> usize {
        match self {
            Self::Count(count) => usize::try_from(count).unwrap_or(0),
            Self::Percent(percent) => {
                let percent = usize::try_from(percent).unwrap_or(0);
                pods.saturating_mul(percent).div_ceil(100)
            }
        }
    }
}
