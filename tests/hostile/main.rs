//! Clients that mean harm, or do it: each goes past a limit, and others are
//! served as if it were not there.

mod crowd;
mod deadlines;
mod feeds;
mod idle;
mod large;
mod overload;
mod port;
#[path = "../support/process.rs"]
mod process;
mod raw;
mod silent;
#[path = "../support/streams.rs"]
mod streams;
mod world;
