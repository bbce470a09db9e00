//! HTTP/2 by hand, for what no gRPC client would do.

use std::future::poll_fn;
use std::time::Duration;

use h2::SendStream;
use h2::client::{Builder, SendRequest};
use http::Request;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::process::Server;

/// A connection, and the task that drives it until it is closed.
pub(crate) struct Connection {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) driver: JoinHandle<Result<(), h2::Error>>,
}

/// Returns where a server listens.
pub(crate) fn address(server: &Server) -> String {
    server.url().trim_start_matches("http://").to_owned()
}

/// A connection that lets the server send `window` bytes of an answer before
/// it has to ask.
pub(crate) async fn connect(server: &Server, window: u32) -> Connection {
    let socket = TcpStream::connect(address(server))
        .await
        .expect("it is accepted");
    let handshake = Builder::new()
        .initial_window_size(window)
        .handshake(socket)
        .await;
    let (send, connection) = handshake.expect("HTTP/2");
    Connection {
        send,
        driver: tokio::spawn(connection),
    }
}

/// The head of a call of `SpreadService`.
pub(crate) fn head(method: &str, timeout: Option<Duration>) -> Request<()> {
    let mut request = call(&format!("/evenkeel.v1.SpreadService/{method}"));
    if let Some(timeout) = timeout {
        let timeout = format!("{}m", timeout.as_millis());
        let timeout = timeout.parse().expect("a header");
        request.headers_mut().insert("grpc-timeout", timeout);
    }
    request
}

/// The head of a call of a path.
pub(crate) fn call(path: &str) -> Request<()> {
    let request = Request::post(format!("http://test{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    request.body(()).expect("a request")
}

/// Sends bytes as the server takes them, and the end if they are the last,
/// unless the server ends the call before.
pub(crate) async fn send_all(body: &mut SendStream<Bytes>, mut message: Bytes, is_last: bool) {
    while !message.is_empty() {
        body.reserve_capacity(message.len().min(1 << 18));
        let capacity = poll_fn(|context| body.poll_capacity(context)).await;
        let Some(Ok(room)) = capacity else { return };
        let part = message.split_to(room.min(message.len()));
        if body.send_data(part, is_last && message.is_empty()).is_err() {
            return;
        }
    }
}

/// A message in its frame.
pub(crate) fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("a small message"));
    frame.put(message);
    frame.freeze()
}
