//! The decision log of the real server: what it says, that it never gets in
//! the way, and that a replay finds what differs.

mod files;
mod full_disk;
#[path = "../support/http.rs"]
mod http;
mod logging;
#[path = "../support/metrics.rs"]
mod metrics;
#[path = "../support/process.rs"]
mod process;
mod replay;
#[path = "../support/mod.rs"]
mod support;
mod written;
