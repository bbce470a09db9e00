//! Placing many pods at once by the rules of the Kubernetes dialect: as if
//! each were filtered, scored and put on its best node before the next is
//! looked at (`docs/placing.md`).
//!
//! What is exact and costs a look at every node once, the [`Placer`] gathers.
//! After that no pick looks at nodes: those that no constraint can tell apart
//! form a group, and only groups are judged and scored.

mod groups;
mod placer;
mod tracked;

pub use placer::Placer;
