//! The Fleet dialect (`docs/semantics.md`, "Fleet dialect"): nodes are
//! clusters, a pod on a node is a placement that the cluster holds, and a
//! cluster holds a placement at most once.

mod cells;
mod holders;
mod judge;
mod pick_n;
mod placement;

pub use holders::{Class, HolderSpread, holders};
pub use judge::{Judge, OverSkew, score};
pub use pick_n::PickN;
pub use placement::{PlacementSpec, to_wire};
