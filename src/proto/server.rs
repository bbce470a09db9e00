//! The gRPC service: the call of each method, from its messages in their encoding to answers in
//! theirs. A long answer is sent from where it was encoded: tonic's own server would copy it on the
//! thread that serves, and compare it with the limit only then.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};

use super::encoded::BytesCodec;

include!(concat!(env!("OUT_DIR"), "/spread_service.rs"));

/// The head of each message: a flag for compression, and the length.
const HEAD: usize = 5;

/// Shorter messages are sent together with their heads, and those of a stream with one another.
const SENT_TOGETHER: usize = 32 << 10;

/// The messages of an answer that is a stream.
pub type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// A server of the service.
#[derive(Debug)]
pub struct SpreadServiceServer<T> {
    service: Arc<T>,
    most: MessageSizes,
}

/// The most bytes of a message, either way.
#[derive(Debug, Clone, Copy)]
struct MessageSizes {
    decoded: usize,
    encoded: usize,
}

impl<T> Clone for SpreadServiceServer<T> {
    fn clone(&self) -> Self {
        Self {
            service: Arc::clone(&self.service),
            most: self.most,
        }
    }
}

impl<T> SpreadServiceServer<T> {
    /// A server that takes messages of up to 4 MiB, as gRPC does by default.
    pub fn new(service: T) -> Self {
        Self {
            service: Arc::new(service),
            most: MessageSizes {
                decoded: 4 << 20,
                encoded: usize::MAX,
            },
        }
    }

    /// The same server with another limit for requests.
    #[must_use]
    pub fn max_decoding_message_size(mut self, bytes: usize) -> Self {
        self.most.decoded = bytes;
        self
    }

    /// The same server with another limit for answers.
    #[must_use]
    pub fn max_encoding_message_size(mut self, bytes: usize) -> Self {
        self.most.encoded = bytes;
        self
    }
}

impl<T> NamedService for SpreadServiceServer<T> {
    const NAME: &'static str = "evenkeel.v1.SpreadService";
}

impl<T, B> tower::Service<http::Request<B>> for SpreadServiceServer<T>
where
    T: SpreadService,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let call = Call {
            request: request.map(Body::new),
            most: self.most,
        };
        let service = Arc::clone(&self.service);
        Box::pin(async move { Ok(service.answer(call).await) })
    }
}

/// A call that is to be answered.
#[derive(Debug)]
pub struct Call {
    request: http::Request<Body>,
    most: MessageSizes,
}

impl Call {
    fn method(&self) -> &str {
        let path = self.request.uri().path();
        path.rsplit_once('/').map_or("", |(_, method)| method)
    }

    /// The request with its messages.
    fn messages(self) -> Result<Request<Streaming<Bytes>>, Status> {
        let encoding = self.request.headers().get("grpc-encoding");
        if encoding.is_some_and(|encoding| encoding != "identity") {
            let accepted = HeaderValue::from_static("identity");
            let mut refused = Status::unimplemented("compressed messages are not accepted");
            let metadata = refused.metadata_mut().as_mut();
            metadata.insert("grpc-accept-encoding", accepted);
            return Err(refused);
        }
        let most = Some(self.most.decoded);
        let messages = |body| Streaming::new_request(BytesCodec, body, None, most);
        Ok(Request::from_http(self.request.map(messages)))
    }

    /// The request with its only message.
    async fn message(self) -> Result<Request<Bytes>, Status> {
        let (metadata, extensions, mut messages) = self.messages()?.into_parts();
        let message = messages.message().await?;
        let message = message.ok_or_else(|| Status::internal("Missing request message."))?;
        // Reads the request to its end.
        messages.trailers().await?;
        Ok(Request::from_parts(metadata, extensions, message))
    }

    /// Answers a call of one message with one.
    async fn of_one<F>(self, answer: impl FnOnce(Request<Bytes>) -> F) -> http::Response<Body>
    where
        F: Future<Output = Result<Response<Bytes>, Status>>,
    {
        let most = self.most.encoded;
        let answered = async { answer(self.message().await?).await };
        let answered = answered.await;
        respond(
            answered.map(|it| it.map(|one| stream::iter([Ok(one)]))),
            most,
        )
    }

    /// Answers a call of one message with a stream.
    async fn of_answers<F>(self, answer: impl FnOnce(Request<Bytes>) -> F) -> http::Response<Body>
    where
        F: Future<Output = Result<Response<Answers>, Status>>,
    {
        let most = self.most.encoded;
        let answered = async { answer(self.message().await?).await };
        respond(answered.await, most)
    }

    /// Answers a stream with a stream.
    async fn of_streams<F>(
        self,
        answer: impl FnOnce(Request<Streaming<Bytes>>) -> F,
    ) -> http::Response<Body>
    where
        F: Future<Output = Result<Response<Answers>, Status>>,
    {
        let most = self.most.encoded;
        let answered = async { answer(self.messages()?).await };
        respond(answered.await, most)
    }

    /// Answers a call of no known method.
    fn of_no_method(self) -> http::Response<Body> {
        Status::unimplemented("").into_http()
    }
}

/// The response with the messages of an answer of at most so many bytes each.
fn respond<S>(answered: Result<Response<S>, Status>, most: usize) -> http::Response<Body>
where
    S: Stream<Item = Result<Bytes, Status>> + Send + Unpin + 'static,
{
    let (metadata, messages, extensions) = match answered {
        Ok(answer) => answer.into_parts(),
        Err(status) => return status.into_http(),
    };
    let body = Sent {
        messages,
        most,
        long: None,
        end: None,
        is_over: false,
    };
    let mut response = http::Response::new(Body::new(body));
    *response.headers_mut() = metadata.into_headers();
    *response.extensions_mut() = extensions;
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}

/// The messages of an answer as they are sent.
struct Sent<S> {
    messages: S,
    most: usize,
    /// A long message whose head is sent.
    long: Option<Bytes>,
    /// The status with which the answer ends, once it is known.
    end: Option<Status>,
    is_over: bool,
}

impl<S> Sent<S> {
    /// Takes a message. Returns whether more can be sent with it.
    fn take(&mut self, message: Bytes, together: &mut BytesMut) -> bool {
        let length = message.len();
        let Some(head) = u32::try_from(length).ok().filter(|_| length <= self.most) else {
            let most = self.most;
            let text = format!("the answer has {length} bytes, over the limit of {most}");
            self.end = Some(Status::out_of_range(text));
            return false;
        };
        together.put_u8(0);
        together.put_u32(head);
        if length > SENT_TOGETHER {
            self.long = Some(message);
            return false;
        }
        together.put_slice(&message);
        together.len() < SENT_TOGETHER
    }
}

impl<S> http_body::Body for Sent<S>
where
    S: Stream<Item = Result<Bytes, Status>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(long) = self.long.take() {
            return Poll::Ready(Some(Ok(Frame::data(long))));
        }
        let mut together = BytesMut::new();
        while self.end.is_none() {
            match self.messages.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(message))) => {
                    together.reserve(HEAD + message.len().min(SENT_TOGETHER));
                    if !self.take(message, &mut together) {
                        break;
                    }
                }
                Poll::Ready(Some(Err(status))) => self.end = Some(status),
                Poll::Ready(None) => self.end = Some(Status::ok("")),
                Poll::Pending if together.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if !together.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(together.freeze()))));
        }
        self.is_over = true;
        let end = self.end.take().unwrap_or_else(|| Status::ok(""));
        let mut trailers = HeaderMap::new();
        let added = end.add_header(&mut trailers);
        Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tonic::Code;

    use super::*;

    /// Sends messages. Returns the parts in which they are sent, and the code of the end.
    async fn sent(messages: Vec<Bytes>, most: usize) -> (Vec<Bytes>, Code) {
        let messages = stream::iter(messages.into_iter().map(Ok));
        let mut body = respond(Ok(Response::new(messages)), most).into_body();
        let mut parts = Vec::new();
        loop {
            let frame = body.frame().await.expect("trailers").expect("no error");
            match frame.into_data() {
                Ok(part) => parts.push(part),
                Err(frame) => {
                    let trailers = frame.trailers_ref().expect("trailers");
                    let status = Status::from_header_map(trailers).expect("a status");
                    assert!(body.frame().await.is_none());
                    return (parts, status.code());
                }
            }
        }
    }

    #[tokio::test]
    async fn a_long_answer_is_sent_from_where_it_was_encoded() {
        let (short, long) = (Bytes::from_static(b"short"), vec![7; SENT_TOGETHER + 1]);
        let long = Bytes::from(long);
        let messages = vec![short.clone(), short.clone(), long.clone(), short];
        let (parts, code) = sent(messages, usize::MAX).await;
        assert_eq!(code, Code::Ok);
        let head = [0, 0, 0, 0, 5, b's', b'h', b'o', b'r', b't'];
        let together = [&head[..], &head, &[0, 0, 0, 0x80, 1]].concat();
        assert_eq!(parts, [&together[..], &long, &head]);
        assert_eq!(parts[1].as_ptr(), long.as_ptr());
    }

    #[tokio::test]
    async fn an_answer_over_the_limit_is_not_sent() {
        let (short, long) = (Bytes::from_static(b"short"), Bytes::from(vec![7; 6]));
        let (parts, code) = sent(vec![short, long], 5).await;
        assert_eq!((parts.len(), code), (1, Code::OutOfRange));
    }
}
