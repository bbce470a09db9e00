//! The wire objects: what `proto/` says, as Rust types with binary and JSON
//! encodings. Everything here is generated.

/// Package `evenkeel.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("evenkeel.v1");
    include!(concat!(env!("OUT_DIR"), "/evenkeel.v1.serde.rs"));

    /// The protocol's descriptor set, for reflection and for clients that
    /// read it from a file.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/evenkeel_descriptor.bin"));
}
