//! Bad requests, which are sent one after the other, and the checks of their refusals.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::proto::v1::{ListSnapshotsRequest, Snapshot};
use prost::Message;
use serde::de::DeserializeOwned;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::bad_input::descriptors::Protocol;
use support::build::{ZONE, node, on, pod};
use support::model::Stored;
use support::server::Server;

/// Longer than any refusal takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that must be refused.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) method: String,
    pub(crate) message: Vec<u8>,
    pub(crate) code: Code,
    /// The paths of all field violations.
    pub(crate) faults: Vec<String>,
    /// The text that the message must contain.
    pub(crate) says: String,
}

/// A request that must be refused as invalid, with exactly these paths.
pub(crate) fn invalid(
    what: impl Into<String>,
    method: &str,
    request: &impl Message,
    faults: &[impl AsRef<str>],
) -> Row {
    Row {
        what: what.into(),
        method: method.into(),
        message: request.encode_to_vec(),
        code: Code::InvalidArgument,
        faults: faults.iter().map(|it| it.as_ref().to_owned()).collect(),
        says: String::new(),
    }
}

/// The rows of a table beside this file.
pub(crate) fn table<T: DeserializeOwned>(name: &str) -> Vec<T> {
    let root = env!("CARGO_MANIFEST_DIR");
    let text = std::fs::read_to_string(format!("{root}/tests/service/bad_input/{name}.yaml"));
    let rows: serde_json::Value = serde_saphyr::from_str(&text.expect("a file")).expect("YAML");
    serde_json::from_value(rows).expect("rows")
}

pub(crate) async fn connect(server: &Server) -> Channel {
    let connected = server.endpoint().connect().await;
    connected.expect("the server listens")
}

/// A server that knows two nodes and a pod as the snapshot `default`.
pub(crate) async fn server() -> Server {
    let server = Server::start().await;
    let nodes = [node("n0", &[(ZONE, "a")]), node("n1", &[(ZONE, "b")])];
    let mut changes: Vec<_> = nodes.into_iter().map(Stored::change).collect();
    changes.push(on(pod("p0", &[("app", "web")]), "n0").change());
    server.update("", changes).await;
    server
}

/// All that can be seen of the snapshot `default`, and the names of all snapshots.
pub(crate) async fn state(server: &Server) -> (Vec<Vec<u8>>, Snapshot, Vec<String>) {
    let export = server.export("").await;
    let export = export.iter().map(Message::encode_to_vec).collect();
    let everything = ListSnapshotsRequest::default();
    let list = server.list_snapshots(everything).await;
    let names = list.snapshots.into_iter().map(|s| s.name).collect();
    let snapshot = server.describe("").await;
    (export, snapshot, names)
}

/// Sends every request and reports all rows that went wrong at once.
pub(crate) async fn refused(server: &Server, rows: Vec<Row>) {
    let (protocol, channel) = (Protocol::read(), connect(server).await);
    let before = state(server).await;
    let mut wrong = Vec::new();
    for row in rows {
        let what = format!("{}, {}", row.method, row.what);
        let call = protocol.calls.iter().find(|call| call.name == row.method);
        let call = call.unwrap_or_else(|| panic!("{what}: there is no such method"));
        match call.send(&channel, row.message.clone(), PATIENCE).await {
            Ok(()) => wrong.push(format!("{what}: accepted")),
            Err(status) => wrong.extend(faults(&what, &status, &row)),
        }
        if state(server).await != before {
            wrong.push(format!("{what}: the state is another"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn faults(what: &str, status: &Status, row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    let (code, message) = (status.code(), status.message());
    if code != row.code || !message.contains(&row.says) {
        faults.push(format!("{what}: {code:?} instead of {row:?}: {message}"));
    }
    let details = status.get_error_details();
    let info = details.error_info();
    let known = info.is_some_and(|info| {
        let upper_snake = |c: char| c.is_ascii_uppercase() || c == '_';
        info.domain == "evenkeel" && !info.reason.is_empty() && info.reason.chars().all(upper_snake)
    });
    if !known {
        faults.push(format!("{what}: ErrorInfo is {info:?}"));
    }
    let violations = details
        .bad_request()
        .map_or(&[][..], |b| &b.field_violations);
    if violations.iter().any(|v| v.description.is_empty()) {
        faults.push(format!("{what}: a violation says nothing: {violations:?}"));
    }
    let got: BTreeSet<&str> = violations.iter().map(|v| v.field.as_str()).collect();
    let wanted: BTreeSet<&str> = row.faults.iter().map(String::as_str).collect();
    if got != wanted {
        faults.push(format!("{what}: {got:?} instead of {wanted:?}"));
    }
    faults
}
