//! Bad requests, which are sent one after the other, and the checks of their refusals.

use std::collections::BTreeSet;
use std::fmt::Debug;

use evenkeel::proto::v1::{
    FilterRequest, ListSnapshotsRequest, ScoreRequest, Snapshot, StreamSnapshotRequest,
    UpdateSnapshotRequest, stream_snapshot_request::Step,
};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use support::build::{ZONE, node, on, pod};
use support::model::Stored;
use support::server::Server;

/// A request that must be refused.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Update(UpdateSnapshotRequest),
    /// A batch, as the only step of a stream.
    Stream(UpdateSnapshotRequest),
    Filter(FilterRequest),
    Score(ScoreRequest),
}

/// The refusal that is expected.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    /// Paths of all field violations; none for other errors.
    pub(crate) fields: Vec<String>,
    /// The text that the message must contain.
    pub(crate) mentions: &'static str,
}

impl Refusal {
    /// INVALID_ARGUMENT with exactly these field paths.
    pub(crate) fn invalid<S: AsRef<str>>(fields: &[S]) -> Self {
        Self {
            code: Code::InvalidArgument,
            fields: fields.iter().map(|f| f.as_ref().to_owned()).collect(),
            mentions: "",
        }
    }

    /// Another code, with a word that the message must have.
    pub(crate) fn of(code: Code, mentions: &'static str) -> Self {
        Self {
            code,
            fields: Vec::new(),
            mentions,
        }
    }
}

/// A name, a bad request, and its refusal.
pub(crate) type Row = (String, Call, Refusal);

/// A request that must be refused with exactly these field paths.
pub(crate) fn invalid<S: AsRef<str>>(name: impl Into<String>, call: Call, fields: &[S]) -> Row {
    (name.into(), call, Refusal::invalid(fields))
}

/// A server that knows a small cluster as the snapshot `default`.
pub(crate) async fn server() -> Server {
    let server = Server::start().await;
    fill(&server).await;
    server
}

/// Gives the server two nodes and a pod.
pub(crate) async fn fill(server: &Server) {
    let nodes = [node("n0", &[(ZONE, "a")]), node("n1", &[(ZONE, "b")])];
    let mut changes: Vec<_> = nodes.into_iter().map(Stored::change).collect();
    changes.push(on(pod("p0", &[("app", "web")]), "n0").change());
    server.update("", changes).await;
}

/// All that can be seen of the snapshot `default`, and the names of all snapshots.
pub(crate) async fn state(server: &Server) -> (Vec<Vec<u8>>, Snapshot, Vec<String>) {
    let export = server.export("").await;
    let export = export.iter().map(Message::encode_to_vec).collect();
    let everything = ListSnapshotsRequest::default();
    let list = server.client().list_snapshots(everything).await;
    let list = list.expect("a list").into_inner();
    let names = list.snapshots.into_iter().map(|s| s.name).collect();
    let snapshot = server.describe("").await;
    (export, snapshot, names)
}

/// Sends every request and reports all rows that went wrong at once.
pub(crate) async fn refused(server: &Server, rows: Vec<Row>) {
    let before = state(server).await;
    let mut wrong = Vec::new();
    for (name, call, want) in rows {
        match send(server, call).await {
            Ok(answer) => wrong.push(format!("{name}: accepted: {answer}")),
            Err(status) => wrong.extend(faults(&name, &status, &want)),
        }
        if state(server).await != before {
            wrong.push(format!("{name}: the state is another"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Sends a request. Returns the answer as text.
pub(crate) async fn send(server: &Server, call: Call) -> Result<String, Status> {
    fn text<T: Debug>(answer: tonic::Response<T>) -> String {
        format!("{:?}", answer.into_inner())
    }
    let mut client = server.client();
    match call {
        Call::Update(request) => client.update_snapshot(request).await.map(text),
        Call::Filter(request) => client.filter(request).await.map(text),
        Call::Score(request) => client.score(request).await.map(text),
        Call::Stream(update) => {
            let step = StreamSnapshotRequest {
                step: Some(Step::Update(update)),
            };
            let answers = client.stream_snapshot(tokio_stream::once(step)).await?;
            let first = answers.into_inner().message().await?;
            Ok(format!("{first:?}"))
        }
    }
}

fn faults(name: &str, status: &Status, want: &Refusal) -> Vec<String> {
    let mut faults = Vec::new();
    if status.code() != want.code {
        let (code, message) = (status.code(), status.message());
        faults.push(format!(
            "{name}: {code:?} instead of {:?}: {message}",
            want.code
        ));
    }
    if !status.message().contains(want.mentions) {
        faults.push(format!(
            "{name}: the message does not name {}: {}",
            want.mentions,
            status.message()
        ));
    }
    let details = status.get_error_details();
    let info = details.error_info();
    let known = info.is_some_and(|info| {
        let upper_snake = |c: char| c.is_ascii_uppercase() || c == '_';
        info.domain == "evenkeel" && !info.reason.is_empty() && info.reason.chars().all(upper_snake)
    });
    if !known {
        faults.push(format!("{name}: ErrorInfo is {info:?}"));
    }
    let violations = details
        .bad_request()
        .map_or(&[][..], |b| &b.field_violations);
    if violations.iter().any(|v| v.description.is_empty()) {
        faults.push(format!("{name}: a violation says nothing: {violations:?}"));
    }
    let got: BTreeSet<&str> = violations.iter().map(|v| v.field.as_str()).collect();
    let wanted: BTreeSet<&str> = want.fields.iter().map(String::as_str).collect();
    if got != wanted {
        faults.push(format!("{name}: {got:?} instead of {wanted:?}"));
    }
    faults
}
