//! Errors of gRPC calls as messages.

use pbjson_types::Any;

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
