//! Traces of calls, as a collector receives them.

use evenkeel::proto::v1::{FilterRequest, ListSnapshotsRequest, UpdateSnapshotRequest};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{Span, span, status};
use support::build::{filter_of, hard, plain_node, pod, spread, update_of};
use support::model::Stored;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};

use crate::serving::process::{DEADLINE, Server};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A collector that hands on what it receives.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0
            .send(request.into_inner())
            .expect("the test receives");
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector on a free port: its URL, and the requests that it receives.
async fn collect() -> (String, mpsc::UnboundedReceiver<ExportTraceServiceRequest>) {
    let (sender, received) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(Collector(sender)))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(serve);
    (format!("http://{address}"), received)
}

/// Stops the server, which then sends the spans that wait, and returns all spans.
async fn spans(
    mut server: Server,
    mut received: mpsc::UnboundedReceiver<ExportTraceServiceRequest>,
) -> Vec<Span> {
    server.signal("TERM");
    assert!(server.exited().await.success());
    let mut spans = Vec::new();
    while let Ok(request) = received.try_recv() {
        for resource in request.resource_spans {
            let attributes = resource.resource.expect("a sender has a name").attributes;
            assert_eq!(text(&attributes, "service.name"), "evenkeel");
            let scopes = resource.scope_spans.into_iter();
            spans.extend(scopes.flat_map(|scope| scope.spans));
        }
    }
    spans
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> &'a Value {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    let value = found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref());
    value.unwrap_or_else(|| panic!("no {key} in {attributes:?}"))
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    match value(attributes, key) {
        Value::StringValue(text) => text,
        other => panic!("{key} is {other:?}"),
    }
}

fn number(attributes: &[KeyValue], key: &str) -> i64 {
    match value(attributes, key) {
        Value::IntValue(number) => *number,
        other => panic!("{key} is {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start(collector: &str, more: &[&str]) -> Server {
    let mut all = vec!["--drain-pause", "0s", "--otlp-endpoint", collector];
    all.extend(more);
    Server::start(&all)
}

/// Three nodes in two zones.
fn nodes() -> UpdateSnapshotRequest {
    let node = |(name, zone)| plain_node(name, &[("zone", zone)]).change();
    update_of([("a", "x"), ("b", "x"), ("c", "y")].map(node).into())
}

/// A question with a hard constraint over zones.
fn question() -> FilterRequest {
    let constraints = vec![hard(1, "zone", &[])];
    filter_of(spread(pod("pod", &[("zone", "none")]), constraints))
}

/// A request of a caller that traces, or has decided not to.
fn within<T>(message: T, sampled: bool) -> Request<T> {
    let mut request = Request::new(message);
    let flags = if sampled { "01" } else { "00" };
    let parent = format!("00-{TRACE}-{CALLER}-{flags}");
    let parent = parent.parse().expect("letters and digits");
    request.metadata_mut().insert("traceparent", parent);
    request
}

#[tokio::test]
async fn a_call_is_a_span_of_its_callers_trace_with_the_decision_inside() {
    let (collector, received) = collect().await;
    // Calls without a caller's trace are not traced, so only spans of this test arrive.
    let server = start(&collector, &["--trace-ratio", "0"]);
    let mut client = server.client();
    client.update_snapshot(nodes()).await.expect("valid nodes");
    let answer = client.filter(within(question(), true)).await;
    answer.expect("a valid question");
    let unsampled = client.filter(within(question(), false)).await;
    unsampled.expect("a valid question");

    let spans = spans(server, received).await;
    assert_eq!(spans.len(), 2, "{spans:?}");
    let named = |name: &str| spans.iter().find(|span| span.name == name);
    let call = named("evenkeel.v1.SpreadService/Filter").expect("a span of the call");
    assert_eq!(hex(&call.trace_id), TRACE);
    assert_eq!(hex(&call.parent_span_id), CALLER);
    assert_eq!(call.kind(), span::SpanKind::Server);
    for (key, expected) in [
        ("rpc.system", "grpc"),
        ("rpc.service", "evenkeel.v1.SpreadService"),
        ("rpc.method", "Filter"),
    ] {
        assert_eq!(text(&call.attributes, key), expected);
    }
    assert_eq!(number(&call.attributes, "rpc.grpc.status_code"), 0);

    let decide = named("decide").expect("a span of the decision");
    assert_eq!(hex(&decide.trace_id), TRACE);
    assert_eq!(decide.parent_span_id, call.span_id);
    assert_eq!(number(&decide.attributes, "evenkeel.nodes"), 3);
    assert_eq!(number(&decide.attributes, "evenkeel.domains"), 2);
    assert_eq!(number(&decide.attributes, "evenkeel.feasible"), 3);
    assert!(call.start_time_unix_nano <= decide.start_time_unix_nano);
    assert!(decide.start_time_unix_nano <= decide.end_time_unix_nano);
    assert!(decide.end_time_unix_nano <= call.end_time_unix_nano);
}

#[tokio::test]
async fn calls_without_a_trace_begin_one_and_faults_are_marked() {
    let (collector, received) = collect().await;
    let server = start(&collector, &[]);
    let mut client = server.client();
    let unknown = client.filter(question()).await.expect_err("no snapshot");
    assert_eq!(unknown.code(), Code::NotFound);
    client.update_snapshot(nodes()).await.expect("valid nodes");
    let waits = FilterRequest {
        min_revision: 100,
        ..question()
    };
    let mut late = Request::new(waits);
    late.set_timeout(std::time::Duration::from_millis(50));
    client.filter(late).await.expect_err("no such revision");
    // When a later call on the connection is answered, the server is done with this one.
    let listed = client.list_snapshots(ListSnapshotsRequest::default()).await;
    listed.expect("a page");

    let spans = spans(server, received).await;
    assert!(spans.iter().all(|span| span.parent_span_id.is_empty()));
    let told: Vec<(&str, i64, bool)> = spans
        .iter()
        .map(|span| {
            let is_fault = span
                .status
                .as_ref()
                .is_some_and(|s| s.code() == status::StatusCode::Error);
            let code = number(&span.attributes, "rpc.grpc.status_code");
            (text(&span.attributes, "rpc.method"), code, is_fault)
        })
        .collect();
    assert_eq!(
        told[..2],
        [
            ("Filter", Code::NotFound as i64, false),
            ("UpdateSnapshot", 0, false)
        ]
    );
    let mut last = told[2..].to_vec();
    last.sort_unstable();
    assert_eq!(last.len(), 2);
    assert_eq!(last[1], ("ListSnapshots", 0, false));
    // The client may give up first, which cancels the call.
    let late = [
        ("Filter", Code::Cancelled as i64, false),
        ("Filter", Code::DeadlineExceeded as i64, true),
    ];
    assert!(late.contains(&last[0]), "{told:?}");
}

#[tokio::test]
async fn a_collector_that_is_gone_harms_no_call() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = gone.local_addr().expect("it is bound");
    drop(gone);
    let mut server = start(&format!("http://{address}"), &[]);
    let mut client = server.client();
    client.update_snapshot(nodes()).await.expect("valid nodes");
    client.filter(question()).await.expect("a valid question");
    server.signal("TERM");
    let exited = timeout(DEADLINE, server.exited()).await;
    assert!(exited.expect("in time").success());
}
