//! What a state directory keeps: across stops, kills, faults and damage.

#[path = "../support/http.rs"]
mod http;
#[path = "../support/metrics.rs"]
mod metrics;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/mod.rs"]
mod support;

mod assigned;
mod crash;
mod directories;
mod feeder;
mod full_disk;
mod home;
mod kept;
mod limits;
mod lost;
mod node_names;
mod removed;
mod retried;
mod stored_format;
