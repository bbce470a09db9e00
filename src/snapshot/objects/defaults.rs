//! The constraints of pods that have none of their own.

use std::sync::Arc;

use crate::limits::{Limit, Limits};
use crate::matching::{Constraint, Path, Violations};
use crate::proto::v1;

/// Default constraints of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The constraints, without selectors.
    pub constraints: Vec<Constraint>,
    /// Whether they are Kubernetes' own.
    pub system: bool,
}

impl Defaults {
    /// Checks and compiles those of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of every constraint.
    pub fn compile(
        wire: &v1::DefaultConstraints,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let list = path.field("constraints");
        let count = wire.constraints.len();
        faults.within(list, limits, Limit::ConstraintsPerPod, count);
        if wire.system && count > 0 {
            faults.add(path.field("system"), "excludes a list of constraints");
        }
        let constraints = if wire.system {
            Self::system_constraints()
        } else {
            Constraint::compile_defaults(&wire.constraints, list, &mut faults)
        };
        faults.finish(Self {
            constraints,
            system: wire.system,
        })
    }

    /// Those that a snapshot begins with where its first change, which comes at
    /// `revision` 0, sets none: Kubernetes' own. `None` later.
    pub fn first(revision: i64) -> Option<Arc<Self>> {
        (revision == 0).then(|| {
            Arc::new(Self {
                constraints: Self::system_constraints(),
                system: true,
            })
        })
    }

    /// Those for the wire.
    pub fn to_wire(&self) -> v1::DefaultConstraints {
        let constraint = |c: &Constraint| c.to_wire(None);
        let constraints = if self.system {
            &[][..]
        } else {
            &self.constraints
        };
        v1::DefaultConstraints {
            constraints: constraints.iter().map(constraint).collect(),
            system: self.system,
        }
    }

    /// Kubernetes' own (kube-scheduler's PodTopologySpread, `systemDefaultConstraints`).
    fn system_constraints() -> Vec<Constraint> {
        vec![
            Constraint::soft("kubernetes.io/hostname", 3),
            Constraint::soft("topology.kubernetes.io/zone", 5),
        ]
    }
}
