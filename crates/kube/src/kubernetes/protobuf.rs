//! Lists and watches in Kubernetes' protobuf encoding, which costs an API server half as much as
//! JSON. `kube` reads JSON, so answers are converted to JSON, with only the fields that decisions
//! read. Answers in JSON are not changed.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use prost::Message;
use serde_json::json;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};
use tokio_util::io::StreamReader;
use tonic::codegen::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use tonic::codegen::http::{HeaderValue, Request, Response};
use tower::{BoxError, Service};

use super::guard::MAX_EVENT_BYTES;
use super::resource::ApiResource;
use evenkeel_core::of_kind;
use evenkeel_core::proto::v1;
use evenkeel_core::snapshot::ObjectKind;

/// The accepted encodings. JSON is for API servers that do not send protobuf.
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");
/// The start of the content type of protobuf. The content type of a watch is longer.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The first bytes of a standalone message.
const MAGIC: &[u8] = b"k8s\0";

/// `runtime.Unknown`: the kind of a message, and the message.
#[derive(Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    kind: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// `runtime.TypeMeta`.
#[derive(Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// A list of any kind.
#[derive(Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    items: Vec<Bytes>,
}

/// `meta.v1.ListMeta`.
#[derive(Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    next: String,
    #[prost(int64, optional, tag = "4")]
    remaining_item_count: Option<i64>,
}

/// `meta.v1.WatchEvent`.
#[derive(Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    what: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

/// `runtime.RawExtension`.
#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// `meta.v1.Status`.
#[derive(Message)]
struct Status {
    #[prost(string, tag = "2")]
    status: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// The part of a bookmark with the resource version.
#[derive(Message)]
struct Bookmark {
    #[prost(message, optional, tag = "1")]
    metadata: Option<v1::ObjectMeta>,
}

impl Envelope {
    fn open(mut message: Bytes) -> Result<Self, BoxError> {
        if !message.starts_with(MAGIC) {
            return Err("an answer in protobuf that is not Kubernetes'".into());
        }
        Ok(Self::decode(message.split_off(MAGIC.len()))?)
    }

    fn kind(&self) -> (&str, &str) {
        let kind = self.kind.as_ref();
        kind.map_or(("", ""), |kind| (&kind.kind, &kind.api_version))
    }

    /// The status as JSON, if it is a failure.
    fn status(&self) -> Result<Option<String>, BoxError> {
        if self.kind().0 != "Status" {
            return Ok(None);
        }
        let it = Status::decode(self.raw.clone())?;
        let json = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": it.status, "message": it.message, "reason": it.reason, "code": it.code,
        });
        Ok(Some(json.to_string()))
    }
}

/// Returns the fields of an object that decisions read, as JSON.
fn object(kind: ObjectKind, encoded: Bytes) -> Result<String, BoxError> {
    let object = Some(of_kind!(kind, Message::decode(encoded)?));
    // The JSON of a change is a map with one field, whose value is the object.
    let change = serde_json::to_string(&v1::Change { object })?;
    let start = change.find(':').map_or(0, |colon| colon + 1);
    Ok(change[start..change.len() - 1].to_owned())
}

/// Returns a complete answer as JSON.
fn answer(kind: ObjectKind, encoded: Bytes) -> Result<String, BoxError> {
    let envelope = Envelope::open(encoded)?;
    if let Some(status) = envelope.status()? {
        return Ok(status);
    }
    let list = List::decode(envelope.raw.clone())?;
    let meta = list.metadata.unwrap_or_default();
    let meta = json!({
        "resourceVersion": meta.resource_version,
        "continue": meta.next,
        "remainingItemCount": meta.remaining_item_count,
    });
    let items = list.items.into_iter().map(|item| object(kind, item));
    let items = items.collect::<Result<Vec<_>, _>>()?.join(",");
    let (list_kind, version) = envelope.kind();
    let (list_kind, version) = (json!(list_kind), json!(version));
    Ok(format!(
        r#"{{"kind":{list_kind},"apiVersion":{version},"metadata":{meta},"items":[{items}]}}"#
    ))
}

/// An event of a watch, as a line of JSON.
fn event(kind: ObjectKind, encoded: Bytes) -> Result<String, BoxError> {
    let event = WatchEvent::decode(encoded)?;
    let envelope = Envelope::open(event.object.unwrap_or_default().raw)?;
    let object = match (envelope.status()?, &*event.what) {
        (Some(status), _) => status,
        (None, "BOOKMARK") => {
            let (kind, version) = envelope.kind();
            let metadata = Bookmark::decode(envelope.raw.clone())?.metadata;
            json!({ "kind": kind, "apiVersion": version, "metadata": metadata }).to_string()
        }
        (None, _) => object(kind, envelope.raw)?,
    };
    let what = json!(event.what);
    Ok(format!(r#"{{"type":{what},"object":{object}}}"#) + "\n")
}

/// The events of a watch, each as a line of JSON.
fn events<B>(kind: ObjectKind, body: B) -> impl Stream<Item = Result<Bytes, BoxError>>
where
    B: hyper::body::Body<Data = Bytes, Error = BoxError>,
{
    let data = BodyDataStream::new(body).map_err(std::io::Error::other);
    let frames = LengthDelimitedCodec::builder()
        .max_frame_length(MAX_EVENT_BYTES)
        .new_codec();
    FramedRead::new(StreamReader::new(Box::pin(data)), frames).map(move |frame| {
        let line = event(kind, frame?.freeze())?;
        Ok(Bytes::from(line))
    })
}

/// A layer of a client that requests protobuf for lists and watches of kinds that decisions read,
/// and converts the answers to JSON.
#[derive(Debug, Clone)]
pub(super) struct Translating<S>(pub(super) S);

impl<S, B> Service<Request<Body>> for Translating<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let kind = ApiResource::listed_at(request.uri().path());
        if kind.is_some() {
            request.headers_mut().insert(ACCEPT, ACCEPTED);
        }
        let answered = self.0.call(request);
        Box::pin(async move {
            let (mut head, body) = answered.await?.into_parts();
            let encoding = head.headers.get(CONTENT_TYPE);
            let encoding = encoding.and_then(|value| value.to_str().ok()?.strip_prefix(PROTOBUF));
            let Some((kind, encoding)) = kind.zip(encoding) else {
                let body = UnsyncBoxBody::new(body);
                return Ok(Response::from_parts(head, body));
            };
            let body = if encoding.contains("stream=watch") {
                let frames = events(kind, body).map_ok(Frame::data);
                UnsyncBoxBody::new(StreamBody::new(frames))
            } else {
                let encoded = body.collect().await?.to_bytes();
                let json = Full::from(answer(kind, encoded)?);
                UnsyncBoxBody::new(json.map_err(BoxError::from))
            };
            head.headers.remove(CONTENT_LENGTH);
            head.headers.insert(CONTENT_TYPE, JSON);
            Ok(Response::from_parts(head, body))
        })
    }
}

#[cfg(test)]
mod tests;
