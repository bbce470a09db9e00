//! The pods of a workload and the constraints in force for them.

use crate::proto::v1;
use crate::snapshot::{PodGroup, Query, partition};
use crate::spread::Active;

/// The pods of a workload, and the constraints in force for them.
pub struct WorkloadPods<'s> {
    /// Groups of alike pods of the workload, each with one pod as an example.
    pub groups: Vec<(&'s PodGroup, &'s v1::Pod)>,
    /// The distinct constraints in force for the pods.
    pub wanted: Vec<WantedSpread<'s>>,
    /// The domains of the requested topology key, if there is no constraint.
    pub by_key: Option<partition::Key>,
    /// The fault in the spec of some of the pods, which are not judged.
    pub fault: Option<String>,
}

/// A constraint in force for pods of a workload.
pub struct WantedSpread<'s> {
    /// The constraint.
    pub active: Active,
    /// The domains over which existing pods should be even by the constraint.
    pub partition: partition::Key,
    /// The pods that have the constraint.
    pub(super) groups: Vec<&'s PodGroup>,
}

impl WantedSpread<'_> {
    /// Returns whether the pods of a group have the constraint.
    pub fn is_of(&self, group: &PodGroup) -> bool {
        self.groups.iter().any(|own| std::ptr::eq(*own, group))
    }

    /// Returns the query by which a snapshot counts existing pods for the constraint.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: self.active.counted(),
            partition: &self.partition,
        }
    }
}
