//! The wire objects: the messages of `proto/` as Rust types. All but some JSON is generated.
//!
//! With the feature `json` they read and write proto-JSON, and with `client` there is a client of
//! the service.

#[cfg(feature = "json")]
mod json;
mod quantity_text;
mod rpc_status;
mod volume;

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.rs"));
    #[cfg(feature = "json")]
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.serde.rs"));

    pub use super::quantity_text::QuantityText as Quantity;
    pub use super::rpc_status::RpcStatus;

    /// The protocol's descriptor set, for reflection and for clients that
    /// read it from a file.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/evenkeel_descriptor.bin"));
}

pub use pbjson_types::{Duration, Timestamp};
