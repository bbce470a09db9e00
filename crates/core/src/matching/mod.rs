//! Kubernetes' matching rules as pure functions and compiled forms: label
//! selectors, node affinity, taints and tolerations, spread constraints, what
//! pods request of nodes, and the validation that comes before them.
//!
//! Compiling and validating are one pass: a `compile` function takes a wire
//! object and the path of its field, adds every fault to [`Violations`], and
//! returns a form that can no longer fail.
//!
//! A rule of Kubernetes has one file. `requirement` is `key operator values`, shared by selectors
//! and node affinity. `version` is the one table of rules in which versions of Kubernetes differ.
//! `requests`, `containers` and `resizing` compute the requests of a pod. `fit` and `host_ports`
//! check that a node has room for the pod, and `features` that the node declares the features that
//! the pod needs.

mod amounts;
mod constraint;
mod containers;
mod features;
mod fit;
mod host_ports;
mod keyed;
pub mod names;
mod node_affinity;
mod pod_affinity;
mod quantity;
mod requests;
mod requirement;
mod resizing;
pub mod revisions;
mod selector;
mod sets;
pub mod storage;
mod taints;
pub mod times;
mod used_storage;
mod version;
mod violations;

pub use amounts::{Amounts, Resource};
pub use constraint::{Action, Constraint, Policy};
pub use features::Features;
pub use fit::{Allocatable, Lack, Requested, Shortage};
pub use host_ports::HostPort;
pub use node_affinity::{NeededLabels, NodeAffinity};
pub use pod_affinity::{PodAffinity, PodTerm};
pub use quantity::Quantity;
pub use requests::{Requests, RequestsByVersion};
pub use requirement::{Operator, Requirement};
pub use selector::{Selector, selector_text};
pub use taints::{Effect, Taint, TaintedNode, Tolerations};
pub use used_storage::{
    DiskKind, DiskUses, PodClaim, PodDisk, PodStorage, UsedStorage, absolute, check_claim_names,
    kept_volumes,
};
pub use version::{KubernetesVersion, NotAVersion, Resizing, VersionRules};
pub use violations::{Path, Violation, Violations};
