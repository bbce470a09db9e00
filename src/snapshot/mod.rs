//! The state that decisions are made on: named snapshots of nodes, pods and
//! what selects them, changed by whole batches and read one revision at a
//! time.
//!
//! Everything here is synchronous and does no I/O; the clock is passed in.

mod change;
mod defaults;
mod error;
mod export;
mod label_sets;
mod limits;
mod named;
mod namespace;
mod nodes;
mod owners;
mod pods;
mod registry;
mod state;
mod symbols;
mod undo;
mod view;

pub use change::{Batch, Kind, OwnerKind};
pub use defaults::Defaults;
pub use error::{Error, check_limit};
pub use limits::Limits;
pub use named::{Snapshot, Staged, Summary, Update};
pub use nodes::{NodeRef, Nodes, Slot};
pub use owners::Controller;
pub use registry::{Observer, Registry};
pub use state::{Applied, Cut, Frozen, Sizes};
pub use symbols::Symbol;
pub use view::{Domain, DomainId, Eligibility, Query, View, count_per_node};
