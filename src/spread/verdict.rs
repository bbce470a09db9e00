//! Why a node is refused, in kube-scheduler's words.

/// What keeps a pod off a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The node is cordoned.
    Unschedulable,
    /// The pod does not tolerate a taint of the node.
    UntoleratedTaint,
    /// The node does not match the pod's node selector or affinity.
    NodeAffinity,
    /// The node lacks the topology key of a hard constraint.
    MissingTopologyKey,
    /// The pod would exceed the max skew of a hard constraint.
    Skew,
    /// No more replicas fit, as the caller said.
    Capacity,
}

/// A node's refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRefusal {
    /// Why.
    pub reason: Reason,
    /// Index of the deciding constraint, in the pod's or the default ones.
    pub constraint_index: Option<usize>,
    /// Pods that the constraint counts in the node's domain.
    pub matching_pods: i64,
    /// Skew of the node's domain if the pod went there.
    pub skew: i64,
}

impl Reason {
    /// The words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::UntoleratedTaint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::MissingTopologyKey => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Skew => "node(s) didn't match pod topology spread constraints",
            Self::Capacity => "node(s) had no capacity left",
        }
    }

    /// Whether the node would be feasible if other pods moved.
    pub const fn is_resolvable(self) -> bool {
        matches!(self, Self::Skew)
    }
}

impl AsRef<str> for Reason {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl NodeRefusal {
    /// A refusal that no spread constraint decided.
    pub const fn by_node(reason: Reason) -> Self {
        Self {
            reason,
            constraint_index: None,
            matching_pods: 0,
            skew: 0,
        }
    }
}
