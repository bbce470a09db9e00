//! Clients that mean harm, or do it: each goes past a limit, and others are
//! served as if it were not there.

// What `bench/attack` asks, and how it measures, on a smaller scale.
#[path = "../../examples/attack/questions.rs"]
mod asked;
#[path = "../../examples/attack/beside.rs"]
mod beside;
#[path = "../../examples/attack/pods.rs"]
mod pods;
#[path = "../../examples/attack/request.rs"]
mod request;

mod admin;
mod attack;
mod crowd;
mod deadlines;
#[path = "../support/descriptors.rs"]
mod descriptors;
mod draining;
#[path = "../support/examples.rs"]
mod examples;
mod feeds;
mod groups;
#[path = "../support/http.rs"]
mod http;
mod idle;
mod large;
mod lists;
mod memory;
#[path = "../support/metrics.rs"]
mod metrics;
mod overload;
mod port;
#[path = "../support/process.rs"]
mod process;
mod questions;
mod raw;
mod silent;
#[path = "../support/streams.rs"]
mod streams;
mod world;
