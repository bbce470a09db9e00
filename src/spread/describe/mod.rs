//! How evenly workloads are spread now (`docs/spread.md`): the workloads of a
//! namespace, and the skew of each, by its own constraints or by a topology key.

mod balance;
mod survey;
mod workload;

pub use balance::{Balance, Share};
pub use survey::{By, JudgedWorkload, Survey};
pub use workload::WorkloadId;
