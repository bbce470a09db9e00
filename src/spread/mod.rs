//! The decisions: which nodes a pod may be put on, how good each is, and the
//! numbers behind that. Reads one cut of a snapshot, returns plain values.

mod active;
mod filter;
mod question;
mod report;
mod score;
mod verdict;

pub use active::{Active, Constraints};
pub use filter::Filter;
pub use question::{NodeChecks, Question};
pub use report::{DomainReport, Report};
pub use score::{NodeScore, Scores};
pub use verdict::{Reason, Refusal};
