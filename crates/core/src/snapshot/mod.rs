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
pub use counts::domain_counts::{DomainCount, DomainCounts};
pub use counts::partition::{
    self, DomainId, Eligibility, Partition, PartitionId, PartitionInUse, Query,
};
pub use counts::topology::{DomainKey, Topology, bits};
pub use counts::views::{CachedView, View};
pub use deadline::{Deadline, Stopped};
pub use history::commit::GroupCommit;
pub use history::journal::{
    Aside, Change, Entry, Journal, JournalError, Missed, NewState, Restoring, SavedSnapshot,
    Standing, Whole,
};
pub use history::named::{MaxAges, Observer, Snapshot, Unobserved};
pub use history::offer::{Error, Fence, Offer, Update};
pub use history::reads::{Imagined, NodePage, Summary};
pub use history::registry::Registry;
pub use history::replacing::{Staged, Successor};
pub use history::reserving::{
    Assigned, Assignment, DecidedPicks, Ended, Listed, Renewed, Reserved, Reserving,
};
pub use objects::change::{Batch, Form, ObjectId, ValidChange};
pub use objects::cluster_objects::{ListOf, StorageObjects};
pub use objects::defaults::Defaults;
pub use objects::free_volumes::{FreeVolume, VolumeList, VolumeRank, reaches};
pub use objects::held_row::{self, HeldRow};
pub use objects::kind::{
    ObjectKind, OwnerKind, StorageKind, encode_object, metadata_mut, metadata_of,
};
pub use objects::label_sets::{LabelSetId, LabelSets, Symbol};
pub use objects::nodes::{NodeRef, Nodes};
pub use objects::nominated::{NominatedPod, Nominations};
pub use objects::owners::{
    Adopter, Controller, DisruptionBudget, NamedBudget, Owner, Owners, PodNumbering,
};
pub use objects::pod::Phase;
pub use objects::pod_terms::{HeldTerm, PairIndex, TermTable};
pub use objects::requested::PodUse;
pub use objects::reservation::{
    Claim, Hold, KeptAnswer, Numbered, Reservation, Retryable, Serial, is_reservation,
};
pub use objects::resource_versions::{FeedBehind, OtherCluster, ResourceVersions};
pub use objects::slots::Slot;
pub use state::pod_groups::{NamedPod, PodGroup, PodGroupId, PodGroups};
pub use state::read_view::ReadView;
pub use state::revision::{Applied, Namespace, Sizes, State};
