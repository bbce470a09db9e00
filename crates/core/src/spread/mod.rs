//! The decisions: Filter, Score and the numbers behind their verdicts. They read one read view of a
//! snapshot and return plain values.
//!
//! `question` is the compiled incoming pod, and `active` has its constraints in force. `hard` has
//! the arithmetic of Filter and `score` that of Score. Deciding, placing, planning and explaining
//! use these two, so each rule is in one place. `checks` has the node checks, `pod_affinity` affinity
//! between pods, `volumes` the rules of storage, `claims` finds a pod's claims, and `claim_binding`
//! binds those that wait. `filter` puts these together, and is the one judge of nodes: `place` tells
//! it of each pick.

mod active;
mod checks;
mod claim_binding;
mod claims;
pub mod describe;
mod filter;
pub mod fleet;
mod hard;
mod nominated;
pub mod place;
mod placement;
mod pod_affinity;
mod question;
mod report;
mod score;
mod verdict;
mod volumes;

pub use active::{Active, Constraints, Subject};
pub use checks::{Checked, Checks};
pub use claims::BoundClaim;
pub use filter::Filter;
pub use hard::{ChangingCounts, GlobalMinimum, SkewRule};
pub use nominated::{Nominated, NominatedOn};
pub use placement::{Holding, Outcome, Pick, PickStep, Picker, PlaceOptions};
pub use pod_affinity::PodTerms;
pub use question::{NodeChecks, Question};
pub use report::{DomainReport, Report};
pub use score::{NodeScore, Scores};
pub use verdict::{Affected, Judgement, NodeRefusal, Reason, Tallies};
pub use volumes::Volumes;
