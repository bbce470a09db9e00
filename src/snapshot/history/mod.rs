//! How named snapshots move on: batches, replaces, reservations, the journal.

pub mod book;
pub mod committing;
pub mod error;
#[cfg(test)]
pub mod fault_injection;
pub mod freshness;
pub mod group_commit;
pub mod journal;
pub mod named;
pub mod rebuild;
pub mod recording;
pub mod registry;
pub mod reserving;
pub mod restoring;
pub mod retired;
pub mod staged;
