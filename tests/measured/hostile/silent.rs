//! Clients that begin something and do not go on.

use std::time::Duration;

use evenkeel::proto::v1::ListSnapshotsRequest;
use h2::RecvStream;
use http::Response;
use support::caller::{changes_of, export};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::hostile::process::{DEADLINE, Server, eventually};
use crate::hostile::raw::{Call, Connection, frame, head, spread};
use crate::hostile::world::{
    Client, assert_answered, assert_healthy, assert_refused, connect, fill, limit_of,
};

/// Waits until another client gets an answer. Every refusal before that must be for want of a slot.
async fn is_served_again(server: &Server) {
    let mut client = server.another_client();
    let is_served = async || {
        let listed = client.list_snapshots(ListSnapshotsRequest::default()).await;
        let Err(status) = listed else { return Some(()) };
        let limit = limit_of(&status);
        assert_eq!(limit.as_deref(), Some("max-concurrent-calls"), "{status}");
        None
    };
    eventually("the slot is given back", is_served).await;
}

/// Returns whether all slots are taken.
async fn is_full(server: &Server) -> bool {
    let mut client = Client::new(server.channel());
    client
        .list_snapshots(ListSnapshotsRequest::default())
        .await
        .is_err()
}

#[tokio::test]
async fn a_request_that_never_arrives_is_given_up() {
    let server = Server::start(&["--max-concurrent-calls", "1", "--receive-timeout", "500ms"]);
    let silent = connect(&server, 65_535).await;
    // This sends the first bytes of a message of ten, and never the others.
    let begin = async || {
        let mut call = silent.call(head(&spread("Filter"))).await.expect("sent");
        let first = frame(&[0; 10]).slice(..7);
        call.send(first, false).await.expect("it can be sent");
        call
    };
    let mut call = begin().await;
    while !is_full(&server).await {
        // `is_full` takes the slot as well, and may have kept this call out.
        let refused = timeout(Duration::from_millis(1), &mut call.answer).await;
        if refused.is_ok() {
            call = begin().await;
        }
    }
    assert_healthy(server.channel()).await;
    is_served_again(&server).await;
    assert_ends(call, Code::DeadlineExceeded, "REQUEST_NOT_RECEIVED").await;
}

/// Makes a call with an empty request. Of its answer the server may send the head and `window`
/// bytes more.
async fn unread(server: &Server, method: &str, window: u32) -> (Connection, Response<RecvStream>) {
    let connection = connect(server, window).await;
    let mut call = connection.call(head(&spread(method))).await.expect("sent");
    call.send(frame(&[]), true).await.expect("it can be sent");
    let answer = timeout(DEADLINE, call.answer).await.expect("in time");
    (connection, answer.expect("a head"))
}

/// Checks that a call is refused, in answer headers that have its status.
async fn assert_ends(call: Call, code: Code, reason: &str) {
    let answer = timeout(DEADLINE, call.answer).await.expect("in time");
    let answer = answer.expect("an answer");
    let status = Status::from_header_map(answer.headers()).expect("it ends at once");
    assert_refused(&status, code, reason);
}

/// Checks that the server closes a connection in time.
async fn is_closed(connection: Connection, how: &str) {
    let closed = timeout(DEADLINE, connection.driver).await;
    let closed = closed.unwrap_or_else(|_| panic!("the connection is open, {how}"));
    closed.expect("no panic").ok();
}

/// This holds however much of the answer was read, and whatever part of it is the last.
#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_closes_its_connection() {
    let server = Server::start(&["--send-timeout", "500ms"]);
    let mut client = Client::new(server.channel());
    fill(&mut client, 200).await;
    let whole = {
        let (_reading, answer) = unread(&server, "ExportSnapshot", 60_000).await;
        let mut body = answer.into_body();
        let mut bytes = 0;
        while let Some(part) = body.data().await {
            bytes += part.expect("a part").len();
        }
        u32::try_from(bytes).expect("a small export")
    };
    let windows = [1, 100, 1_024, whole / 2, whole - 2];
    let mut stalled = Vec::new();
    for window in windows {
        stalled.push((window, unread(&server, "ExportSnapshot", window).await));
    }
    for (window, (connection, _answer)) in stalled {
        is_closed(connection, &format!("with {window} of {whole} bytes read")).await;
    }
}

#[tokio::test]
async fn exports_that_are_never_read_leave_others_alone() {
    let server = Server::start(&["--send-timeout", "1s"]);
    let mut client = Client::new(server.channel());
    fill(&mut client, 1_000).await;
    let mut stalled = Vec::new();
    for _ in 0..4 {
        stalled.push(unread(&server, "ExportSnapshot", 0).await);
    }
    assert_healthy(server.channel()).await;
    assert_answered(&mut client).await;
    fill(&mut client, 1_001).await;
    let export = timeout(DEADLINE, export(client, ""))
        .await
        .expect("in time");
    let parts = export.expect("there is room again");
    assert_eq!(changes_of(parts).count(), 1_001);
    for (connection, _) in stalled {
        is_closed(connection, "with nothing read").await;
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_closed_by_pings() {
    let flags = [
        "--keepalive-interval",
        "200ms",
        "--keepalive-timeout",
        "200ms",
    ];
    let server = Server::start(&flags);
    let mut socket = TcpStream::connect(server.address())
        .await
        .expect("it is accepted");
    socket
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .expect("sent");
    socket
        .write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])
        .await
        .expect("settings");
    // HEADERS of stream 1 without END_HEADERS: CONTINUATION has to follow.
    socket
        .write_all(&[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83])
        .await
        .expect("half a head");
    assert_healthy(server.channel()).await;
    let mut end = Vec::new();
    let read = timeout(DEADLINE, socket.read_to_end(&mut end)).await;
    read.expect("it is closed").ok();
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_callers_fault() {
    let server = Server::start(&[]);
    // The first body has a field of a type that does not exist, and the second has no message at
    // all.
    for body in [Some(frame(&[0xff, 0xff, 0xff])), None] {
        let connection = connect(&server, 65_535).await;
        let call = connection.call(head(&spread("Filter"))).await;
        let mut call = call.expect("sent");
        let body = body.unwrap_or_default();
        call.body.send_data(body, true).expect("it can be sent");
        assert_ends(call, Code::InvalidArgument, "INVALID_REQUEST").await;
    }
    assert_healthy(server.channel()).await;
}

#[tokio::test]
async fn one_connection_has_its_share_of_calls() {
    let server = Server::start(&[
        "--max-calls-per-connection",
        "4",
        "--max-concurrent-calls",
        "8",
    ]);
    let greedy = connect(&server, 65_535).await;
    // These requests do not arrive. A fifth one would wait in the client.
    let mut open = Vec::new();
    for _ in 0..4 {
        let call = greedy.call(head(&spread("Filter"))).await;
        open.push(call.expect("the connection stands"));
    }
    let mut client = Client::new(server.channel());
    let listed = client.list_snapshots(ListSnapshotsRequest::default()).await;
    listed.expect("others have their slots");
    drop(open);
}
