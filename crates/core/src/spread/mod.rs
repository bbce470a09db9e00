//! The decisions: Filter, Score and the numbers behind their verdicts. They read one read view of a
//! snapshot and return plain values.
//!
//! `question` is the compiled incoming pod with its constraints in force. `hard` has
//! the arithmetic of Filter and `score` that of Score. Deciding, placing, planning and explaining
//! use these two, so each rule is in one place. `checks` has the node checks, `pod_affinity` affinity
//! between pods, `volumes` the rules of storage, and `claims` finds a pod's claims and binds those that
//! wait. `filter` puts these together, and is the one judge of nodes: `place` tells
//! it of each pick.

mod checks;
mod claims;
pub mod describe;
mod filter;
pub mod fleet;
mod hard;
pub mod place;
mod pod_affinity;
mod question;
mod score;
mod verdict;
mod volumes;

pub use checks::{Checked, Checks};
pub use filter::{Filter, Nominated, NominatedOn};
pub use hard::{ChangingCounts, DomainReport, GlobalMinimum, Report, SkewRule};
pub use place::{Holding, Outcome, Pick, Picker, PlaceOptions};
pub use pod_affinity::PodTerms;
pub use question::{Active, Constraints, NodeChecks, Question, Subject};
pub use score::{NodeScore, Scores};
pub use verdict::{Affected, Judgement, NodeRefusal, Reason, Tallies};
pub use volumes::{BoundClaim, Volumes};
