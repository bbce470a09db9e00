//! Every number and every time of every request at its extremes. The fields come from the
//! protocol's descriptors, so a new field is tried without being named here.

use std::time::Duration;

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{UpdateSnapshotRequest, VerifySnapshotRequest};
use futures::StreamExt;
use prost_types::FieldDescriptorProto;
use prost_types::field_descriptor_proto::Type;
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::bad_input::descriptors::{Call, FieldPath, Protocol, bytes_of, fixed_of, varint_of};
use crate::bad_input::process::Server;
use support::build::{having, node, on, pod, requesting, update_of};
use support::model::Stored;

/// The number of calls that are under way at once.
const AT_ONCE: usize = 16;

/// The longest time that a call may take. Calls that wait for a revision take as long.
const PATIENCE: Duration = Duration::from_secs(5);

const INTEGERS: [i64; 8] = [
    0,
    1,
    -1,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    i64::MAX,
    i64::MIN,
];

const SECONDS: [i64; 5] = [0, 1, -1, i64::MAX, i64::MIN];

const NANOS: [i64; 6] = [
    0,
    -1,
    999_999_999,
    1_000_000_000,
    i32::MAX as i64,
    i32::MIN as i64,
];

const FLOATS: [f64; 5] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MIN,
    f64::MAX,
];

fn bits(number: i64) -> u64 {
    number.cast_unsigned()
}

fn zigzag(number: i64) -> u64 {
    bits((number << 1) ^ (number >> 63))
}

/// The extremes of a field, each with its name and encoding; none for a text or another
/// message.
fn extremes(field: &FieldDescriptorProto) -> Vec<(String, Vec<u8>)> {
    let number = field.number();
    let each = |encode: &dyn Fn(i64) -> Vec<u8>| {
        let values = INTEGERS.iter();
        values
            .map(|value| (value.to_string(), encode(*value)))
            .collect()
    };
    let floats = |encode: &dyn Fn(f64) -> Vec<u8>| {
        let values = FLOATS.iter();
        values
            .map(|value| (value.to_string(), encode(*value)))
            .collect()
    };
    match field.r#type() {
        Type::Int32 | Type::Int64 | Type::Uint32 | Type::Uint64 | Type::Enum | Type::Bool => {
            each(&|value| varint_of(number, bits(value)))
        }
        Type::Sint32 | Type::Sint64 => each(&|value| varint_of(number, zigzag(value))),
        Type::Fixed64 | Type::Sfixed64 => each(&|value| fixed_of(number, &value.to_le_bytes())),
        Type::Fixed32 | Type::Sfixed32 => {
            each(&|value| fixed_of(number, &value.to_le_bytes()[..4]))
        }
        Type::Double => floats(&|value| fixed_of(number, &value.to_le_bytes())),
        Type::Float => floats(&|value| fixed_of(number, &(value as f32).to_le_bytes())),
        Type::Message if is_time(field) => times(number),
        Type::Message | Type::Group | Type::String | Type::Bytes => Vec::new(),
    }
}

fn is_time(field: &FieldDescriptorProto) -> bool {
    let times = [".google.protobuf.Duration", ".google.protobuf.Timestamp"];
    times.contains(&field.type_name())
}

fn times(number: i32) -> Vec<(String, Vec<u8>)> {
    let pairs = SECONDS.iter().flat_map(|s| NANOS.map(|n| (*s, n)));
    let times = pairs.map(|(seconds, nanos)| {
        let parts = [varint_of(1, bits(seconds)), varint_of(2, bits(nanos))].concat();
        let name = format!("{seconds} s and {nanos} ns");
        (name, bytes_of(number, &parts))
    });
    times.collect()
}

/// A field, and the call whose request has it.
struct Case<'a> {
    call: &'a Call,
    path: FieldPath<'a>,
}

impl Case<'_> {
    /// Sends the extremes of the field, and returns those that are judged wrongly.
    async fn faults(&self, channel: &Channel) -> Vec<String> {
        let mut found = Vec::new();
        let without = self.path.request(self.call, &[]);
        let is_valid = self.call.send(channel, without, PATIENCE).await.is_ok();
        for (value, content) in extremes(self.path.field()) {
            let request = self.path.request(self.call, &content);
            let answer = self.call.send(channel, request, PATIENCE).await;
            if let Err(status) = answer
                && !self.is_judged(&status, is_valid)
            {
                let (call, path) = (&self.call.name, self.path.name());
                found.push(format!("{call} {path}: {value}: {status:?}"));
            }
        }
        found
    }

    /// Returns whether a refusal blames the request, and names the field if all else in the request
    /// is valid.
    fn is_judged(&self, status: &Status, is_valid: bool) -> bool {
        let (name, field) = (self.path.name(), self.path.field().json_name());
        match status.code() {
            // The deadline of the client may pass first.
            Code::DeadlineExceeded | Code::Cancelled => {
                field == "minRevision" || name.contains("timeout")
            }
            Code::ResourceExhausted => true,
            Code::NotFound | Code::FailedPrecondition | Code::Aborted => true,
            Code::InvalidArgument => {
                let faults = status.get_details_bad_request();
                let faults = faults.map_or(Vec::new(), |faults| faults.field_violations);
                // The paths of a stream begin with the kind of question; a time is named as a
                // whole.
                let is_named = |path: &str| name.contains(path) || path.ends_with(field);
                let mut paths = faults.iter().map(|fault| fault.field.as_str());
                match is_valid {
                    true => paths.any(is_named),
                    false => paths.next().is_some(),
                }
            }
            _ => false,
        }
    }
}

/// Nodes in zones, with pods on them that the examples of constraints count.
fn cluster() -> UpdateSnapshotRequest {
    let name = |number| format!("node-{number}");
    let nodes = (0..6).map(|number| {
        let zone = format!("zone-{}", number % 3);
        let node = node(&name(number), &[("zone", &zone)]);
        having(node, &[("cpu", "4"), ("pods", "10")]).change()
    });
    let pods = (0..4).map(|number| {
        let pod = requesting(pod(&format!("pod-{number}"), &[]), &[("cpu", "1")]);
        on(pod, &name(number)).change()
    });
    update_of(nodes.chain(pods).collect())
}

/// Sends all extremes to a server with these flags. Checks that it judges them all and is sound
/// afterwards.
async fn try_all(flags: &[&str]) -> Server {
    let server = Server::start(flags);
    let channel = server.channel();
    let mut client = SpreadServiceClient::new(channel.clone());
    let filled = client.update_snapshot(cluster()).await;
    filled.expect("a valid batch");
    let protocol = Protocol::read();
    let mut cases = Vec::new();
    for call in &protocol.calls {
        let fields = protocol.fields(&call.request).into_iter();
        let numbers = fields.filter(|path| !extremes(path.field()).is_empty());
        cases.extend(numbers.map(|path| Case { call, path }));
    }
    assert!(cases.len() > 300, "{} numbers", cases.len());
    // Questions come before calls that change the snapshot.
    let (change, ask): (Vec<_>, Vec<_>) = cases
        .iter()
        .partition(|case| case.call.name.ends_with("Snapshot"));
    let mut faults = Vec::new();
    for cases in [ask, change] {
        let judged = futures::stream::iter(cases).map(|case| case.faults(&channel));
        let found: Vec<Vec<String>> = judged.buffer_unordered(AT_ONCE).collect().await;
        faults.extend(found.concat());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let verified = client.verify_snapshot(VerifySnapshotRequest::default());
    let verified = verified.await.expect("it is there").into_inner();
    assert_eq!(verified.mismatch_count, 0, "{verified:?}");
    assert_no_panic(&server);
    server
}

#[track_caller]
fn assert_no_panic(server: &Server) {
    let lines = server.lines();
    let panic = lines.iter().find(|line| line.contains("panicked"));
    assert_eq!(panic, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_are_answered_or_refused() {
    try_all(&["--max-age", "1h"]).await;
}

/// The same with a state directory and a decision log: the stored changes are read after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_are_stored_or_refused() {
    let home = TempDir::new().expect("a directory");
    let path = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let (state, log) = (path("state"), path("decisions"));
    let flags = ["--state-dir", &state, "--decision-log", &log];
    let flags = [&flags[..], &["--decision-log-sample", "1"]].concat();
    let server = try_all(&flags).await;
    server.signal("KILL");
    drop(server);
    let again = Server::start(&flags);
    let mut client = SpreadServiceClient::new(again.channel());
    let verified = client.verify_snapshot(VerifySnapshotRequest::default());
    let verified = verified.await.expect("it is there").into_inner();
    assert_eq!(verified.mismatch_count, 0, "{verified:?}");
    assert_no_panic(&again);
}
