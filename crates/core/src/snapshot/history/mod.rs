//! The changes of named snapshots: batches, replaces, reservations, the journal.
//!
//! - `registry` has the named snapshots (`named`); `reads` answers the questions of readers, and has
//!   the snapshot as a plan would change it.
//! - A change is an `offer`, of which `commit` plans an entry. With the `turn` an entry is applied to
//!   a clone of the state, which is published once the `journal` has recorded the entry; several at
//!   once. Entries of other servers are applied in the same way.
//! - `replacing` replaces the state, or the whole snapshot.
//! - `reserving`: reservations, from the first entry to the end of their time.

pub mod commit;
pub mod journal;
pub mod named;
pub mod offer;
pub mod reads;
pub mod registry;
pub mod replacing;
pub mod reserving;
pub mod turn;
