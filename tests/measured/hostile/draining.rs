//! Clients that hold on to a server that stops.

use std::any::Any;
use std::time::Duration;

use h2::client::Builder;
use prost::bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use crate::hostile::process::Server;
use crate::hostile::raw::{frame, head};

/// Flags with which nothing but the drain ends a connection in so little time.
const PATIENT: [&str; 12] = [
    "--drain-pause",
    "0s",
    "--drain-timeout",
    "20s",
    "--handshake-timeout",
    "10m",
    "--keepalive-interval",
    "10m",
    "--receive-timeout",
    "10m",
    "--admin-listen",
    "127.0.0.1:0",
];

/// The longest time that a stop may take while nobody waits for an answer.
const SOON: Duration = Duration::from_secs(3);

/// The time after which the test says that the server did not stop.
const LONG: Duration = Duration::from_secs(40);

/// The preface of HTTP/2 and a first, empty frame of settings.
const SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// [`SETTINGS`], and half of the head of a call.
const HALF_A_HEAD: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x40\x01\x04\0\0\0\x01";

/// The connection or call that a client has open.
#[derive(Clone, Copy)]
enum Held {
    /// The client sent these bytes.
    Bytes(&'static [u8]),
    /// The client sent these bytes to the admin port.
    AdminBytes(&'static [u8]),
    /// The client had a call answered.
    Answered(&'static str),
    /// A stream whose answer has begun.
    Stream(&'static str),
    /// A stream whose answer has begun, and on which the client could still send.
    HalfStream(&'static str),
}

const CASES: [(&str, Held); 11] = [
    ("no bytes", Held::Bytes(b"")),
    ("half a preface", Held::Bytes(SETTINGS.split_at(20).0)),
    ("a preface", Held::Bytes(SETTINGS.split_at(24).0)),
    ("settings", Held::Bytes(SETTINGS)),
    ("half a head", Held::Bytes(HALF_A_HEAD)),
    ("an admin connection", Held::AdminBytes(b"")),
    ("half an admin request", Held::AdminBytes(b"GET /metrics ")),
    (
        "a health check",
        Held::Answered("/grpc.health.v1.Health/Check"),
    ),
    (
        "a call",
        Held::Answered("/evenkeel.v1.SpreadService/ListSnapshots"),
    ),
    ("a watch", Held::Stream("/grpc.health.v1.Health/Watch")),
    (
        "a stream of reflection",
        Held::HalfStream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    ),
];

/// Sends bytes, and nothing more.
async fn send(bytes: &[u8], to: &str) -> TcpStream {
    let mut socket = TcpStream::connect(to).await.expect("it is accepted");
    socket.write_all(bytes).await.expect("it can be sent");
    socket
}

/// A client that has begun a call, and after the answer or its beginning neither reads
/// nor writes: it answers no ping and no GOAWAY.
async fn begin(server: &Server, path: &str, is_stream: bool, ends: bool) -> Box<dyn Any + Send> {
    let socket = send(b"", server.address()).await;
    let (mut send, mut connection) = Builder::new()
        .handshake::<_, Bytes>(socket)
        .await
        .expect("HTTP/2");
    let (answer, mut body) = send.send_request(head(path), false).expect("sent");
    body.send_data(frame(&[]), ends).expect("sent");
    let mut answer = Box::pin(async move {
        let mut answer = answer.await.expect("an answer");
        while !is_stream && answer.body_mut().data().await.is_some() {}
        answer
    });
    let answer = tokio::select! {
        _ = &mut connection => panic!("{path}: the connection has ended"),
        answer = &mut answer => answer,
    };
    Box::new((send, connection, answer, body))
}

/// Returns how long a server takes to stop while a client has this open.
async fn stop(held: Held) -> Duration {
    let mut server = Server::start(&PATIENT);
    let admin = server.logged("admin listening", "address");
    let _open: Box<dyn Any + Send> = match held {
        Held::Bytes(bytes) => Box::new(send(bytes, server.address()).await),
        Held::AdminBytes(bytes) => Box::new(send(bytes, &admin).await),
        Held::Answered(path) => begin(&server, path, false, true).await,
        Held::Stream(path) => begin(&server, path, true, true).await,
        Held::HalfStream(path) => begin(&server, path, true, false).await,
    };
    // By now the server serves the connection.
    crate::hostile::world::assert_healthy(server.channel()).await;
    let start = Instant::now();
    server.signal("TERM");
    let status = server.exited().await;
    assert_eq!(status.code(), Some(0));
    start.elapsed()
}

#[tokio::test]
async fn a_client_that_waits_for_nothing_delays_no_stop() {
    let mut stops = JoinSet::new();
    for (name, held) in CASES {
        stops.spawn(async move { (name, timeout(LONG, stop(held)).await) });
    }
    let stops = stops.join_all().await;
    let is_late = |took: &Result<Duration, Elapsed>| !took.as_ref().is_ok_and(|took| *took < SOON);
    let late: Vec<_> = stops.iter().filter(|(_, took)| is_late(took)).collect();
    assert!(late.is_empty(), "{late:?} of {stops:?}");
}
