//! Streams of a server that stay open: health watches and feeds.

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{BeginReplace, StreamSnapshotRequest, StreamSnapshotResponse};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::process::DEADLINE;

/// A health watch of `name`.
pub async fn watch(channel: Channel, name: &str) -> Streaming<HealthCheckResponse> {
    let request = HealthCheckRequest {
        service: name.into(),
    };
    let watch = HealthClient::new(channel).watch(request).await;
    watch.expect("a watch of any name is answered").into_inner()
}

/// The next status of a watch.
pub async fn next(watch: &mut Streaming<HealthCheckResponse>) -> ServingStatus {
    let message = timeout(DEADLINE, watch.message()).await;
    let message = message.expect("a status within the deadline");
    let response = message.expect("the watch is open");
    response.expect("the watch goes on").status()
}

/// A feed in the middle of a replace, open until both parts are dropped.
pub async fn feed(
    channel: Channel,
) -> (
    mpsc::Sender<StreamSnapshotRequest>,
    Streaming<StreamSnapshotResponse>,
) {
    let (sender, requests) = mpsc::channel(1);
    let begin = StreamSnapshotRequest {
        step: Some(Step::BeginReplace(BeginReplace::default())),
    };
    sender.send(begin).await.expect("the receiver is held");
    let mut acknowledged = SpreadServiceClient::new(channel)
        .stream_snapshot(ReceiverStream::new(requests))
        .await
        .expect("the feed is accepted")
        .into_inner();
    let first = acknowledged.message().await.expect("the feed is open");
    assert!(first.is_some());
    (sender, acknowledged)
}
