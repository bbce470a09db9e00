//! A server as one of several that share a log: it follows the log of each
//! snapshot, and appends to it what its clients want.
//!
//! Everything here is synchronous, and waits where its caller may wait. So a
//! simulation can stop it at every call to the log.

mod aside;
mod checkpoint;
mod cleaning;
mod comparing;
mod counts;
mod decode;
mod digest;
mod directory;
mod healing;
mod journal;
mod local;
mod parts;
mod reading;
mod server;
mod track;
mod waiting;
mod writing;

pub use checkpoint::newest_checkpoints;
pub use counts::{Counts, Lag};
pub use local::Unusable;
pub use server::Replica;
pub use waiting::Waiting;
