//! The life of a server: its start, its work at intervals, and its end.
//!
//! `serve` is the process, and the order in which a server starts and drains. `fleet` is for servers
//! that share a log. `upkeep` has the work at intervals, `security` reads certificates and rules, also
//! when they change.

pub(super) mod fleet;
mod security;
pub(super) mod serve;
pub(super) mod upkeep;
