//! The changes of named snapshots: batches, replaces, reservations, the journal.
//!
//! - `registry` has the named snapshots (`named`); `reads` answers the questions of readers;
//!   `imagined` is a snapshot as a plan would change it.
//! - A change is an `offer`; `commit` checks it with the `turn`, records it in the `journal`, and
//!   applies it, several at once in `group_commit`.
//! - `following` applies steps that other servers took. `replacing` replaces the live state,
//!   `successor` the whole snapshot.
//! - Reservations: `reservation_table`, `reservation_ids`, `reserving`, `assigning`, `ending`,
//!   `unclaimed`.

pub mod assigning;
pub mod capacity;
pub mod commit;
pub mod ending;
pub mod error;
#[cfg(test)]
pub mod fault_injection;
pub mod following;
pub mod freshness;
pub mod group_commit;
pub mod imagined;
pub mod journal;
pub mod named;
pub mod observer;
pub mod offer;
pub mod reads;
pub mod registry;
pub mod replacing;
mod reservation_ids;
pub mod reservation_table;
pub mod reserving;
pub mod retired;
pub mod staged;
pub mod successor;
pub mod turn;
pub mod unclaimed;
