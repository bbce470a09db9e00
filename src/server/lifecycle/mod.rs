//! The life of a server: what it starts with, what it does at intervals, and
//! how it ends.

pub mod ends;
pub(super) mod health;
mod patrol;
pub(super) mod reload;
pub(super) mod run;
pub(super) mod security;
pub(super) mod serve;
mod services;
mod signals;
mod state;
mod sweep;
