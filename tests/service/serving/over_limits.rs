//! A request over each limit, and its refusal.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    Affinity, Change, DecideRequest, Dialect, FilterRequest, ListSnapshotsRequest, Mode,
    NodeAffinity, NodeNames, NodeSelector, NodeSelectorTerm, ObjectMeta, PlaceRequest, Pod,
    PodSpec, Question, Reservation, Service, Toleration, TopologySpreadConstraint,
    UpdateSnapshotRequest, View, change, decide_request, decide_response, question,
};
use support::build::{self, meta, plain_node, selecting, update_of};
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
    client.update_snapshot(batch([])).await.expect("the first");
    let second = UpdateSnapshotRequest {
        snapshot: "second".into(),
        ..batch([])
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
            ..filter()
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

fn metadata(name: &str) -> Option<ObjectMeta> {
    Some(meta(name, &[("app", name)]))
}

pub(crate) fn node(name: &str) -> change::Object {
    change::Object::Node(plain_node(name, &[("app", name)]))
}

pub(crate) fn stored(name: &str) -> change::Object {
    change::Object::Pod(build::pod(name, &[("app", name)]))
}

pub(crate) fn service(name: &str) -> change::Object {
    change::Object::Service(Service {
        metadata: metadata(name),
        ..Service::default()
    })
}

fn constraint(key: &str) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        ..TopologySpreadConstraint::default()
    }
}

pub(crate) fn batch<const N: usize>(objects: [change::Object; N]) -> UpdateSnapshotRequest {
    let change = |object| Change {
        object: Some(object),
    };
    update_of(objects.map(change).into())
}

/// Two objects, `a` and `b`.
pub(crate) fn two(object: fn(&str) -> change::Object) -> UpdateSnapshotRequest {
    batch(["a", "b"].map(object))
}

/// A pod whose spec is not empty.
pub(crate) fn choosy() -> change::Object {
    let pod = build::pod("a", &[("app", "a")]);
    change::Object::Pod(selecting(pod, &[("disk", "ssd")]))
}

/// Makes an empty snapshot.
async fn begin(client: &mut Client) {
    let begun = client.update_snapshot(batch([])).await;
    begun.expect("an empty batch");
}

/// Makes a snapshot of two nodes.
async fn fill(client: &mut Client) {
    let nodes = UpdateSnapshotRequest {
        mode: Mode::Replace.into(),
        ..two(node)
    };
    client.update_snapshot(nodes).await.expect("two nodes");
}

fn pod(spec: PodSpec) -> Option<Pod> {
    Some(Pod {
        spec: Some(spec),
        ..build::pod("web", &[("app", "web")])
    })
}

fn filter() -> FilterRequest {
    FilterRequest {
        pod: pod(PodSpec::default()),
        ..FilterRequest::default()
    }
}

pub(crate) fn place() -> PlaceRequest {
    PlaceRequest {
        pod: pod(PodSpec::default()),
        replicas: 2,
        ..PlaceRequest::default()
    }
}

/// A Filter with an overlay of two nodes.
pub(crate) fn overlaid() -> FilterRequest {
    FilterRequest {
        overlay: two(node).changes,
        ..filter()
    }
}

/// A Filter of a pod with two constraints.
pub(crate) fn constrained() -> FilterRequest {
    let pod = pod(PodSpec {
        topology_spread_constraints: ["a", "b"].map(constraint).into(),
        ..PodSpec::default()
    });
    FilterRequest { pod, ..filter() }
}

/// A Filter of a pod with one term of node affinity more than `most`.
pub(crate) fn with_terms(most: Option<usize>) -> FilterRequest {
    let count = most.expect("the limit has a default") + 1;
    let required = NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm::default(); count],
    };
    let affinity = Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    };
    let pod = pod(PodSpec {
        affinity: Some(affinity),
        ..PodSpec::default()
    });
    FilterRequest { pod, ..filter() }
}

/// A Filter of a pod that requests one resource more than is allowed.
pub(crate) fn with_resources(most: Option<usize>) -> FilterRequest {
    let count = most.expect("the limit has a default") + 1;
    let names: Vec<String> = (0..count).map(|i| format!("e.io/r{i}")).collect();
    let requests: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
    FilterRequest {
        pod: Some(build::requesting(build::pod("a", &[]), &requests)),
        ..filter()
    }
}

/// A Filter of a pod with an annotation of more bytes than an object may have.
pub(crate) fn annotated(most: Option<usize>) -> FilterRequest {
    let note = "x".repeat(most.expect("the limit has a default"));
    let mut pod = build::pod("a", &[]);
    let metadata = pod.metadata.get_or_insert_default();
    metadata.annotations.insert("note".into(), note);
    FilterRequest {
        pod: Some(pod),
        ..filter()
    }
}

/// A Filter of a pod with two tolerations.
pub(crate) fn tolerating() -> FilterRequest {
    let pod = pod(PodSpec {
        tolerations: vec![Toleration::default(); 2],
        ..PodSpec::default()
    });
    FilterRequest { pod, ..filter() }
}

/// A Filter of one candidate.
pub(crate) fn of_candidate(name: &str) -> FilterRequest {
    let names = vec![name.into()];
    FilterRequest {
        candidates: Some(NodeNames { names }),
        ..filter()
    }
}

/// A Place whose answer has the scores of each step.
pub(crate) fn step_by_step() -> PlaceRequest {
    PlaceRequest {
        dialect: Dialect::Fleet.into(),
        view: View::Full.into(),
        ..place()
    }
}

/// A Place that reserves.
pub(crate) fn reserving() -> PlaceRequest {
    PlaceRequest {
        reserve: Some(Reservation {
            owner: "me".into(),
            ttl: Some(Duration::from_secs(60).into()),
        }),
        ..place()
    }
}
