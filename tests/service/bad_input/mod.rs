//! Bad input: each row of a table breaks one rule. The answer has the right
//! code, names every fault by the path that Kubernetes would give it, and the
//! state afterwards is byte for byte what it was.

mod changes;
mod frames;
mod newer;
mod numbers;
pub(crate) mod requests;
mod verdict;

use support::{descriptors, process};
