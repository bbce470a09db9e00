//! The changes of named snapshots: batches, replaces, reservations, the journal.
//!
//! - `registry` has the named snapshots (`named`); `reads` answers the questions of readers;
//!   `imagined` is a snapshot as a plan would change it.
//! - A change is an `offer`, of which `commit` plans an entry. With the `turn` an entry is applied to
//!   a clone of the state, which is published once the `journal` has recorded the entry; several at
//!   once in `group_commit`.
//! - `following` applies entries of other servers. `replacing` replaces the state, `successor` the
//!   whole snapshot.
//! - Reservations: `reservation_ids`, `reserving`, `assigning`, `ending`.

pub mod assigning;
pub mod capacity;
pub mod commit;
pub mod ending;
pub mod error;
#[cfg(all(test, feature = "json"))]
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
pub mod reserving;
pub mod staged;
pub mod successor;
pub mod turn;
