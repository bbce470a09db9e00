//! Which constraints want the pods of a workload even.

use crate::proto::v1;
use crate::snapshot::{PodGroup, Query, partition};
use crate::spread::Active;

/// The pods of a workload, and what wants them even.
pub struct WorkloadPods<'s> {
    /// Its pods, those that are alike together, with one like them.
    pub groups: Vec<(&'s PodGroup, &'s v1::Pod)>,
    /// The distinct constraints in force for them.
    pub wanted: Vec<WantedSpread<'s>>,
    /// The domains of the topology key that was asked for, if there is no constraint.
    pub by_key: Option<partition::Key>,
    /// Why some of its pods could not be judged: their spec is invalid.
    pub fault: Option<String>,
}

/// A constraint in force for pods of a workload.
pub struct WantedSpread<'s> {
    /// The constraint.
    pub active: Active,
    /// The domains over which it wants existing pods to be even.
    pub partition: partition::Key,
    /// The pods that have it.
    pub(super) groups: Vec<&'s PodGroup>,
}

impl WantedSpread<'_> {
    /// Returns whether the pods of a group have it.
    pub fn is_of(&self, group: &PodGroup) -> bool {
        self.groups.iter().any(|own| std::ptr::eq(*own, group))
    }

    /// Returns what it asks about existing pods.
    pub fn query(&self) -> Query<'_> {
        Query {
            selector: self.active.counted(),
            partition: &self.partition,
        }
    }
}
