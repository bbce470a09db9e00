//! What the tests share. Every test is a crate of its own and uses a part of
//! it, hence the allowances.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod agree;
pub mod asked;
pub mod build;
pub mod calls;
pub mod generate;
pub mod history;
pub mod in_process;
pub mod model;
pub mod reasons;
pub mod server;
pub mod vectors;
pub mod world;
