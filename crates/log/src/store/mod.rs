//! The state directory, which keeps a server's state across restarts.
//!
//! [`Store`] is the [`Journal`](evenkeel_core::snapshot::Journal) of a registry. It keeps the objects of
//! each snapshot by key in one file of `redb`, an embedded store whose transactions take effect as
//! a whole or not at all. Every group of entries is a transaction. redb was chosen for its behaviour after faults: the file is whole after any kill,
//! every page can be verified at the start, and damage is an error.
//!
//! A batch is first appended whole to a table of batches. Later one transaction moves many batches
//! under the keys of their objects.
//!
//! `commit` writes transactions of `rows`, `file` opens the file, and `restore` reads snapshots back.

mod commit;
mod disk;
mod error;
mod file;
mod journal;
mod restore;
mod rows;

pub use disk::Durability;
pub use error::StoreError;
pub use file::FILE;
pub use journal::{Store, StoreCounts};
