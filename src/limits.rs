//! Limits: what clients can make grow, and how far.

mod exceeded;
mod node_names;
mod processors;
mod table;

pub use exceeded::Exceeded;
pub use node_names::NodeNames;
pub use processors::processors;
pub use table::{Heading, Limit, Limits, Over, Row, Unit};
