//! The life of a server: its start, its work at intervals, and its end.
//!
//! `run` is the process, `serve` the order in which a server starts and drains, `port` the listener
//! with its services. `joining` and `fleet` are for servers that share a log. `upkeep` and `ends`
//! run at intervals, `security` reads certificates and rules, also when they change.

pub mod ends;
mod fleet;
mod health;
pub(super) mod joining;
mod port;
pub(super) mod run;
mod security;
pub(super) mod serve;
mod signals;
mod state;
mod upkeep;
