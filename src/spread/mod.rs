//! The decisions: which nodes a pod may be put on, how good each is, and the
//! numbers behind that. Reads one read view of a snapshot, returns plain values.
//!
//! `question` is the incoming pod, compiled, and `active` its constraints in force. `skew` has
//! the arithmetic of Filter and `scoring` that of Score: deciding, placing, planning and
//! explaining use these two, so each rule is in one place. `checks` and `judgement` are the
//! node checks, `pod_affinity` the terms between pods, `unchecked` what nobody checks.

mod active;
mod cells;
mod checks;
pub mod describe;
mod filter;
pub mod fleet;
mod judgement;
mod nominated;
mod own_place;
pub mod place;
mod placement;
mod pod_affinity;
mod question;
mod report;
mod score;
mod scoring;
mod skew;
mod soft;
mod unchecked;
mod verdict;
mod volumes;
mod waiting_claims;

pub use active::{Active, Constraints, InForce, Subject};
pub use checks::{Checked, Checks};
pub use filter::Filter;
pub use judgement::{Judgement, Tallies};
pub use nominated::{Nominated, NominatedOn};
pub use placement::{Holding, Outcome, Pick, PickStep, Picker, Wish};
pub use pod_affinity::PodTerms;
pub use question::{NodeChecks, Question};
pub use report::{DomainReport, Report};
pub use score::{NodeScore, Scores};
pub use skew::{GlobalMinimum, SkewRule};
pub use verdict::{NodeRefusal, Reason};
pub use volumes::{BoundClaim, Volumes};
