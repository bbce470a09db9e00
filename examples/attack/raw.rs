//! HTTP/2 by hand, for what no gRPC client would do.

use std::future::poll_fn;

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use tokio::net::TcpStream;

/// A method of the service.
pub fn spread(method: &str) -> String {
    format!("/evenkeel.v1.SpreadService/{method}")
}

/// The method of reflection.
pub const REFLECT: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The method that tells of every change of health.
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// A connection that lets the server send so many bytes of each answer.
pub struct Connection(SendRequest<Bytes>);

/// A call that is open until this is dropped.
pub struct Call {
    _answer: ResponseFuture,
    body: SendStream<Bytes>,
}

impl Connection {
    /// Opens one.
    pub async fn open(address: &str, window: u32) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        let mut builder = Builder::new();
        builder.initial_window_size(window);
        let (send, connection) = builder.handshake(socket).await?;
        // It ends when the server closes it, or with the last call.
        tokio::spawn(connection);
        Ok(Self(send))
    }

    /// Sends the head of a call.
    pub async fn call(&mut self, path: &str) -> Result<Call> {
        let request = Request::post(format!("http://attack{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let mut ready = self.0.clone().ready().await?;
        let (answer, body) = ready.send_request(request, false)?;
        Ok(Call {
            _answer: answer,
            body,
        })
    }
}

impl Call {
    /// Sends bytes as fast as the server takes them.
    pub async fn send(&mut self, mut bytes: Bytes, end: bool) -> Result<()> {
        if bytes.is_empty() {
            return Ok(self.body.send_data(bytes, end)?);
        }
        while !bytes.is_empty() {
            self.body.reserve_capacity(bytes.len().min(1 << 20));
            let room = poll_fn(|context| self.body.poll_capacity(context)).await;
            let room = room.context("the stream ended")??;
            let part = bytes.split_to(room.min(bytes.len()));
            self.body.send_data(part, end && bytes.is_empty())?;
        }
        Ok(())
    }
}

/// Returns what stands before a message of so many bytes.
pub fn prefix(length: usize) -> Bytes {
    let mut prefix = BytesMut::with_capacity(5);
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(length).expect("a message of 4 GiB at most"));
    prefix.freeze()
}

/// A whole message.
pub fn frame(message: &[u8]) -> Bytes {
    let mut whole = BytesMut::from(&prefix(message.len())[..]);
    whole.put(message);
    whole.freeze()
}
