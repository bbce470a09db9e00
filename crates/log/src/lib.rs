//! The log that several servers share. An engine outside of them keeps it, and every server applies
//! the same records in the same order.
//!
//! [`Log`] is the interface of an engine. Each [record](Body) proves its place when it
//! is read ([`record`]).
//!
//! `lease` is a right that one server of a fleet has at a time. [`replica`] is a server that shares
//! a log, and [`store`] is the state directory of one server.
//!
//! `backoff`, `tasks` and `visible` are tools that need no log.

pub mod backoff;
pub mod entry_row;
pub mod interface;
pub mod lease;
pub mod nats;
pub mod record;
pub mod replica;
pub mod store;
pub mod tasks;
pub mod visible;

pub use entry_row::{AsideRow, EntryRow, Happened, NumberedRow};
pub use interface::{Bounds, Error, FleetBounds, Follower, Log, Message, Values, Wait};
pub use record::{Body, Hash, Place, Unreadable};
