//! What nodes are checked for besides spread, in kube-scheduler's order:
//! cordons, taints, node affinity (`docs/semantics.md`, "Node checks").

use super::active::Subject;
use super::verdict::Reason;
use crate::snapshot::{Eligibility, NodeRef, PartitionInUse, ReadView, partition, topology};

/// The nodes that pass the checks, one after the other.
#[derive(Debug, Clone)]
pub struct Checks {
    /// Those that pass all of them.
    passing: partition::Key,
}

impl Checks {
    /// What a pod is checked for.
    pub fn of(subject: Subject<'_>) -> Self {
        let affinity = (!subject.affinity.is_any()).then(|| subject.affinity.clone());
        Self {
            passing: partition::Key::of(
                topology::Key::Node,
                Eligibility {
                    required_keys: Box::default(),
                    affinity,
                    tolerations: Some(subject.tolerations.clone()),
                    cordon_tolerations: Some(subject.tolerations.clone()),
                },
            ),
        }
    }

    /// The nodes that pass.
    pub fn passing(&self, read_view: &ReadView<'_>) -> PartitionInUse {
        read_view.in_use(&self.passing)
    }

    /// The nodes that pass, by value of a label.
    pub fn passing_by(&self, topology: &topology::Key, read_view: &ReadView<'_>) -> PartitionInUse {
        let eligibility = self.passing.eligibility.clone();
        read_view.in_use(&partition::Key::of(topology.clone(), eligibility))
    }

    /// The checks in order: the reason of those that fail, and the nodes that
    /// pass it and all checks before.
    pub fn stages(&self, read_view: &ReadView<'_>) -> [(Reason, PartitionInUse); 3] {
        let mut open = self.passing.clone();
        open.eligibility.affinity = None;
        let tolerated = read_view.in_use(&open);
        open.eligibility.tolerations = None;
        [
            (Reason::Unschedulable, read_view.in_use(&open)),
            (Reason::UntoleratedTaint, tolerated),
            (Reason::NodeAffinity, read_view.in_use(&self.passing)),
        ]
    }

    /// How many of all nodes fail, by the first check that fails.
    pub fn refusals(&self, read_view: &ReadView<'_>) -> [(Reason, usize); 3] {
        let mut left = read_view.nodes.len();
        self.stages(read_view).map(|(reason, in_use)| {
            let before = std::mem::replace(&mut left, in_use.partition.eligible_total());
            (reason, before - left)
        })
    }

    /// Why a node that fails does so.
    pub fn reason(&self, node: NodeRef<'_>) -> Reason {
        let eligibility = &self.passing.eligibility;
        if !eligibility.admits_cordon(node) {
            Reason::Unschedulable
        } else if !eligibility.admits_taints(node) {
            Reason::UntoleratedTaint
        } else {
            Reason::NodeAffinity
        }
    }
}
