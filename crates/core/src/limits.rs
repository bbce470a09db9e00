//! Limits on the memory and work that clients can cause.

mod exceeded;
mod node_names;
mod processors;
mod table;

pub use exceeded::Exceeded;
pub use node_names::NodeNames;
pub use processors::processors;
pub use table::{Limit, Limits, Over, Row, Unit};
