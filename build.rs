//! Compiles the protocol without `protoc`: messages by prost, the descriptor set
//! for reflection, and what the features of the crate ask for: gRPC stubs by
//! tonic, proto-JSON by pbjson.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
#[cfg(feature = "server")]
use prost_types::{MethodDescriptorProto, ServiceDescriptorProto};
#[cfg(feature = "server")]
use tonic_build::manual;

const PROTOS: [&str; 3] = [
    "proto/evenkeel/v1/explain.proto",
    "proto/evenkeel/v1/kubernetes.proto",
    "proto/evenkeel/v1/spread_service.proto",
];

/// Fields of requests that the server receives as bytes, and decodes where it comes
/// to them: message and field.
const DECODED_LATER: [(&str, &str); 1] = [("UpdateSnapshotRequest", "changes")];

/// Fields of objects that nobody reads here: JSON that `kubectl` writes has them. They
/// are in the descriptors for clients, and in no Rust type.
const NEVER_READ: [&str; 2] = ["kind", "api_version"];

/// From which number on fields are none of Kubernetes'.
const OWN_FIELDS: i32 = 100;

/// The package of the protocol.
const PACKAGE: &str = ".evenkeel.v1.";

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
    let configured = || {
        tonic_prost_build::configure()
            .btree_map(".")
            .bytes(".")
            .compile_well_known_types(true)
            .extern_path(".google.protobuf", "::pbjson_types")
            .extern_path(
                ".google.protobuf.StringValue",
                "crate::proto::quantity_text::QuantityText",
            )
    };
    if cfg!(feature = "server") {
        let received = out.join("received");
        fs::create_dir_all(&received)?;
        let (descriptors, same) = received_messages(descriptors.clone());
        let server = configured()
            .build_client(false)
            // See `server`.
            .build_server(false)
            .out_dir(received);
        let path = |name: &String| format!("crate::proto::v1::{name}");
        let server = same.iter().fold(server, |server, name| {
            server.extern_path(format!("{PACKAGE}{name}"), path(name))
        });
        #[cfg(feature = "server")]
        for service in descriptors.file.iter().flat_map(|file| &file.service) {
            stubs(service);
        }
        server.compile_fds(descriptors)?;
    }
    configured()
        .build_client(cfg!(feature = "client"))
        .build_server(false)
        .compile_fds(descriptors)?;
    #[cfg(feature = "json")]
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .btree_map(["."])
        .ignore_unknown_fields()
        // Kubernetes writes it in a way of its own.
        .exclude([".evenkeel.v1.Volume", ".evenkeel.v1.IntOrString"])
        .build(&[".evenkeel.v1"])?;
    Ok(())
}

/// The protocol as the server receives it, and the names of what is in it as it was
/// defined.
///
/// A field that is decoded later is a list of bytes, even where there is one message:
/// a client may send that in parts, which follow each other.
fn received_messages(mut descriptors: FileDescriptorSet) -> (FileDescriptorSet, Vec<String>) {
    let files = &mut descriptors.file;
    for message in files.iter_mut().flat_map(|file| &mut file.message_type) {
        let name = message.name().to_owned();
        for field in &mut message.field {
            if DECODED_LATER.contains(&(&*name, field.name())) {
                field.set_type(Type::Bytes);
                field.set_label(Label::Repeated);
                field.type_name = None;
            }
        }
    }
    let all: Vec<&DescriptorProto> = files.iter().flat_map(|file| &file.message_type).collect();
    let mut other: Vec<&str> = DECODED_LATER.iter().map(|(message, _)| *message).collect();
    let has_other = |message: &DescriptorProto, other: &[&str]| {
        let types = message.field.iter().map(|field| field.type_name());
        let mut names = types.filter_map(|name| name.strip_prefix(PACKAGE));
        names.any(|name| other.contains(&name))
    };
    let services = files.iter().flat_map(|file| &file.service);
    let methods = services.flat_map(|service| &service.method);
    let answers: Vec<&str> = methods
        .filter_map(|method| method.output_type().strip_prefix(PACKAGE))
        .collect();
    while let Some(message) = all.iter().find(|message| {
        let name = message.name();
        !answers.contains(&name) && !other.contains(&name) && has_other(message, &other)
    }) {
        other.push(message.name());
    }
    let same = all.iter().map(|message| message.name());
    let same = same.filter(|name| !other.contains(name));
    let enums = files.iter().flat_map(|file| &file.enum_type);
    let same = same.chain(enums.map(|it| it.name()));
    let same = same.map(str::to_owned).collect();
    (descriptors, same)
}

/// Generates the stubs of a server. It takes and gives messages in their encoding, and
/// reads and writes them by itself (`src/proto/encoded.rs`).
#[cfg(feature = "server")]
fn stubs(service: &ServiceDescriptorProto) {
    let mut stubs = manual::Service::builder()
        .name(service.name())
        .package(PACKAGE.trim_matches('.'));
    for method in &service.method {
        stubs = stubs.method(stub(method));
    }
    manual::Builder::new()
        .build_client(false)
        .compile(&[stubs.build()]);
}

#[cfg(feature = "server")]
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

#[cfg(feature = "server")]
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
