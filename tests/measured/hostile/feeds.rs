//! Feeds of clients that may not feed, or that send nothing.

use std::io::Write;
use std::time::Duration;

use evenkeel::access::TokenHash;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use support::refusal::metadata;
use tempfile::NamedTempFile;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use crate::hostile::process::{DEADLINE, Server, eventually};
use crate::hostile::raw::{self, Call, Connection, head, spread};
use crate::hostile::streams::feed;
use crate::hostile::world::{assert_refused, connect, limit_of};

/// Callers with their roles. The token of each is its name.
const CALLERS: [(&str, &str); 3] = [
    ("reader", "reader"),
    ("feeder", "feeder"),
    ("other", "feeder"),
];

/// A server that knows these callers, and the file of their rules.
fn server(flags: &[&str]) -> (Server, NamedTempFile) {
    let mut rules = NamedTempFile::new().expect("a temporary file");
    for (name, role) in CALLERS {
        let hash = TokenHash::of(name);
        let rule = format!(
            "[[allow]]\ntoken_sha256 = \"{hash}\"\nrole = \"{role}\"\nsnapshots = [\"*\"]\n"
        );
        rules.write_all(rule.as_bytes()).expect("there is room");
    }
    let path = rules.path().to_str().expect("a path of text").to_owned();
    let flags = [&["--access-file", &path], flags].concat();
    (Server::start(&flags), rules)
}

/// A feed without a step.
async fn open(connection: &Connection, caller: &str) -> Call {
    let mut request = head(&spread("StreamSnapshot"));
    let token = HeaderValue::from_str(&format!("Bearer {caller}")).expect("a header");
    request.headers_mut().insert(AUTHORIZATION, token);
    connection.call(request).await.expect("sent")
}

/// Returns how a feed ends.
async fn end(open: Call) -> Status {
    let ended = async { raw::end(open.answer.await.expect("a head")).await };
    let (status, _) = timeout(DEADLINE, ended).await.expect("the feed ends");
    status.expect("a status")
}

#[tokio::test]
async fn readers_take_no_slots_of_feeders() {
    let (server, _rules) = server(&[]);
    let reader = connect(&server, 65_535).await;
    let mut held = Vec::new();
    for _ in 0..900 {
        held.push(open(&reader, "reader").await);
    }
    let second = connect(&server, 65_535).await;
    for _ in 0..140 {
        held.push(open(&second, "reader").await);
    }
    let mut feeder = SpreadServiceClient::with_interceptor(
        server.channel(),
        |mut request: tonic::Request<()>| {
            let token = "Bearer feeder".parse().expect("a header");
            request.metadata_mut().insert("authorization", token);
            Ok(request)
        },
    );
    let fed = feeder.stream_snapshot(tokio_stream::empty()).await;
    fed.expect("a feeder finds a slot");
    for open in held {
        let status = end(open).await;
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
        assert_eq!(metadata(&status, "role").as_deref(), Some("feeder"));
    }
}

#[tokio::test]
async fn feeds_without_a_first_step_end_and_silent_ones_stay() {
    let server = Server::start(&["--receive-timeout", "500ms"]);
    let (_steps, mut acknowledged) = feed(server.channel()).await;
    let connection = connect(&server, 65_535).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(open(&connection, "nobody").await);
    }
    for open in silent {
        let status = end(open).await;
        assert_refused(&status, Code::DeadlineExceeded, "REQUEST_NOT_RECEIVED");
    }
    // A feed that has begun may be silent for longer.
    sleep(Duration::from_millis(600)).await;
    let next = timeout(Duration::from_millis(10), acknowledged.message()).await;
    assert!(next.is_err(), "it is open still: {next:?}");
}

#[tokio::test]
async fn one_feeder_leaves_room_for_another() {
    let (server, _rules) = server(&["--max-streams", "8"]);
    let connection = connect(&server, 65_535).await;
    let mut held = Vec::new();
    let refused = loop {
        let mut next = open(&connection, "feeder").await;
        // The head of an answer comes at once, whatever becomes of the feed.
        let answer = timeout(DEADLINE, &mut next.answer).await.expect("in time");
        let answer = answer.expect("a head");
        if let Some(status) = Status::from_header_map(answer.headers()) {
            break status;
        }
        held.push((next, answer));
        assert!(held.len() <= 8, "over the limit");
    };
    assert_eq!(
        limit_of(&refused).as_deref(),
        Some("max-streams"),
        "{refused}"
    );
    assert_eq!(held.len(), 5);
    let other = connect(&server, 65_535).await;
    let mut next = open(&other, "other").await;
    let answer = timeout(DEADLINE, &mut next.answer).await.expect("in time");
    let answer = answer.expect("a head");
    let refused = Status::from_header_map(answer.headers());
    assert!(refused.is_none(), "{refused:?}");
    drop(held);
    let accepted = async || {
        let mut again = open(&connection, "feeder").await;
        let answer = timeout(DEADLINE, &mut again.answer).await.expect("in time");
        let refused = Status::from_header_map(answer.expect("a head").headers());
        refused.is_none().then_some(())
    };
    eventually("a slot is given back", accepted).await;
}
