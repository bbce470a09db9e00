//! Clients that do harm, intended or not: each goes past a limit, and others are served as if it
//! were not there.

// These are the questions and measurements of `bench/attack`, used on a smaller scale.
#[path = "../../../examples/attack/questions.rs"]
mod asked;
#[path = "../../../examples/attack/beside.rs"]
mod beside;
#[path = "../../../examples/attack/pods.rs"]
mod pods;
#[path = "../../../examples/attack/request.rs"]
mod request;

mod admin;
mod attack;
mod cancelled;
mod crowd;
mod deadlines;
mod feeds;
mod groups;
mod idle;
mod large;
mod lists;
mod memory;
mod overload;
mod pairs;
mod port;
mod products;
mod questions;
mod rich;
mod silent;
mod storage;
mod world;

use support::{descriptors, examples, metrics, process, raw, streams};
