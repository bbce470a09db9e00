//! Calls with little time.

use evenkeel::proto::v1::{
    DescribeSpreadRequest, FilterRequest, PlaceRequest, UpdateSnapshotRequest,
};
use http::HeaderValue;
use prost::Message;
use support::build::{explain_of, score_as};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::hostile::process::{DEADLINE, Server};
use crate::hostile::raw::{frame, head, spread};
use crate::hostile::world::{
    Client, assert_healthy, assert_refused, connect, fill, long_place, question, spread_pod,
};

/// Returns how a call with little time ends. The call is made by hand, because a gRPC client gives
/// up by itself.
async fn end<M: Message>(server: &Server, method: &str, message: &M) -> Option<Status> {
    let mut request = head(&spread(method));
    let soon = HeaderValue::from_static("300m");
    request.headers_mut().insert("grpc-timeout", soon);
    let connection = connect(server, 1 << 20).await;
    let mut call = connection.call(request).await.expect("sent");
    let message = frame(&message.encode_to_vec());
    call.send(message, true).await.expect("it can be sent");
    let answer = timeout(DEADLINE, call.answer)
        .await
        .expect("in time")
        .expect("an answer");
    Status::from_header_map(answer.headers())
}

#[track_caller]
fn assert_late(what: &str, reason: &str, end: Option<Status>) {
    assert_refused(&end.expect(what), Code::DeadlineExceeded, reason);
}

#[tokio::test]
async fn every_wait_ends_at_the_deadline_and_says_so() {
    let server = Server::start(&["--max-running-decisions", "1"]);
    let mut client = Client::new(server.channel());
    fill(&mut client, 5_000).await;
    let min_revision = 1_000_000;

    let late = end(&server, "Place", &long_place()).await;
    assert_late("a place that takes long", "DEADLINE_EXCEEDED", late);
    let future = FilterRequest {
        min_revision,
        ..question("web")
    };
    let late = end(&server, "Filter", &future).await;
    assert_late("filter", "MIN_REVISION_NOT_REACHED", late);
    let late = end(&server, "Score", &score_as(future)).await;
    assert_late("score", "MIN_REVISION_NOT_REACHED", late);
    let future = PlaceRequest {
        min_revision,
        ..long_place()
    };
    let late = end(&server, "Place", &future).await;
    assert_late("place", "MIN_REVISION_NOT_REACHED", late);

    // These run one after another, and the calls below wait for all of them.
    let running = [(); 4].map(|()| {
        let mut other = client.clone();
        tokio::spawn(async move { other.place(long_place()).await.map(drop) })
    });
    let explained = explain_of(spread_pod("web"));
    loop {
        let explained = end(&server, "Explain", &explained).await;
        if explained.is_some() {
            assert_late("explain behind a place", "DEADLINE_EXCEEDED", explained);
            break;
        }
    }
    let described = DescribeSpreadRequest::default();
    let late = end(&server, "DescribeSpread", &described).await;
    assert_late("describe behind a place", "DEADLINE_EXCEEDED", late);
    let late = end(&server, "Place", &long_place()).await;
    assert_late("place behind a place", "DEADLINE_EXCEEDED", late);
    assert_healthy(server.channel()).await;
    let update = end(&server, "UpdateSnapshot", &UpdateSnapshotRequest::default()).await;
    assert!(
        update.is_none(),
        "batches do not wait for decisions: {update:?}"
    );
    assert!(
        running.iter().any(|place| !place.is_finished()),
        "they were over too soon to show this"
    );
    running.iter().for_each(JoinHandle::abort);
}
