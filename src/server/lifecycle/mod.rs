//! The life of a server: what it starts with, what it does at intervals, and
//! how it ends.

mod cleaning;
mod comparing;
pub mod ends;
mod following;
mod health;
mod joining;
mod patrol;
mod port;
mod reload;
pub(super) mod run;
mod security;
pub(super) mod serve;
mod services;
mod signals;
pub mod started;
mod state;
mod sweep;
