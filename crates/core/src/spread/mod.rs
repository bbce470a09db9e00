//! The decisions: Filter, Score and the numbers behind their verdicts. They read one read view of a
//! snapshot and return plain values.
//!
//! `question` is the compiled incoming pod, and `active` has its constraints in force. `skew` has
//! the arithmetic of Filter and `scoring` that of Score. Deciding, placing, planning and explaining
//! use these two, so each rule is in one place. `checks`, `node_room` and `judgement` are the node
//! checks, `pod_affinity` is affinity between pods, `volumes` has the rules of storage, and
//! `claim_binding` binds claims that wait. `unchecked` lists the fields that are not checked.

mod active;
mod cells;
mod checks;
mod claim_binding;
pub mod describe;
mod filter;
pub mod fleet;
mod hard;
mod held_claims;
mod judgement;
mod node_room;
mod nominated;
mod own_place;
pub mod place;
mod placement;
mod pod_affinity;
mod pod_claims;
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
pub use placement::{Holding, Outcome, Pick, PickStep, Picker, PlaceOptions};
pub use pod_affinity::PodTerms;
pub use pod_claims::BoundClaim;
pub use question::{NodeChecks, Question};
pub use report::{DomainReport, Report};
pub use score::{NodeScore, Scores};
pub use skew::{GlobalMinimum, SkewRule, change_count};
pub use verdict::{NodeRefusal, Reason};
pub use volumes::Volumes;
