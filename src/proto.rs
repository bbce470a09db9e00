//! The wire objects of `evenkeel-core`, and the service over them.

pub mod encoded;
#[warn(missing_docs)]
pub mod server;

pub use evenkeel_core::proto::*;

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    pub use super::server as spread_service_server;
    pub use evenkeel_core::proto::v1::*;
}
