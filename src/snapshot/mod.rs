//! The state that decisions are made on.

mod limits;
mod registry;

pub use limits::Limits;
pub use registry::{Observer, Registry};
