//! The wire objects: the messages of `proto/` as Rust types. All but some JSON is generated.
//!
//! With the feature `json` they read and write proto-JSON, and with `client` there is a client of
//! the service.

#[cfg(feature = "json")]
mod json;
mod volume;

use pbjson_types::Any;

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.rs"));
    #[cfg(feature = "json")]
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.serde.rs"));

    pub use super::QuantityText as Quantity;
    pub use super::RpcStatus;

    /// The protocol's descriptor set, for reflection and for clients that
    /// read it from a file.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/evenkeel_descriptor.bin"));
}

pub use pbjson_types::{Duration, Timestamp};

/// A count for the wire.
pub fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A `google.protobuf.StringValue`. Its bytes are the same as those of Kubernetes'
/// `resource.Quantity`. In JSON it is a text, or a number as in manifests.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct QuantityText {
    /// A decimal number of at least 0 with an optional suffix, as `kubernetes.proto` defines it.
    #[prost(string, tag = "1")]
    pub string: String,
}

/// The error of a call: `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RpcStatus {
    /// Number of the gRPC code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The reason, for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// The details, each with its type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}
