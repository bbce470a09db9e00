//! Kubernetes' matching rules as pure functions and compiled forms: label
//! selectors, node affinity, taints and tolerations, spread constraints, what
//! pods request of nodes, and the validation that comes before them.
//!
//! Compiling and validating are one pass: a `compile` function takes a wire
//! object and the path of its field, adds every fault to [`Violations`], and
//! returns a form that can no longer fail.
//!
//! A rule of Kubernetes has one file. `version` is the one table of rules in which versions of
//! Kubernetes differ, and has the features that pods need and nodes declare. `requests` computes the
//! requests of a pod in `amounts`, and `fit` checks that a node has room for the pod.

mod amounts;
mod constraint;
mod fit;
pub mod names;
mod node_affinity;
mod pod_affinity;
mod requests;
pub mod revisions;
mod selector;
pub mod storage;
mod taints;
mod version;
mod violations;

pub use amounts::{Amounts, Quantity, Resource};
pub use constraint::{Action, Constraint, Policy};
pub use fit::{Allocatable, HostPort, Requested, Shortage};
pub use node_affinity::{NeededLabels, NodeAffinity};
pub use pod_affinity::{PodAffinity, PodTerm};
pub use requests::{Requests, RequestsByVersion};
pub use selector::{Operator, Requirement, Selector, selector_text};
pub use storage::{
    DiskKind, DiskUses, PodClaim, PodDisk, PodStorage, UsedStorage, absolute, check_claim_names,
    kept_volumes,
};
pub use taints::{Effect, Taint, TaintedNode, Tolerations};
pub use version::{Features, KubernetesVersion, NotAVersion, Resizing, VersionRules};
pub use violations::{Path, Violation, Violations};
