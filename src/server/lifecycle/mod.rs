//! The life of a server: what it starts with, what it does at intervals, and
//! how it ends.

pub mod ends;
mod fleet;
mod health;
pub(super) mod joining;
mod port;
mod reload;
pub(super) mod run;
mod security;
pub(super) mod serve;
mod signals;
mod state;
mod upkeep;
