//! The wire objects: what `proto/` says, as Rust types. All but some JSON is
//! generated.
//!
//! With the feature `json` they read and write proto-JSON, with `client` there
//! is a client of the service, and with `server` its stubs.

#[cfg(feature = "json")]
mod json;

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.rs"));
    #[cfg(feature = "json")]
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.serde.rs"));

    /// The protocol's descriptor set, for reflection and for clients that
    /// read it from a file.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/evenkeel_descriptor.bin"));
}

pub use pbjson_types::{Duration, Timestamp};
