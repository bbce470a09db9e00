//! The services that the server offers, each by the name that clients call.

use tonic_reflection::server::{Builder, Error, v1, v1alpha};

use super::kinds::MAX_NAME_REQUEST_BYTES;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// Reflection v1, for every service of the port.
pub fn v1() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, Error> {
    let server = builder().build_v1()?;
    Ok(server.max_decoding_message_size(MAX_NAME_REQUEST_BYTES))
}

/// Reflection by the protocol's former name, v1alpha, which many tools still ask for.
pub fn v1alpha() -> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, Error> {
    let server = builder().build_v1alpha()?;
    Ok(server.max_decoding_message_size(MAX_NAME_REQUEST_BYTES))
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .include_reflection_service(false)
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        // A client that knows the protocol only by reflection needs these messages to show the
        // details of an error.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
}
