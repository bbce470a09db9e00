//! Reflection, under both names of its protocol.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorProto;
use tonic_reflection::pb::{v1, v1alpha};

use crate::serving::process::Server;

/// The names of services, and the files that declare a symbol.
struct Answer {
    services: BTreeSet<String>,
    files: Vec<FileDescriptorProto>,
}

/// Asks one version of reflection for all services and for `$symbol`.
macro_rules! reflect {
    ($version:ident, $server:expr, $symbol:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;

        let ask = |question| $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        };
        let questions = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol($symbol.into())),
        ];
        let answers = ServerReflectionClient::new($server.channel())
            .server_reflection_info(tokio_stream::iter(questions))
            .await;
        let mut answers = answers.expect("reflection is offered").into_inner();
        let mut answer = Answer {
            services: BTreeSet::new(),
            files: Vec::new(),
        };
        while let Some(message) = answers.message().await.expect("answers until the end") {
            match message.message_response {
                Some(MessageResponse::ListServicesResponse(list)) => {
                    answer.services = list.service.into_iter().map(|s| s.name).collect();
                }
                Some(MessageResponse::FileDescriptorResponse(file)) => {
                    answer.files = file
                        .file_descriptor_proto
                        .iter()
                        .map(|file| FileDescriptorProto::decode(&file[..]).expect("a file"))
                        .collect();
                }
                other => panic!("unexpected answer {other:?}"),
            }
        }
        answer
    }};
}

#[tokio::test]
async fn lists_and_describes_every_service() {
    let server = Server::start(&[]);
    let services = [
        ("evenkeel.v1.SpreadService", "Filter"),
        ("grpc.health.v1.Health", "Watch"),
        (
            "grpc.reflection.v1.ServerReflection",
            "ServerReflectionInfo",
        ),
        (
            "grpc.reflection.v1alpha.ServerReflection",
            "ServerReflectionInfo",
        ),
    ];
    let names = BTreeSet::from(services.map(|(name, _)| name.to_owned()));
    for (name, method) in services {
        let answers = [
            ("v1", reflect!(v1, server, name)),
            ("v1alpha", reflect!(v1alpha, server, name)),
        ];
        for (version, answer) in answers {
            assert_eq!(answer.services, names, "{version}");
            let described = answer.files.iter().any(|file| {
                let services = file.service.iter();
                services.flat_map(|s| &s.method).any(|m| m.name() == method)
            });
            assert!(described, "{version} describes {name}.{method}");
        }
    }
}

/// A client that knows the server by reflection alone can read the details of its errors.
#[tokio::test]
async fn describes_the_details_of_errors() {
    let server = Server::start(&[]);
    for message in ["ErrorInfo", "BadRequest", "RetryInfo"] {
        let answer = reflect!(v1, server, format!("google.rpc.{message}"));
        let messages = answer.files.iter().flat_map(|file| &file.message_type);
        let names: Vec<&str> = messages.map(|described| described.name()).collect();
        assert!(names.contains(&message), "{message} in {names:?}");
    }
}
