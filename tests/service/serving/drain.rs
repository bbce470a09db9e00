//! A server stops in the order that loses no call.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::proto::v1::{FilterRequest, FilterResponse, Pod};
use support::build::{filter_of, plain_node};
use support::caller::Client;
use support::model::Stored;
use support::refusal::code;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Streaming};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};
use tonic_prost::ProstCodec;

use crate::serving::process::{DEADLINE, Server, eventually};
use crate::serving::streams::{feed, next, watch};

/// Connections of a load, and calls under way on each.
const CONNECTIONS: usize = 4;
const CALLS_EACH: usize = 16;

/// Number of nodes of the snapshot, all of which [`slow_answer`] names.
const NODES: usize = 5_000;

/// The code that ends `stream`.
async fn end<T>(mut stream: Streaming<T>) -> Code {
    let messages = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Code::Ok,
                Err(status) => return status.code(),
            }
        }
    };
    let end = timeout(DEADLINE, messages).await;
    end.expect("the stream ends within the deadline")
}

/// The code of a `Filter` call that waits for a revision.
async fn wait_for_revision(mut client: Client, min_revision: i64) -> Code {
    let request = FilterRequest {
        min_revision,
        ..filter_of(Pod::default())
    };
    code(client.filter(request).await)
}

/// A `Filter` call whose answer, of about a megabyte, stays mostly with the server until it is
/// read, because it is larger than the flow-control window.
async fn slow_answer(server: &Server) -> Streaming<FilterResponse> {
    let name = |number| format!("{}-{number}", "n".repeat(200));
    let node = |number| plain_node(&name(number), &[]).change();
    server.update("", (0..NODES).map(node).collect()).await;

    let window = 65_535;
    let channel = server
        .endpoint()
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .connect_lazy();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.expect("the server listens");
    let request = filter_of(Pod::default());
    let path = "/evenkeel.v1.SpreadService/Filter".parse().expect("a path");
    let codec = ProstCodec::<FilterRequest, FilterResponse>::default();
    let answer = client
        .server_streaming(Request::new(request), path, codec)
        .await;
    answer.expect("the call is answered").into_inner()
}

/// Waits until no more connections are accepted.
async fn closed(server: &Server) {
    let refused = async || server.endpoint().connect().await.err();
    eventually("no connection is accepted", refused).await;
}

#[tokio::test]
async fn answers_during_the_pause_then_ends_streams_and_exits() {
    let mut server = Server::start(&["--drain-pause", "3s"]);
    server.update("", Vec::new()).await;
    let mut watches = Vec::new();
    for name in ["", "evenkeel.v1.SpreadService", "default"] {
        let mut watch = watch(server.channel(), name).await;
        while next(&mut watch).await != Serving {}
        watches.push(watch);
    }
    let (_feed, acknowledged) = feed(server.channel()).await;

    let waiting = tokio::spawn(wait_for_revision(server.another_client(), i64::MAX));

    server.signal("TERM");
    for watch in &mut watches {
        assert_eq!(next(watch).await, NotServing);
    }
    // Balancers have not noticed yet, so calls come in on new connections, too.
    server.update("", Vec::new()).await;

    for watch in watches {
        assert_eq!(end(watch).await, Code::Unavailable);
    }
    assert_eq!(end(acknowledged).await, Code::Unavailable);
    let waited = waiting.await.expect("the call does not panic");
    assert_eq!(waited, Code::Unavailable);
    assert_eq!(server.exited().await.code(), Some(0));
    server.logged("drained", "level");
}

#[tokio::test]
async fn both_signals_drain_an_idle_server() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&["--drain-pause", "0s"]);
        let _idle = server.endpoint().connect().await.expect("it listens");
        server.signal(signal);
        assert_eq!(server.exited().await.code(), Some(0), "{signal}");
        server.logged("drained", "level");
    }
}

#[tokio::test]
async fn a_call_under_way_gets_its_whole_answer() {
    let mut server = Server::start(&["--drain-pause", "0s"]);
    let mut answer = slow_answer(&server).await;
    server.signal("TERM");
    closed(&server).await;
    // Longer than a connection without calls stays open.
    sleep(Duration::from_millis(2_500)).await;

    let response = answer.message().await.expect("the answer is not cut off");
    let response = response.expect("there is one");
    assert_eq!(response.feasible.len(), NODES);
    assert!(answer.message().await.expect("an orderly end").is_none());
    assert_eq!(server.exited().await.code(), Some(0));
    server.logged("drained", "level");
}

/// A client that has not heard of the end yet sends on. Its call is answered, or the connection
/// says that the call was not taken. Then any client or balancer asks another server.
#[tokio::test]
async fn no_call_is_refused_because_its_connection_is_closing() {
    let mut server = Server::start(&["--drain-pause", "0s"]);
    server.update("", Vec::new()).await;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut lines = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = server.another_client();
        for _ in 0..CALLS_EACH {
            let mut client = client.clone();
            let answered = Arc::clone(&answered);
            lines.spawn(async move {
                loop {
                    if let Err(status) = client.filter(filter_of(Pod::default())).await {
                        return status;
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    let many = 10 * CONNECTIONS * CALLS_EACH;
    let enough = async || (answered.load(Ordering::Relaxed) >= many).then_some(());
    eventually("calls are answered", enough).await;
    server.signal("TERM");
    assert_eq!(server.exited().await.code(), Some(0));
    while let Some(status) = lines.join_next().await {
        let status = status.expect("a line does not panic");
        // A status that the server itself sends has no source, and comes with details.
        assert!(status.source().is_some(), "{status:?}");
        assert!(status.details().is_empty(), "{status:?}");
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cut_off() {
    let mut server = Server::start(&["--drain-pause", "0s", "--drain-timeout", "500ms"]);
    let answer = slow_answer(&server).await;
    server.signal("TERM");
    assert_eq!(server.exited().await.code(), Some(0));
    server.logged(
        "cutting off calls that did not end within drain-timeout",
        "level",
    );
    assert_ne!(end(answer).await, Code::Ok);
}

#[tokio::test]
async fn a_second_signal_more_than_a_second_later_exits_at_once() {
    for (first, second, code) in [
        ("TERM", "TERM", 143),
        ("INT", "INT", 130),
        ("TERM", "INT", 130),
    ] {
        let mut server = Server::start(&["--drain-pause", "10m"]);
        let mut watch = watch(server.channel(), "").await;
        while next(&mut watch).await != Serving {}
        server.signal(first);
        assert_eq!(next(&mut watch).await, NotServing);
        sleep(Duration::from_millis(1_100)).await;
        server.signal(second);
        assert_eq!(server.exited().await.code(), Some(code), "{first} {second}");
    }
}

/// A terminal sends SIGINT to a wrapper and to the server, the wrapper passes its own on, and
/// service managers repeat SIGTERM.
#[tokio::test]
async fn the_same_request_to_stop_again_does_not_cut_the_drain_short() {
    for again in [["TERM", "TERM"], ["INT", "INT"], ["INT", "HUP"]] {
        let mut server = Server::start(&["--drain-pause", "2500ms"]);
        let mut watch = watch(server.channel(), "").await;
        while next(&mut watch).await != Serving {}
        server.signal("TERM");
        assert_eq!(next(&mut watch).await, NotServing);
        for signal in again {
            server.signal(signal);
        }
        assert_eq!(server.exited().await.code(), Some(0), "{again:?}");
        server.logged("drained", "level");
    }
}
