//! HTTP/2 by hand, for calls that no gRPC client makes.

use std::future::poll_fn;
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::Status;

/// A connection, and the task that drives it until it is closed.
pub struct Connection {
    send: SendRequest<Bytes>,
    pub driver: JoinHandle<Result<(), h2::Error>>,
}

/// A call that is open until it is dropped.
pub struct Call {
    pub answer: ResponseFuture,
    pub body: SendStream<Bytes>,
}

impl Connection {
    /// Opens a connection on which the server sends `window` bytes of each answer before it has to
    /// wait.
    pub async fn open(address: &str, window: u32) -> io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        let mut builder = Builder::new();
        builder.initial_window_size(window);
        let (send, connection) = builder.handshake(socket).await.map_err(io::Error::other)?;
        let driver = tokio::spawn(connection);
        Ok(Self { send, driver })
    }

    /// Sends the head of a call.
    pub async fn call(&self, head: Request<()>) -> io::Result<Call> {
        let ready = self.send.clone().ready().await;
        let mut ready = ready.map_err(io::Error::other)?;
        let (answer, body) = ready.send_request(head, false).map_err(io::Error::other)?;
        Ok(Call { answer, body })
    }
}

impl Call {
    /// Sends bytes as fast as the server takes them, and the end if they are the last.
    pub async fn send(&mut self, mut bytes: Bytes, is_last: bool) -> io::Result<()> {
        while !bytes.is_empty() {
            self.body.reserve_capacity(bytes.len().min(1 << 20));
            let room = poll_fn(|context| self.body.poll_capacity(context)).await;
            let room = room.ok_or_else(|| io::Error::other("the stream ended"))?;
            let part = bytes.split_to(room.map_err(io::Error::other)?.min(bytes.len()));
            let sent = self.body.send_data(part, is_last && bytes.is_empty());
            sent.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Reads an answer to its end. Returns its status, unless it breaks off, and its length.
pub async fn end(answer: Response<RecvStream>) -> (Option<Status>, usize) {
    let head = Status::from_header_map(answer.headers());
    let mut body = answer.into_body();
    let mut bytes = 0;
    while let Some(part) = body.data().await {
        let Ok(part) = part else { return (head, bytes) };
        bytes += part.len();
        body.flow_control().release_capacity(part.len()).ok();
    }
    let trailers = body.trailers().await.ok().flatten();
    let trailing = trailers.and_then(|all| Status::from_header_map(&all));
    (head.or(trailing), bytes)
}

/// The path of a method of `SpreadService`.
pub fn spread(method: &str) -> String {
    format!("/evenkeel.v1.SpreadService/{method}")
}

/// The head of a call of a path.
pub fn head(path: &str) -> Request<()> {
    let request = Request::post(format!("http://test{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    request.body(()).expect("a request")
}

/// The bytes that precede a message of this length.
pub fn prefix(length: usize) -> Bytes {
    let mut prefix = BytesMut::with_capacity(5);
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(length).expect("a message of 4 GiB at most"));
    prefix.freeze()
}

/// A message in its frame.
pub fn frame(message: &[u8]) -> Bytes {
    [&prefix(message.len()), message].concat().into()
}
