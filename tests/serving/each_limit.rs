//! Each limit of the table can be hit, and is seen in the metrics then: from 0
//! on, and under the name that the refusal has. The documents tell its default.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use evenkeel::limits::{Heading, Limit};
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    Change, DecideRequest, Dialect, FilterRequest, Mode, Node, NodeNames, ObjectMeta, PlaceRequest,
    Pod, PodSpec, Question, Reservation, Service, TopologySpreadConstraint, UpdateSnapshotRequest,
    View, change, decide_request, decide_response, question,
};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use crate::limits::{assert_over, update, waiting};
use crate::metrics::Page;
use crate::process::{DEADLINE, Server, until};
use crate::streams;

const REFUSALS: &str = "evenkeel_limit_refusals_total";

fn label(limit: Limit) -> String {
    format!("limit=\"{}\"", limit.name())
}

/// What the limit is set to: two of anything are too many, where that can be.
fn value(limit: Limit) -> &'static str {
    match limit {
        Limit::MessageBytes => "65536",
        // Enough for a connection and a small call.
        Limit::MemoryBytes => "100000",
        _ => "1",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_refuses_and_is_counted() {
    for limit in Limit::refusing() {
        let flag = format!("--{}", limit.name());
        let mut flags = vec!["--admin-listen", "127.0.0.1:0"];
        match limit.row().heading {
            Heading::None => {}
            _ => flags.extend([flag.as_str(), value(limit)]),
        }
        if limit == Limit::WaitingDecisions {
            flags.extend(["--max-running-decisions", "1"]);
        }
        let mut server = Server::start(&flags);
        let admin = server.logged("admin listening", "address");
        let count = || Page::of(&admin).sample(REFUSALS, &[&label(limit)]);
        assert_eq!(count(), Some(0.0), "{limit:?} starts at zero");
        exceed(limit, &server).await;
        until(limit.name(), || (count() > Some(0.0)).then_some(()));
        // Nothing else was in the way.
        let page = Page::of(&admin);
        for other in Limit::refusing().filter(|other| *other != limit) {
            assert_eq!(page.value(REFUSALS, &[&label(other)]), 0.0, "{other:?}");
        }
        let set = page.value("evenkeel_limit", &[&label(limit)]);
        if limit.row().heading != Heading::None {
            assert_eq!(set.to_string(), value(limit), "{limit:?}");
        }
    }
}

/// Goes over a limit.
async fn exceed(limit: Limit, server: &Server) {
    let channel = server.channel();
    let mut client = SpreadServiceClient::new(channel.clone());
    let status: Status = match limit {
        Limit::Connections => {
            let open = || TcpStream::connect(server.address()).expect("the port is open");
            // The first has to be there still when the second one comes.
            let [_first, second] = [open(), open()];
            return closed_by_the_server(second);
        }
        Limit::MessageBytes => refusal(client.update_snapshot(update(70)).await),
        Limit::MemoryBytes => refusal(client.update_snapshot(update(60)).await),
        Limit::ConcurrentCalls => {
            let held = waiting(server).await;
            let refused = until_refused(async || client.place(place()).await).await;
            held.abort();
            refused
        }
        Limit::ChangesPerBatch => {
            refusal(client.update_snapshot(batch(["a", "b"].map(node))).await)
        }
        Limit::OverlayChanges => {
            let overlay = batch(["a", "b"].map(node)).changes;
            let request = FilterRequest {
                overlay,
                ..filter()
            };
            client
                .update_snapshot(batch([]))
                .await
                .expect("an empty batch");
            refusal(client.filter(request).await)
        }
        Limit::ConstraintsPerPod => {
            client
                .update_snapshot(batch([]))
                .await
                .expect("an empty batch");
            let pod = pod(PodSpec {
                topology_spread_constraints: ["a", "b"].map(constraint).into(),
                ..PodSpec::default()
            });
            refusal(client.filter(FilterRequest { pod, ..filter() }).await)
        }
        Limit::Snapshots => {
            client.update_snapshot(batch([])).await.expect("the first");
            let second = UpdateSnapshotRequest {
                snapshot: "second".into(),
                ..batch([])
            };
            refusal(client.update_snapshot(second).await)
        }
        Limit::Nodes => refusal(client.update_snapshot(batch(["a", "b"].map(node))).await),
        Limit::Pods | Limit::LabelSets => {
            refusal(client.update_snapshot(batch(["a", "b"].map(stored))).await)
        }
        Limit::Owners => refusal(client.update_snapshot(batch(["a", "b"].map(service))).await),
        Limit::PodSpecBytes => {
            let change = change::Object::Pod(Pod {
                metadata: metadata("a"),
                spec: Some(PodSpec {
                    node_selector: [("disk".into(), "ssd".into())].into(),
                    ..PodSpec::default()
                }),
                ..Pod::default()
            });
            refusal(client.update_snapshot(batch([change])).await)
        }
        Limit::StringBytes => {
            client
                .update_snapshot(batch([]))
                .await
                .expect("an empty batch");
            let candidates = Some(NodeNames {
                names: vec!["ab".into()],
            });
            refusal(
                client
                    .filter(FilterRequest {
                        candidates,
                        ..filter()
                    })
                    .await,
            )
        }
        Limit::Replicas => refusal(client.place(place()).await),
        Limit::StepScores => {
            fill(&mut client).await;
            let request = PlaceRequest {
                dialect: Dialect::Fleet.into(),
                view: View::Full.into(),
                ..place()
            };
            refusal(client.place(request).await)
        }
        Limit::Reservations => {
            fill(&mut client).await;
            let reserve = Some(Reservation {
                owner: "me".into(),
                ttl: Some(Duration::from_secs(60).into()),
            });
            refusal(client.place(PlaceRequest { reserve, ..place() }).await)
        }
        Limit::WaitingDecisions => {
            fill(&mut client).await;
            let mut all = JoinSet::new();
            for _ in 0..20 {
                let mut client = client.clone();
                // One runs and one waits for as long as the others need to come.
                let long = PlaceRequest {
                    replicas: 50_000,
                    ..place()
                };
                all.spawn(async move { client.place(long).await.map(drop) });
            }
            first_refused(all).await
        }
        Limit::Feeds => {
            let _open = streams::feed(channel).await;
            refusal(client.stream_snapshot(tokio_stream::pending()).await)
        }
        Limit::DecisionStreams => {
            let open = client.decide(tokio_stream::pending()).await;
            let _open = open.expect("the first");
            refusal(client.decide(tokio_stream::pending()).await)
        }
        Limit::StreamQuestions => {
            client
                .update_snapshot(batch([]))
                .await
                .expect("an empty batch");
            unanswered(&mut client).await
        }
        Limit::HealthWatches => {
            let _open = streams::watch(channel.clone(), "").await;
            let request = HealthCheckRequest::default();
            refusal(HealthClient::new(channel).watch(request).await)
        }
        Limit::ReflectionStreams => {
            let mut reflection = ServerReflectionClient::new(channel);
            let open = reflection.server_reflection_info(tokio_stream::pending());
            let _open = open.await.expect("the first");
            refusal(
                reflection
                    .server_reflection_info(tokio_stream::pending())
                    .await,
            )
        }
        Limit::HealthChecks => {
            let mut all = JoinSet::new();
            // One caller has a little more than half of them.
            for _ in 0..600 {
                let channel = channel.clone();
                all.spawn(async move { unfinished_check(channel).await });
            }
            first_refused(all).await
        }
        Limit::ViewBytes
        | Limit::QuestionBytes
        | Limit::RunningDecisions
        | Limit::CallsPerConnection => {
            panic!("nobody is refused for {limit:?}")
        }
    };
    assert_over(limit.name(), &status);
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

/// Asks two questions of a stream that wait; why the second one is refused.
async fn unanswered(client: &mut SpreadServiceClient<tonic::transport::Channel>) -> Status {
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

#[track_caller]
fn refusal<T>(answer: Result<T, Status>) -> Status {
    match answer {
        Ok(_) => panic!("it is not over the limit"),
        Err(status) => status,
    }
}

/// Asks until it is refused: what is in the way may not have arrived yet.
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

/// A health check whose request never comes.
async fn unfinished_check(channel: tonic::transport::Channel) -> Result<(), Status> {
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
    Some(ObjectMeta {
        name: name.into(),
        labels: [("app".into(), name.into())].into(),
        ..ObjectMeta::default()
    })
}

fn node(name: &str) -> change::Object {
    change::Object::Node(Node {
        metadata: metadata(name),
        ..Node::default()
    })
}

fn stored(name: &str) -> change::Object {
    change::Object::Pod(Pod {
        metadata: metadata(name),
        ..Pod::default()
    })
}

fn service(name: &str) -> change::Object {
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

fn batch<const N: usize>(objects: [change::Object; N]) -> UpdateSnapshotRequest {
    let change = |object| Change {
        object: Some(object),
    };
    UpdateSnapshotRequest {
        changes: objects.map(change).into(),
        ..UpdateSnapshotRequest::default()
    }
}

/// Two nodes.
async fn fill(client: &mut SpreadServiceClient<tonic::transport::Channel>) {
    let nodes = UpdateSnapshotRequest {
        mode: Mode::Replace.into(),
        ..batch(["a", "b"].map(node))
    };
    client.update_snapshot(nodes).await.expect("two nodes");
}

fn pod(spec: PodSpec) -> Option<Pod> {
    Some(Pod {
        metadata: metadata("web"),
        spec: Some(spec),
        ..Pod::default()
    })
}

fn filter() -> FilterRequest {
    FilterRequest {
        pod: pod(PodSpec::default()),
        ..FilterRequest::default()
    }
}

fn place() -> PlaceRequest {
    PlaceRequest {
        pod: pod(PodSpec::default()),
        replicas: 2,
        ..PlaceRequest::default()
    }
}

/// `docs/api.md` has a row for each limit with a flag, and for nothing else.
#[test]
fn the_document_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");
    let document = std::fs::read_to_string(path).expect("it can be read");
    let (_, section) = document.split_once("\n## Limits\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut told = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `--")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let flags = cells[1].split(", ").map(|flag| flag.trim_matches('`'));
        for name in flags.filter_map(|flag| flag.strip_prefix("--")) {
            let Some(limit) = Limit::named(name) else {
                assert_eq!(name, "max-reservation-ttl", "--{name} is no limit");
                continue;
            };
            if let Some(default) = limit.row().default {
                assert_eq!(cells[2].replace(',', ""), default.to_string(), "{row}");
            }
            told.insert(limit.name());
        }
    }
    let with_flag = Limit::ALL
        .iter()
        .filter(|limit| limit.row().heading != Heading::None);
    assert_eq!(told, with_flag.map(|limit| limit.name()).collect());
}
