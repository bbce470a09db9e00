//! Places many pods at once by the rules of the Kubernetes dialect, as if each were filtered,
//! scored and put on its best node before the next pod. See `docs/placing.md`.
//!
//! The [`Placer`] looks at every node once. After that, nodes that no constraint distinguishes form
//! a group, and picks judge and score groups instead of nodes.

mod groups;
mod outlook;
mod placer;
mod pod_terms;
mod tracked;
mod tracked_volumes;

pub use groups::ScoredChoice;
pub use outlook::{HardOutlook, NodeCell, Outlook, PlannedPicker, PlannedPicks, RuleByMinimum};
pub use placer::Placer;
