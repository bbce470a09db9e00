//! The rules of calls hold for every service on the port, also for health and reflection, which ask
//! nobody for a token.

use std::time::Duration;

use evenkeel::proto::v1::{FilterRequest, Pod, PodSpec, Toleration, UpdateSnapshotRequest};
use h2::RecvStream;
use prost::Message;
use support::build::filter_of;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::hostile::process::{DEADLINE, Server, eventually};
use crate::hostile::raw::{Connection, end, frame, head, prefix};
use crate::hostile::world::{Client, assert_healthy, connect, fill, limit_of, question};

const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const FILTER: &str = "/evenkeel.v1.SpreadService/Filter";

/// Each service that anybody may call is sent half of a message.
#[tokio::test]
async fn half_a_message_is_given_up_by_every_service() {
    let server = Server::start(&["--receive-timeout", "500ms"]);
    for path in [REFLECTION[0], REFLECTION[1], CHECK, WATCH, FILTER] {
        let connection = connect(&server, 65_535).await;
        let mut open = Vec::new();
        for _ in 0..50 {
            let mut call = connection.call(head(path)).await.expect("it stands");
            let first = frame(&[0; 5_000]).slice(..100);
            call.send(first, false).await.expect("sent");
            open.push(call);
        }
        assert_healthy(server.channel()).await;
        for call in open {
            let ended = async { end(call.answer.await.expect("a head")).await };
            let ended = timeout(DEADLINE, ended).await;
            ended.unwrap_or_else(|_| panic!("{path} waits for ever"));
        }
    }
}

/// Requests to these services only name things, and need no megabytes.
#[tokio::test]
async fn large_messages_are_refused_before_they_arrive() {
    let server = Server::start(&[]);
    for path in [REFLECTION[0], REFLECTION[1], CHECK, WATCH] {
        let connection = connect(&server, 65_535).await;
        for _ in 0..100 {
            let mut call = connection.call(head(path)).await.expect("it stands");
            call.send(prefix(0x3f_ffff), false).await.expect("sent");
            let ended = async { end(call.answer.await.expect("a head")).await };
            let ended = timeout(DEADLINE, ended).await;
            ended.unwrap_or_else(|_| panic!("{path} waits for 4 MiB"));
        }
    }
    assert_healthy(server.channel()).await;
}

#[tokio::test]
async fn reflection_that_asks_nothing_more_is_ended() {
    let server = Server::start(&["--receive-timeout", "300ms"]);
    let connection = connect(&server, 1 << 20).await;
    let call = connection.call(head(REFLECTION[0])).await;
    let mut call = call.expect("it stands");
    call.send(list_services(), false).await.expect("sent");
    let ended = async { end(call.answer.await.expect("a head")).await };
    let (status, bytes) = timeout(DEADLINE, ended).await.expect("it is ended");
    assert_eq!(status.map(|status| status.code()), Some(Code::Ok));
    assert!(bytes > 0, "what was asked for is answered");
}

fn list_services() -> prost::bytes::Bytes {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    frame(&request.encode_to_vec())
}

#[tokio::test]
async fn answers_that_are_never_read_close_the_connection_of_every_service() {
    let server = Server::start(&["--send-timeout", "500ms"]);
    let requests = [
        (REFLECTION[0], list_services(), false),
        (REFLECTION[1], list_services(), false),
        (CHECK, frame(&[]), true),
        (WATCH, frame(&[]), true),
    ];
    let mut stalled = Vec::new();
    for (path, request, ends) in requests {
        let connection = connect(&server, 0).await;
        let mut call = connection.call(head(path)).await.expect("it stands");
        call.send(request, ends).await.expect("sent");
        let answer = timeout(DEADLINE, call.answer).await.expect("in time");
        stalled.push((path, connection, answer, call.body));
    }
    assert_healthy(server.channel()).await;
    for (path, connection, _answer, _body) in stalled {
        let closed = timeout(DEADLINE, connection.driver).await;
        closed
            .unwrap_or_else(|_| panic!("{path} keeps its connection"))
            .expect("no panic")
            .ok();
    }
}

/// Opens streams of a path until one is refused. Returns the open streams, and the limit that was
/// reached.
async fn fill_up(
    connection: &Connection,
    path: &str,
    request: prost::bytes::Bytes,
) -> (Vec<RecvStream>, Option<String>) {
    let mut open = Vec::new();
    loop {
        let mut call = connection.call(head(path)).await.expect("it stands");
        call.send(request.clone(), true).await.ok();
        let answer = timeout(DEADLINE, call.answer).await.expect("in time");
        let answer = answer.expect("a head");
        match Status::from_header_map(answer.headers()) {
            Some(status) => return (open, limit_of(&status)),
            None => open.push(answer.into_body()),
        }
        assert!(open.len() < 1_000, "there is no limit to {path}");
    }
}

#[tokio::test]
async fn watches_have_a_limit_and_checks_are_always_answered() {
    let server = Server::start(&["--max-streams", "8", "--max-concurrent-calls", "1"]);
    let connection = connect(&server, 65_535).await;
    let (open, limit) = fill_up(&connection, WATCH, frame(&[])).await;
    assert_eq!(limit.as_deref(), Some("max-streams"));
    assert_eq!(open.len(), 5, "others find as many as one holds");
    // The only slot of calls is taken, too.
    let waits = FilterRequest {
        min_revision: 1_000,
        ..question("web")
    };
    let mut client = Client::new(server.channel());
    fill(&mut client, 2).await;
    let waiting = {
        let mut client = client.clone();
        // This is refused for as long as a question below has the slot.
        tokio::spawn(async move {
            while client.filter(waits.clone()).await.is_err() {
                sleep(Duration::from_millis(5)).await;
            }
        })
    };
    let refused = async || client.filter(question("web")).await.err();
    eventually("it waits", refused).await;
    for _ in 0..20 {
        assert_healthy(server.channel()).await;
    }
    waiting.abort();
    drop(open);
    drop(connection);
    let watched = async || {
        let mut health = HealthClient::new(server.channel());
        health.watch(HealthCheckRequest::default()).await.ok()
    };
    eventually("the slots are given back", watched).await;
}

#[tokio::test]
async fn without_memory_health_is_told_still() {
    // This is less memory than a call takes.
    let server = Server::start(&["--max-memory-bytes", "10000"]);
    let mut client = Client::new(server.channel());
    let update = client
        .update_snapshot(UpdateSnapshotRequest::default())
        .await;
    let status = update.expect_err("there is no room");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(limit_of(&status).as_deref(), Some("max-memory-bytes"));
    assert_healthy(server.channel()).await;
}

/// A question with this many empty tolerations.
pub(crate) fn tolerations(count: usize) -> FilterRequest {
    filter_of(Pod {
        spec: Some(PodSpec {
            tolerations: vec![Toleration::default(); count],
            ..PodSpec::default()
        }),
        ..Pod::default()
    })
}
