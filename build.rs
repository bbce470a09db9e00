//! Generates the trait of the gRPC service over the messages of `evenkeel-core`, without `protoc`:
//! a method for each call, and the choice of the method by the path of a call.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use prost_types::{MethodDescriptorProto, ServiceDescriptorProto};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/evenkeel/v1/spread_service.proto"], ["proto"])?;
    let services = descriptors.file.iter().flat_map(|file| &file.service);
    let code: String = services.map(service_trait).collect();
    let directory = env::var("OUT_DIR")?;
    fs::write(Path::new(&directory).join("spread_service.rs"), code)?;
    Ok(())
}

/// The trait of a service. It takes and gives messages in their encoding (`src/proto/server.rs`).
fn service_trait(service: &ServiceDescriptorProto) -> String {
    let (name, mut methods, mut choices) = (service.name(), String::new(), String::new());
    for method in &service.method {
        let call = snake_case(method.name());
        let (request, answer, form) = forms(method);
        let _ = writeln!(
            methods,
            "/// `{}`.\nasync fn {call}(&self, request: Request<{request}>) -> Result<Response<{answer}>, Status>;",
            method.name()
        );
        let _ = writeln!(
            choices,
            "\"{}\" => call.{form}(|request| self.{call}(request)).await,",
            method.name()
        );
    }
    format!(
        "/// The calls of `{name}`, with messages in their encoding.
        #[tonic::async_trait]
        pub trait {name}: Send + Sync + 'static {{
            {methods}
            /// Answers a call of any method.
            async fn answer(&self, call: Call) -> http::Response<Body> {{
                match call.method() {{
                    {choices}
                    _ => call.of_no_method(),
                }}
            }}
        }}"
    )
}

/// The types of the request and of the answer of a method, and how a call of it is answered.
fn forms(method: &MethodDescriptorProto) -> (&'static str, &'static str, &'static str) {
    match (method.client_streaming(), method.server_streaming()) {
        (true, _) => ("Streaming<Bytes>", "Answers", "of_streams"),
        (false, true) => ("Bytes", "Answers", "of_answers"),
        (false, false) => ("Bytes", "Bytes", "of_one"),
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
