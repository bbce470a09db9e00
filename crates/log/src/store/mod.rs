//! The state directory, which keeps a server's state across restarts.
//!
//! [`Store`] is the [`Journal`](evenkeel_core::snapshot::Journal) of a registry. It keeps the objects of
//! each snapshot by key in one file of `redb`, an embedded store whose transactions take effect as
//! a whole or not at all. Every group of entries is a transaction, with a number that is recorded
//! beside the file. redb was chosen for its behaviour after faults: the file is whole after any kill,
//! every page can be verified at the start, and damage is an error.
//!
//! A batch is first appended whole to a table of batches. Later one transaction moves many batches
//! under the keys of their objects.
//!
//! `commit` writes transactions of `rows`; `pending` has the batches that are not under the keys of
//! their objects yet. `opening` and `session` open the `file`, `restore` reads snapshots back,
//! `inspect` serves the commands.

mod commit;
mod counts;
mod disk;
mod error;
mod file;
mod inspect;
mod journal;
mod last_commit;
mod objects;
mod opening;
mod pending;
mod private;
mod restore;
mod rows;
mod sealed;
mod session;
mod unwritten;

pub use counts::StoreCounts;
pub use disk::Durability;
pub use error::StoreError;
pub use file::{FILE, set_aside};
pub use inspect::{Contents, Described, check};
pub use journal::Store;
pub use last_commit::Loss;
pub use restore::{Progress, StoredSnapshot};
