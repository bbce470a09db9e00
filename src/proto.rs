//! The wire objects of `evenkeel-core`, and the service over them.

pub mod encoded;

pub use evenkeel_core::proto::*;

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod v1 {
    pub use evenkeel_core::proto::v1::*;
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.SpreadService.rs"));
}
