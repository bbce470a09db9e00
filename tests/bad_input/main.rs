//! Bad input: each row of a table breaks one rule. The answer has the right
//! code, names every fault by the path that Kubernetes would give it, and the
//! state afterwards is byte for byte what it was.

#[path = "../support/descriptors.rs"]
mod descriptors;
#[path = "../support/examples.rs"]
mod examples;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/mod.rs"]
mod support;

mod changes;
mod constraints;
mod frames;
mod limits;
mod numbers;
mod pods;
mod requests;
mod verdict;
