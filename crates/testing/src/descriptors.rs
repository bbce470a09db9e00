//! The requests of all calls, by the protocol's descriptors: every field of a request, at any
//! depth, and the bytes of a request that has the field.

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::proto::encoded::BytesCodec;
use evenkeel::proto::v1::{DecideResponse, FILE_DESCRIPTOR_SET, decide_response};
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::examples;

/// The calls and messages of the protocol.
pub struct Protocol {
    messages: HashMap<String, DescriptorProto>,
    pub calls: Vec<Call>,
}

/// A call of a service.
pub struct Call {
    /// The path of the call, such as `/evenkeel.v1.SpreadService/Filter`.
    pub path: String,
    pub name: String,
    /// The full name of its request.
    pub request: String,
}

/// A field of a request, with the fields around it, outermost first.
#[derive(Clone)]
pub struct FieldPath<'a>(pub Vec<&'a FieldDescriptorProto>);

impl Protocol {
    pub fn read() -> Self {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
        let mut protocol = Self {
            messages: HashMap::new(),
            calls: Vec::new(),
        };
        for file in files.file {
            let package = format!(".{}", file.package());
            for service in &file.service {
                let service_path = format!("/{}.{}", file.package(), service.name());
                let calls = service.method.iter().map(|method| Call {
                    path: format!("{service_path}/{}", method.name()),
                    name: method.name().to_owned(),
                    request: method.input_type().to_owned(),
                });
                protocol.calls.extend(calls);
            }
            for message in file.message_type {
                protocol.add(&package, message);
            }
        }
        assert!(protocol.calls.len() > 10, "the calls of the service");
        protocol
    }

    fn add(&mut self, scope: &str, message: DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in message.nested_type.clone() {
            self.add(&name, nested);
        }
        self.messages.insert(name, message);
    }

    /// The fields of a message.
    pub fn members(&self, message: &str) -> impl Iterator<Item = &FieldDescriptorProto> {
        self.messages[message].field.iter()
    }

    /// Every field of a message, and of the messages within it.
    pub fn fields(&self, message: &str) -> Vec<FieldPath<'_>> {
        let mut found = Vec::new();
        self.find(message, &mut FieldPath(Vec::new()), &mut found);
        found
    }

    fn find<'a>(
        &'a self,
        message: &str,
        around: &mut FieldPath<'a>,
        found: &mut Vec<FieldPath<'a>>,
    ) {
        let message = &self.messages[message];
        for field in &message.field {
            let is_within = |outer: &&FieldDescriptorProto| {
                is_message(field) && outer.type_name() == field.type_name()
            };
            if around.0.iter().any(is_within) {
                continue;
            }
            around.0.push(field);
            found.push(around.clone());
            if is_message(field) {
                self.find(field.type_name(), around, found);
            }
            around.0.pop();
        }
    }
}

fn is_message(field: &FieldDescriptorProto) -> bool {
    field.r#type() == Type::Message
}

impl Protocol {
    /// An entry of a list or a map that differs from the entries with other numbers.
    pub fn entry(&self, list: &FieldDescriptorProto, number: usize) -> Vec<u8> {
        self.rich_entry(list, number, &[])
    }

    /// As [`Self::entry`], with further fields if it is a message.
    pub fn rich_entry(&self, list: &FieldDescriptorProto, number: usize, rich: &[u8]) -> Vec<u8> {
        let text = format!("entry-{number}").into_bytes();
        let value = match list.r#type() {
            Type::String | Type::Bytes => text,
            Type::Message => {
                let name = list.type_name();
                let distinct = match name.trim_start_matches(".evenkeel.v1.") {
                    "Change" => bytes_of(15, &bytes_of(3, &text)),
                    "Question" => varint_of(1, number as u64),
                    _ => [self.named(name, &text), self.quantity(name)].concat(),
                };
                [&examples::of(name, None), &distinct, rich].concat()
            }
            _ => return varint_of(list.number(), number as u64),
        };
        bytes_of(list.number(), &value)
    }

    /// A quantity, in an entry of a map of quantities.
    fn quantity(&self, message: &str) -> Vec<u8> {
        let is_one =
            |field: &&FieldDescriptorProto| field.type_name() == ".google.protobuf.StringValue";
        let field = self.messages[message].field.iter().find(is_one);
        field.map_or(Vec::new(), |field| {
            bytes_of(field.number(), &bytes_of(1, b"1"))
        })
    }

    /// The field that is the name of a message, if it has one.
    fn named(&self, message: &str, text: &[u8]) -> Vec<u8> {
        let is_name = |field: &&FieldDescriptorProto| {
            let names = ["name", "key", "node", "id", "uid"];
            field.r#type() == Type::String && names.contains(&field.name())
        };
        let fields = &self.messages[message].field;
        let field = fields.iter().find(is_name);
        field.map_or(Vec::new(), |field| bytes_of(field.number(), text))
    }
}

impl Call {
    /// Makes the call with these bytes, and reads the answer to its end. Returns the first error of
    /// any answer.
    pub async fn send(
        &self,
        channel: &Channel,
        message: Vec<u8>,
        patience: Duration,
    ) -> Result<(), Status> {
        self.send_as(channel, None, message, patience).await
    }

    /// As [`Self::send`], with an `authorization` header if there is one.
    pub async fn send_as(
        &self,
        channel: &Channel,
        authorization: Option<&str>,
        message: Vec<u8>,
        patience: Duration,
    ) -> Result<(), Status> {
        let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(usize::MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        let path = PathAndQuery::try_from(self.path.as_str()).expect("a path");
        let mut request = Request::new(tokio_stream::iter([Bytes::from(message)]));
        if let Some(value) = authorization {
            let value = value.parse().expect("a header");
            request.metadata_mut().insert("authorization", value);
        }
        // Some calls wait for a revision that never comes.
        request.set_timeout(patience);
        let answer = grpc.streaming(request, path, BytesCodec).await?;
        let mut answers = answer.into_inner();
        while let Some(answer) = answers.message().await? {
            if self.name == "Decide"
                && let Ok(answer) = DecideResponse::decode(answer)
                && let Some(decide_response::Answer::Error(error)) = answer.answer
            {
                let details = error.encode_to_vec().into();
                return Err(Status::with_details(
                    error.code.into(),
                    error.message,
                    details,
                ));
            }
        }
        Ok(())
    }
}

impl FieldPath<'_> {
    /// The field itself.
    pub fn field(&self) -> &FieldDescriptorProto {
        self.0.last().expect("a path is not empty")
    }

    /// Returns whether the field is a list or a map.
    pub fn is_list(&self) -> bool {
        self.field().label() == Label::Repeated
    }

    /// The path of the field as in JSON. In each list around it, it is in the first element.
    pub fn name(&self) -> String {
        let (last, around) = self.0.split_last().expect("a path is not empty");
        let around = around.iter().map(|field| match field.label() {
            Label::Repeated => format!("{}[0].", field.json_name()),
            _ => format!("{}.", field.json_name()),
        });
        around.collect::<String>() + last.json_name()
    }

    /// A request of a call that has `content` in the innermost message around the field. The rest
    /// of it is valid, as far as there are examples of its messages.
    pub fn request(&self, call: &Call, content: &[u8]) -> Vec<u8> {
        self.request_with(call, content, examples::of)
    }

    /// As [`Self::request`], with other examples of the messages around the field.
    pub fn request_with(
        &self,
        call: &Call,
        content: &[u8],
        example: fn(&str, Option<&FieldDescriptorProto>) -> Vec<u8>,
    ) -> Vec<u8> {
        let mut bytes = content.to_vec();
        let (last, around) = self.0.split_last().expect("a path is not empty");
        let mut inner = *last;
        for field in around.iter().rev() {
            let around = example(field.type_name(), Some(inner));
            bytes = bytes_of(field.number(), &[around, bytes].concat());
            inner = field;
        }
        [example(&call.request, Some(inner)), bytes].concat()
    }
}

/// A field that has bytes.
pub fn bytes_of(number: i32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    key(number, WireType::LengthDelimited, &mut bytes);
    encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

/// A field that has a number of variable length.
pub fn varint_of(number: i32, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    key(number, WireType::Varint, &mut bytes);
    encode_varint(value, &mut bytes);
    bytes
}

/// A field that has a number of four or eight bytes.
pub fn fixed_of(number: i32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let wire_type = match value.len() {
        4 => WireType::ThirtyTwoBit,
        _ => WireType::SixtyFourBit,
    };
    key(number, wire_type, &mut bytes);
    bytes.extend(value);
    bytes
}

fn key(number: i32, wire_type: WireType, to: &mut Vec<u8>) {
    encode_key(u32::try_from(number).expect("a number"), wire_type, to);
}
