//! Generates the stubs of the gRPC service over the messages of `evenkeel-core`, without `protoc`.

use std::error::Error;

use prost_types::{MethodDescriptorProto, ServiceDescriptorProto};
use tonic_build::manual;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/evenkeel/v1/spread_service.proto"], ["proto"])?;
    for service in descriptors.file.iter().flat_map(|file| &file.service) {
        stubs(service);
    }
    Ok(())
}

/// Generates the stubs of a server. It takes and gives messages in their encoding, and
/// reads and writes them by itself (`src/proto/encoded.rs`).
fn stubs(service: &ServiceDescriptorProto) {
    let mut stubs = manual::Service::builder()
        .name(service.name())
        .package("evenkeel.v1");
    for method in &service.method {
        stubs = stubs.method(stub(method));
    }
    manual::Builder::new()
        .build_client(false)
        .compile(&[stubs.build()]);
}

fn stub(method: &MethodDescriptorProto) -> manual::Method {
    let stub = manual::Method::builder()
        .name(snake_case(method.name()))
        .route_name(method.name())
        .input_type("::prost::bytes::Bytes")
        .output_type("::prost::bytes::Bytes")
        .codec_path("crate::proto::encoded::BytesCodec");
    let stub = match method.client_streaming() {
        true => stub.client_streaming(),
        false => stub,
    };
    match method.server_streaming() {
        true => stub.server_streaming().build(),
        false => stub.build(),
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
