//! The Fleet dialect (`docs/semantics.md`, "Fleet dialect"): nodes are
//! clusters, a pod on one is a placement that it holds, and a cluster holds a
//! placement at most once.

mod cells;
mod judge;
mod plan;
mod question;
mod spread;

pub use judge::{Judge, Refused, score};
pub use plan::{Holding, Outcome, Pick, Plan, Policy, Step, Verdict, Wish};
pub use question::Question;
pub use spread::{Class, Effect, Spread, holders};
