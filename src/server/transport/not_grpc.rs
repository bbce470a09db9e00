//! Clients that do not speak gRPC, such as browsers and curl: they are told what the port speaks.

use std::io;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::body::Body;

/// What HTTP/2 begins with, as far as no method of HTTP/1 does.
const PREFACE: &[u8] = b"PRI";

/// The most bytes of a request of HTTP/1 that are read: closing a connection with unread bytes
/// takes the answer away from the client.
const REQUEST_BYTES: usize = 16 << 10;

/// Waits for the first bytes of a connection. If they are a request of HTTP/1, answers that, and
/// fails.
///
/// # Errors
/// Those of the connection, and that it is one of HTTP/1.
pub async fn refuse_http1(stream: &mut TcpStream, what: &str) -> io::Result<()> {
    let mut start = [0; PREFACE.len()];
    let length = stream.peek(&mut start).await?;
    let start = &start[..length];
    let is_method = !start.is_empty() && start.iter().all(u8::is_ascii_uppercase);
    if !is_method || PREFACE.starts_with(start) {
        return Ok(());
    }
    if stream.read(&mut vec![0; REQUEST_BYTES]).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let text = told(what);
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let error = "the client speaks HTTP/1";
    Err(io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns the answer to a request that is no gRPC call; `None` for a call.
pub fn refuse<B>(request: &Request<B>) -> Option<Response<Body>> {
    let kind = request.headers().get(CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        return None;
    }
    let mut answer = Response::new(Body::new(told("gRPC")));
    *answer.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let text = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    Some(answer)
}

fn told(what: &str) -> String {
    format!(
        "This port of evenkeel speaks {what}, for clients such as grpcurl and \"evenkeel\" itself.\n\
         Health and metrics are on the port of --admin-listen.\n"
    )
}
