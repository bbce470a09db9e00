//! Compiles the protocol without `protoc`: messages by prost, the descriptor set
//! for reflection, and what the features of the crate ask for: gRPC stubs by
//! tonic, proto-JSON by pbjson.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const PROTOS: [&str; 3] = [
    "proto/evenkeel/v1/explain.proto",
    "proto/evenkeel/v1/kubernetes.proto",
    "proto/evenkeel/v1/spread_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(PROTOS, ["proto"])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("evenkeel_descriptor.bin"), &encoded)?;

    // Ordered maps: equal objects have equal bytes and equal JSON.
    tonic_prost_build::configure()
        .build_client(cfg!(feature = "client"))
        .build_server(cfg!(feature = "server"))
        .btree_map(".")
        .bytes(".")
        .compile_well_known_types(true)
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(descriptors)?;
    #[cfg(feature = "json")]
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .btree_map(["."])
        .ignore_unknown_fields()
        // Kubernetes writes these two in a way of their own.
        .exclude([".evenkeel.v1.Quantity", ".evenkeel.v1.Volume"])
        .build(&[".evenkeel.v1"])?;
    Ok(())
}
