//! The state that decisions are made on: named snapshots of nodes, pods and
//! what selects them, changed by whole batches and read one revision at a
//! time.
//!
//! Everything here is synchronous and does no I/O; the clock is passed in.

mod apply;
mod asked;
mod blocks;
mod budget;
mod census;
mod change;
mod clock;
mod committing;
mod convoy;
mod counted;
mod cut;
mod defaults;
mod error;
mod export;
mod fork;
mod freshness;
mod frozen;
mod journal;
mod label_sets;
mod layout;
mod least;
mod lenses;
mod limits;
mod named;
mod namespace;
mod node;
mod node_order;
mod nodes;
mod owners;
pub mod partition;
mod pod_table;
mod pods;
mod reading;
mod rebuild;
mod recording;
mod registry;
mod reservations;
mod reserving;
mod restoring;
mod retired;
mod room;
mod slots;
mod staged;
mod state;
mod symbols;
mod tally;
#[cfg(test)]
mod tamper;
mod templates;
pub mod topology;
mod upkeep;
mod view;
mod views;

pub use budget::{Budget, Delay, Units};
pub use census::{Census, Group};
pub use change::{Batch, Identity, Kind, OwnerKind, metadata_of};
pub use clock::{Clock, Moment, Now};
pub use committing::Offer;
pub use convoy::Convoy;
pub use counted::{Counted, Domain};
pub use cut::{CountedSet, Cut, Query};
pub use defaults::Defaults;
pub use error::{Error, check_limit};
pub use freshness::MaxAges;
pub use frozen::{Frozen, Kept};
pub use journal::{Aside, Change, Entry, Journal, Refusal, Saved};
pub use label_sets::{LabelSetId, LabelSets};
pub use layout::bits;
pub use lenses::{Lens, PartitionId};
pub use limits::Limits;
pub use named::{Snapshot, Summary, Update};
pub use namespace::Namespace;
pub use node::NodeRef;
pub use nodes::Nodes;
pub use owners::Controller;
pub use partition::{Eligibility, Partition};
pub use registry::{Observer, Registry};
pub use reservations::{Claim, Held, Hold, Serial};
pub use reserving::{Decided, Ended, Listed, Reserved};
pub use restoring::Restoring;
pub use slots::Slot;
pub use staged::Staged;
pub use state::{Applied, Memory, Sizes};
pub use symbols::Symbol;
pub use tally::{Parted, Tally};
#[cfg(test)]
pub(crate) use tamper::Fault;
pub use topology::DomainId;
pub use topology::Topology;
pub use view::View;
pub use views::Watch;
