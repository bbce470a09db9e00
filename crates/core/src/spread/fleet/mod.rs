//! The Fleet dialect (`docs/semantics.md`, "Fleet dialect"): nodes are
//! clusters, a pod on a node is a placement that the cluster holds, and a
//! cluster holds a placement at most once.

mod holders;
mod pick_n;
mod placement;

pub use holders::{HolderSpread, Judge, OverSkew, holders, score};
pub use pick_n::PickN;
pub use placement::{PlacementSpec, to_wire};
