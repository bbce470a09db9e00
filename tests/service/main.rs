//! All that needs nothing but this crate and its program. Its parts, one a promise, run side by side in one program,
//! because each test program links the whole crate. `cargo test SUBJECT::` runs one part.

mod bad_input;
mod cli;
mod decision_log;
mod decisions;
mod explain;
mod fuzz;
mod memory;
mod reservations;
mod restart;
mod revisions;
mod security;
mod serving;
mod simulation;
mod snapshots;
mod staleness;
mod thrash;
mod upkeep;

support::server_with_fixed_settings!();
