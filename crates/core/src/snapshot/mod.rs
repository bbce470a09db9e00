//! The state that decisions are made on: named snapshots of nodes, pods and the objects that select
//! them, changed by whole batches and read one revision at a time.
//!
//! A published state never changes. Readers hold it as long as they like; a change is applied to a
//! clone, which is then published.
//!
//! Everything here is synchronous and does no I/O; the clock is passed in.
//!
//! Each folder uses only those before it: `objects` (the objects), `counts` (the counts of them),
//! `state` (one state, which batches change and decisions read), `history` (the changes of named
//! snapshots).

pub mod clock;
pub mod counters;
mod counts;
mod deadline;
mod history;
mod objects;
mod state;

pub use crate::limits::Limits;
pub use clock::{Moment, Now, system as system_clock};

pub use counts::domain_counts::{DomainCount, DomainCounts};
pub use counts::partition::{self, DomainId, PartitionInUse, Query};
pub use counts::topology::{self, DomainKey, bits};
pub use counts::views;
pub use deadline::{Deadline, Stopped};
pub use history::commit;
pub use history::journal::{self, Aside, Change, Entry, Journal, JournalError};
pub use history::named::{self, Snapshot, Unobserved};
pub use history::offer::{self, Error, Fence, Offer};
pub use history::reads::{self, Imagined};
pub use history::registry::Registry;
pub use history::replacing;
pub use history::reserving::{self, DecidedPicks};
pub use objects::change::{self, Batch, ObjectId};
pub use objects::cluster_objects;
pub use objects::defaults::Defaults;
pub use objects::free_volumes;
pub use objects::held_row;
pub use objects::kind::{self, ObjectKind, OwnerKind};
pub use objects::label_sets;
pub use objects::nodes::{NodeRef, Nodes};
pub use objects::nominated;
pub use objects::owners;
pub use objects::pod;
pub use objects::pod_terms;
pub use objects::requested;
pub use objects::reservation::{self, Claim, Hold, Retryable};
pub use objects::resource_versions::{self, ResourceVersions};
pub use objects::slots::Slot;
pub use state::pod_groups::{self, NamedPod, PodGroup, PodGroups};
pub use state::read_view::ReadView;
pub use state::revision::{self, State};
