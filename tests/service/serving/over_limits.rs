//! A request over each limit, and its refusal.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    DecideRequest, FilterRequest, ListSnapshotsRequest, Mode, PlaceRequest, Question,
    UpdateSnapshotRequest, decide_request, decide_response, question,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use crate::serving::limits::waiting;
use crate::serving::process::{DEADLINE, Server};
use crate::serving::streams;

pub(crate) type Client = SpreadServiceClient<Channel>;

#[track_caller]
pub(crate) fn refusal<T>(answer: Result<T, Status>) -> Status {
    match answer {
        Ok(_) => panic!("it is not over the limit"),
        Err(status) => status,
    }
}

/// The refusal of a batch, which changes nothing.
pub(crate) async fn updated(client: &mut Client, batch: UpdateSnapshotRequest) -> Status {
    let refused = refusal(client.update_snapshot(batch).await);
    let listed = client.list_snapshots(ListSnapshotsRequest::default()).await;
    let listed = listed.expect("it is small").into_inner();
    assert_eq!(listed.snapshots, [], "nothing is made");
    refused
}

/// The refusal of a Filter on an empty snapshot.
pub(crate) async fn filtered(client: &mut Client, request: FilterRequest) -> Status {
    begin(client).await;
    refusal(client.filter(request).await)
}

/// The refusal of a Place on two nodes.
pub(crate) async fn placed(client: &mut Client, request: PlaceRequest) -> Status {
    fill(client).await;
    refusal(client.place(request).await)
}

/// Opens two connections, of which the server closes the second one.
pub(crate) fn second_connection(server: &Server) {
    let open = || TcpStream::connect(server.address()).expect("the port is open");
    // The first connection must still be open when the second one comes.
    let [_first, second] = [open(), open()];
    closed_by_the_server(second);
}

/// Waits until the server has closed a connection.
fn closed_by_the_server(mut connection: TcpStream) {
    let deadline = Some(DEADLINE);
    connection.set_read_timeout(deadline).expect("not zero");
    let read = connection.read(&mut [0; 64]);
    let kind = read.as_ref().err().map(std::io::Error::kind);
    assert!(
        matches!(read, Ok(0)) || kind == Some(ErrorKind::ConnectionReset),
        "{read:?}"
    );
}

pub(crate) async fn second_call(client: &mut Client, server: &Server) -> Status {
    let held = waiting(server).await;
    let refused = until_refused(async || client.place(place()).await).await;
    held.abort();
    refused
}

pub(crate) async fn second_snapshot(client: &mut Client) -> Status {
    begin(client).await;
    let second = UpdateSnapshotRequest {
        snapshot: "second".into(),
        ..UpdateSnapshotRequest::default()
    };
    let refused = refusal(client.update_snapshot(second).await);
    let listed = client.list_snapshots(ListSnapshotsRequest::default()).await;
    assert_eq!(listed.expect("it is small").into_inner().snapshots.len(), 1);
    refused
}

/// The refusal of a second stream. Streams of all kinds have one limit.
pub(crate) async fn second_stream(client: &mut Client, channel: Channel) -> Status {
    let _open = streams::feed(channel.clone()).await;
    let mut health = HealthClient::new(channel.clone());
    let mut reflection = ServerReflectionClient::new(channel);
    let refused = [
        refusal(client.decide(tokio_stream::pending()).await),
        refusal(health.watch(HealthCheckRequest::default()).await),
        refusal(
            reflection
                .server_reflection_info(tokio_stream::pending())
                .await,
        ),
    ];
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    }
    refusal(client.stream_snapshot(tokio_stream::pending()).await)
}

/// Asks two questions that wait on one stream; returns the refusal of the second.
pub(crate) async fn second_question(client: &mut Client) -> Status {
    begin(client).await;
    let question = |id| {
        let filter = FilterRequest {
            min_revision: 1_000,
            ..filter(json!({}))
        };
        let question = Question {
            id,
            ask: Some(question::Ask::Filter(filter)),
            ..Question::default()
        };
        DecideRequest {
            step: Some(decide_request::Step::Question(question)),
        }
    };
    let steps = tokio_stream::iter([question(1), question(2)]);
    let steps = tokio_stream::StreamExt::chain(steps, tokio_stream::pending());
    let mut answers = client.decide(steps).await.expect("a stream").into_inner();
    let answer = timeout(DEADLINE, answers.message()).await;
    let answer = answer.expect("an answer within the deadline");
    match answer.expect("no end").expect("an answer").answer {
        Some(decide_response::Answer::Error(error)) => {
            let code = Code::from(error.code);
            let details = prost::Message::encode_to_vec(&error);
            Status::with_details(code, error.message, details.into())
        }
        other => panic!("{other:?} is no error"),
    }
}

/// Repeats a call until it is refused: the calls that fill the limit may not have arrived yet.
async fn until_refused<T>(mut ask: impl AsyncFnMut() -> Result<T, Status>) -> Status {
    let refused = timeout(DEADLINE, async {
        loop {
            match ask().await {
                Err(status) if status.code() == Code::ResourceExhausted => return status,
                _ => tokio::task::yield_now().await,
            }
        }
    });
    refused.await.expect("a refusal within the deadline")
}

/// The first refusal among calls.
async fn first_refused(mut all: JoinSet<Result<(), Status>>) -> Status {
    let refused = timeout(DEADLINE, async {
        while let Some(ended) = all.join_next().await {
            if let Err(status) = ended.expect("no panic") {
                return status;
            }
        }
        panic!("none was refused");
    });
    refused.await.expect("a refusal within the deadline")
}

/// Makes more decisions at once than one that runs and one that waits.
pub(crate) async fn many_decisions(client: &mut Client) -> Status {
    fill(client).await;
    let mut all = JoinSet::new();
    for _ in 0..20 {
        let mut client = client.clone();
        // One decision runs and one waits for as long as the others need to arrive.
        let long = PlaceRequest {
            replicas: 50_000,
            ..place()
        };
        all.spawn(async move { client.place(long).await.map(drop) });
    }
    first_refused(all).await
}

/// Makes more health checks at once than one caller may have.
pub(crate) async fn many_checks(channel: Channel) -> Status {
    let mut all = JoinSet::new();
    // One caller may have a little more than half of all checks.
    for _ in 0..600 {
        let channel = channel.clone();
        all.spawn(async move { unfinished_check(channel).await });
    }
    first_refused(all).await
}

/// A health check whose request never comes.
async fn unfinished_check(channel: Channel) -> Result<(), Status> {
    let mut client = Grpc::new(channel);
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let nothing = tokio_stream::pending::<HealthCheckRequest>();
    let codec = ProstCodec::<_, HealthCheckResponse>::default();
    let answer = client.client_streaming(Request::new(nothing), path, codec);
    answer.await.map(drop)
}

/// A message from JSON.
pub(crate) fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a message")
}

/// Two objects of a kind, `a` and `b`.
pub(crate) fn two(kind: &str) -> UpdateSnapshotRequest {
    let objects = ["a", "b"].map(|name| {
        let metadata = json!({"name": name, "labels": {"app": name}});
        json!({kind: {"metadata": metadata}})
    });
    read(json!({"changes": objects}))
}

/// Makes an empty snapshot.
async fn begin(client: &mut Client) {
    let begun = client
        .update_snapshot(UpdateSnapshotRequest::default())
        .await;
    begun.expect("an empty batch");
}

/// Makes a snapshot of two nodes.
async fn fill(client: &mut Client) {
    let nodes = UpdateSnapshotRequest {
        mode: Mode::Replace.into(),
        ..two("node")
    };
    client.update_snapshot(nodes).await.expect("two nodes");
}

/// A pod with this spec.
pub(crate) fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec})
}

/// A Filter of a pod with this spec.
pub(crate) fn filter(spec: Value) -> FilterRequest {
    read(json!({"pod": pod(spec)}))
}

/// A Place of two pods.
pub(crate) fn place() -> PlaceRequest {
    read(json!({"pod": pod(json!({})), "replicas": 2}))
}
