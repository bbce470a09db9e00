//! The deadline of a call, seen on the wire, because tonic's own client gives up at the same moment
//! and would hide the server's answer.

use std::time::{Duration, Instant};

use evenkeel::proto::v1::FilterRequest;
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use tonic::Code;
use tonic::codegen::http::{HeaderMap, Request};

use crate::snapshots::{all_nodes, nodes};
use support::server::Server;

#[tokio::test]
async fn min_revision_not_reached_in_time() {
    let server = Server::start().await;
    server.update("", nodes(&["a"])).await;
    let request = FilterRequest {
        min_revision: 2,
        ..all_nodes("")
    };
    let started = Instant::now();
    let trailers = call(&server, &request, "300m").await;
    let waited = started.elapsed();
    let code = trailers.get("grpc-status").expect("a status").as_bytes();
    assert_eq!(
        Code::from_bytes(code),
        Code::DeadlineExceeded,
        "{trailers:?}"
    );
    assert!(waited >= Duration::from_millis(250), "it waited {waited:?}");
    assert!(waited < Duration::from_secs(5), "it waited {waited:?}");
    assert!(
        trailers.contains_key("grpc-status-details-bin"),
        "{trailers:?}"
    );
}

/// Makes one Filter over bare HTTP/2. Returns what has the status: the trailers, or the headers of
/// an answer without a body.
async fn call(server: &Server, request: &FilterRequest, timeout: &str) -> HeaderMap {
    let address = server.address.strip_prefix("http://").expect("plain HTTP");
    let socket = tokio::net::TcpStream::connect(address)
        .await
        .expect("it listens");
    let (mut sender, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let uri = format!("{}/evenkeel.v1.SpreadService/Filter", server.address);
    let head = Request::post(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(())
        .expect("a request");
    let (response, mut body) = sender.send_request(head, false).expect("a stream");
    body.send_data(frame(request), true).expect("it is sent");
    let response = response.await.expect("an answer");
    let headers = response.headers().clone();
    let mut data = response.into_body();
    while let Some(chunk) = data.data().await {
        chunk.expect("a chunk");
    }
    let trailers = data.trailers().await.expect("trailers");
    connection.abort();
    trailers.unwrap_or(headers)
}

/// The message after its prefix of five bytes, which says that it is not compressed, and how long
/// it is.
fn frame(request: &FilterRequest) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(request.encoded_len()).expect("a short message"));
    request.encode(&mut frame).expect("there is room");
    frame.freeze()
}
