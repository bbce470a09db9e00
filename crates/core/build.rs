//! Compiles the protocol without `protoc`: messages by prost, the descriptor set
//! for reflection, and what the features of the crate ask for: the gRPC client by
//! tonic, proto-JSON by pbjson.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::FieldDescriptorProto;

const PROTOS: [&str; 3] = [
    "proto/evenkeel/v1/explain.proto",
    "proto/evenkeel/v1/kubernetes.proto",
    "proto/evenkeel/v1/spread_service.proto",
];

/// Fields of objects that nobody reads here: JSON that `kubectl` writes has them. They
/// are in the descriptors for clients, and in no Rust type.
const NEVER_READ: [&str; 2] = ["kind", "api_version"];

/// From which number on fields are none of Kubernetes'.
const OWN_FIELDS: i32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut descriptors = protox::compile(PROTOS, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(
        out.join("evenkeel_descriptor.bin"),
        descriptors.encode_to_vec(),
    )?;
    let files = &mut descriptors.file;
    for message in files.iter_mut().flat_map(|file| &mut file.message_type) {
        let is_read = |field: &FieldDescriptorProto| {
            field.number() < OWN_FIELDS || !NEVER_READ.contains(&field.name())
        };
        message.field.retain(is_read);
    }
    #[cfg(feature = "json")]
    let encoded = descriptors.encode_to_vec();

    // Ordered maps: equal objects have equal bytes and equal JSON.
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".")
        .compile_well_known_types(true)
        .extern_path(".google.protobuf", "::pbjson_types")
        .extern_path(".google.protobuf.StringValue", "crate::proto::QuantityText")
        .extern_path(".google.rpc.Status", "crate::proto::RpcStatus")
        .build_client(cfg!(feature = "client"))
        // The service is generated where it is served.
        .build_server(false)
        .compile_fds(descriptors)?;
    #[cfg(feature = "json")]
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .btree_map(["."])
        .ignore_unknown_fields()
        // Kubernetes writes the first two in a way of its own. An answer of a stream may have
        // details of any type.
        .exclude([
            ".evenkeel.v1.Volume",
            ".evenkeel.v1.IntOrString",
            ".evenkeel.v1.DecideResponse",
        ])
        .build(&[".evenkeel.v1"])?;
    Ok(())
}
