//! Bytes that are no request: truncated, random, and a stream cut short.

use std::time::Duration;

use evenkeel::proto::encoded::BytesCodec;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{
    BeginReplace, FilterRequest, StreamSnapshotRequest, UpdateSnapshotRequest,
};
use prost::Message;
use prost::bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::verdict::{connect, server, state};
use support::build::{ZONE, filter_of, hard, node, pod, spread, update_of};
use support::model::Stored;

/// Calls a method with these bytes as the message.
async fn call(channel: &Channel, method: &'static str, message: Bytes) -> Result<Bytes, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.expect("the connection stands");
    let path = PathAndQuery::from_static(method);
    let mut request = Request::new(message);
    // A random message may ask to wait for a revision that never comes.
    request.set_timeout(Duration::from_millis(200));
    let answer = grpc.unary(request, path, BytesCodec).await;
    answer.map(tonic::Response::into_inner)
}

const FILTER: &str = "/evenkeel.v1.SpreadService/Filter";
const UPDATE: &str = "/evenkeel.v1.SpreadService/UpdateSnapshot";

/// A message that does not parse is INVALID_ARGUMENT where the service decodes it, and INTERNAL
/// where the gRPC library does. The transport of a whole server, which is absent here, words that
/// as well. A message that parses by chance is a request like any other.
fn judge<T: Message + Default>(message: &Bytes, answer: &Result<Bytes, Status>) {
    if T::decode(message.clone()).is_err() {
        let status = answer.as_ref().expect_err("the message does not parse");
        let codes = [Code::InvalidArgument, Code::Internal];
        assert!(codes.contains(&status.code()), "{message:?}: {status:?}");
        let text = status.message();
        assert!(
            text.contains("failed to decode Protobuf message"),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn truncated_messages() {
    let server = server().await;
    let channel = connect(&server).await;
    let request = filter_of(spread(
        pod("x", &[("app", "web")]),
        vec![hard(1, ZONE, &[("app", "web")])],
    ));
    let whole = Bytes::from(request.encode_to_vec());
    let before = state(&server).await;
    for end in 0..whole.len() {
        let cut = whole.slice(..end);
        judge::<FilterRequest>(&cut, &call(&channel, FILTER, cut.clone()).await);
    }
    assert_eq!(state(&server).await, before);
    call(&channel, FILTER, whole)
        .await
        .expect("the whole is fine");

    let request = update_of(vec![node("n9", &[(ZONE, "c")]).change()]);
    let whole = Bytes::from(request.encode_to_vec());
    for end in 0..whole.len() {
        let cut = whole.slice(..end);
        let before = state(&server).await;
        let answer = call(&channel, UPDATE, cut.clone()).await;
        judge::<UpdateSnapshotRequest>(&cut, &answer);
        if answer.is_err() {
            assert_eq!(state(&server).await, before, "{cut:?}");
        }
    }
}

/// A stream that ends, or breaks, before its commit leaves the old state.
#[tokio::test]
async fn stream_cut_before_commit() {
    let server = server().await;
    let before = state(&server).await;
    let begin = Step::BeginReplace(BeginReplace::default());
    let update = Step::Update(update_of(vec![node("other", &[]).change()]));
    let steps = [begin, update];

    let mut ended = server.stream(steps.to_vec()).await;
    let mut acknowledged = 0;
    while let Ok(Some(_)) = ended.message().await {
        acknowledged += 1;
    }
    assert_eq!(acknowledged, 2);
    assert_eq!(state(&server).await, before, "the client ended the stream");

    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let open = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut client = server.another_client();
    for step in steps {
        let step = StreamSnapshotRequest { step: Some(step) };
        sender.send(step).await.expect("there is room");
    }
    let mut broken = client
        .stream_snapshot(open)
        .await
        .expect("a stream")
        .into_inner();
    for _ in 0..2 {
        broken
            .message()
            .await
            .expect("an answer")
            .expect("an answer");
    }
    drop((broken, client, sender));
    assert_eq!(state(&server).await, before, "the connection broke");
}
