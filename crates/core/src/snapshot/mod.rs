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

mod clock;
mod counters;
mod counts;
mod deadline;
mod history;
mod objects;
mod state;

pub use crate::limits::Limits;
pub use clock::{Clock, Moment, Now, Uptime, boot, system as system_clock, uptime};
pub use counters::SnapshotCounters;
pub use counts::domain::DomainId;
pub use counts::domain_counts::{DomainCount, DomainCounts};
pub use counts::layout::bits;
pub use counts::partition;
pub use counts::partition::{Eligibility, Partition, PartitionId};
pub use counts::partition_in_use::PartitionInUse;
pub use counts::query::Query;
pub use counts::topology::{DomainKey, Topology};
pub use counts::view::View;
pub use counts::views::ViewCopy;
pub use deadline::{Deadline, Stopped};
pub use history::assigning::{Assigned, Assignment};
pub use history::error::Error;
#[cfg(all(test, feature = "json"))]
pub(crate) use history::fault_injection::InjectedFault;
pub use history::freshness::MaxAges;
pub use history::group_commit::GroupCommit;
pub use history::imagined::Imagined;
pub use history::journal::{
    Aside, Change, Entry, Journal, JournalError, Missed, NewState, OwnedChange, OwnedEntry,
    Restoring, SavedSnapshot, Standing, Whole,
};
pub use history::named::Snapshot;
pub use history::observer::{Observer, Unobserved};
pub use history::offer::{Fence, Offer, Update};
pub use history::reads::{NodePage, Summary};
pub use history::registry::Registry;
pub use history::reserving::{DecidedPicks, Ended, Listed, Renewed, Reserved, Reserving};
pub use history::staged::Staged;
pub use history::successor::Successor;
pub use objects::budget::DisruptionBudget;
pub use objects::change::{Batch, Form, ObjectId, ValidChange};
pub use objects::defaults::Defaults;
pub use objects::free_volumes::{FreeVolume, VolumeList, VolumeRank, reaches};
pub use objects::held_row::{self, HeldRow, Numbered};
pub use objects::kind::{
    ObjectKind, OwnerKind, StorageKind, encode_object, metadata_mut, metadata_of,
};
pub use objects::label_sets::{LabelSetId, LabelSets};
pub use objects::node::NodeRef;
pub use objects::nodes::Nodes;
pub use objects::nominated::{NominatedPod, Nominations};
pub use objects::owners::{Adopter, Controller, NamedBudget, Owner, Owners, PodNumbering};
pub use objects::pair_index::PairIndex;
pub use objects::pod::Phase;
pub use objects::pod_terms::{HeldTerm, TermTable};
pub use objects::reservation::{
    Claim, Hold, KeptAnswer, Reservation, Retryable, Serial, is_reservation,
};
pub use objects::resource_versions::{FeedBehind, OtherCluster, ResourceVersions};
pub use objects::slots::Slot;
pub use objects::storage_objects::{ListOf, StorageObjects};
pub use objects::storage_use::PodUse;
pub use objects::symbols::Symbol;
pub use state::namespace::Namespace;
pub use state::pod_groups::{NamedPod, PodGroup, PodGroupId, PodGroups};
pub use state::reach::Reach;
pub use state::read_view::{CountedSet, ReadView};
pub use state::revision::{Applied, Sizes, State};
