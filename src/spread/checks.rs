//! What nodes are checked for besides spread, in kube-scheduler's order: being
//! cordoned, taints, node affinity (`docs/semantics.md`, "Node checks").

use super::active::Subject;
use super::verdict::Reason;
use crate::matching::{NodeAffinity, Tolerations};
use crate::snapshot::{Cut, Eligibility, Lens, NodeRef, partition, topology};

/// The nodes that pass the checks, one check after the other.
#[derive(Debug, Clone)]
pub struct Checks {
    /// Those that are not cordoned, or not for this pod.
    open: partition::Key,
    /// Those whose taints the pod tolerates, too.
    tolerated: partition::Key,
    /// Those that match its node affinity, too: they pass.
    passing: partition::Key,
}

impl Checks {
    /// What a pod is checked for.
    pub fn of(subject: Subject<'_>) -> Self {
        let tolerations = || Some(subject.tolerations.clone());
        let affinity = || (!subject.affinity.is_any()).then(|| subject.affinity.clone());
        let key =
            |tolerations: Option<Tolerations>, affinity: Option<NodeAffinity>| partition::Key {
                topology: topology::Key::Node,
                missing_is_empty: false,
                eligibility: Eligibility {
                    required_keys: Box::default(),
                    affinity,
                    tolerations,
                    cordon_tolerations: Some(subject.tolerations.clone()),
                },
            };
        Self {
            open: key(None, None),
            tolerated: key(tolerations(), None),
            passing: key(tolerations(), affinity()),
        }
    }

    /// The nodes that pass.
    pub fn passing(&self, cut: &Cut<'_>) -> Lens {
        cut.lens(&self.passing)
    }

    /// The nodes that pass, parted by a label.
    pub fn passing_by(&self, topology: &topology::Key, cut: &Cut<'_>) -> Lens {
        cut.lens(&partition::Key {
            topology: topology.clone(),
            ..self.passing.clone()
        })
    }

    /// The checks in order: why a node fails each, and the nodes that pass it
    /// and those before.
    pub fn stages(&self, cut: &Cut<'_>) -> [(Reason, Lens); 3] {
        [
            (Reason::Unschedulable, cut.lens(&self.open)),
            (Reason::UntoleratedTaint, cut.lens(&self.tolerated)),
            (Reason::NodeAffinity, cut.lens(&self.passing)),
        ]
    }

    /// How many of all nodes fail, by the first check that they fail.
    pub fn refusals(&self, cut: &Cut<'_>) -> [(Reason, usize); 3] {
        let mut left = cut.nodes.len();
        self.stages(cut).map(|(reason, lens)| {
            let before = std::mem::replace(&mut left, lens.partition.eligible_total());
            (reason, before - left)
        })
    }

    /// Why a node fails that does.
    pub fn reason(&self, node: NodeRef<'_>) -> Reason {
        if !self.open.eligibility.admits(node) {
            Reason::Unschedulable
        } else if !self.tolerated.eligibility.admits(node) {
            Reason::UntoleratedTaint
        } else {
            Reason::NodeAffinity
        }
    }
}
