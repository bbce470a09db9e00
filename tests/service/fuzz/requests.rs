//! Bytes as the calls of a client: each is refused properly or answered, answers equal a recount,
//! and the state that is left is sound.

use std::time::Duration;
use support::model;

use bytes::Bytes;
use evenkeel::api::Service;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::spread_service_server::SpreadServiceServer;
use evenkeel::proto::v1::{
    Dialect, ExportSnapshotRequest, FilterRequest, ListSnapshotsRequest, NodeChecks, ScoreRequest,
    Snapshot, UpdateSnapshotRequest, VerifySnapshotRequest, View,
};
use evenkeel::snapshot::Limits;
use prost::Message;
use support::recount::Cluster;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use support::agree::{self, Question};
use support::build::replace_of;
use support::calls::{Call, runtime};
use support::server::unobserved;

/// All methods of the service, by the byte that stands for them in an input. New methods go to the
/// end, so that existing inputs keep their meaning.
pub const METHODS: [&str; 22] = [
    "UpdateSnapshot",
    "StreamSnapshot",
    "Filter",
    "Score",
    "Place",
    "ConfirmReservations",
    "ReleaseReservations",
    "ListReservations",
    "GetSnapshot",
    "ListSnapshots",
    "DeleteSnapshot",
    "ExportSnapshot",
    "VerifySnapshot",
    "Explain",
    "DescribeSpread",
    "RenewReservations",
    "Decide",
    "RankRemovals",
    "ReservePods",
    "ListNodes",
    "Rebalance",
    "PlanNodes",
];

/// The methods that only read. The others go on when their client no longer waits.
const READING: [&str; 12] = [
    "Filter",
    "Score",
    "GetSnapshot",
    "ListSnapshots",
    "ListReservations",
    "ExportSnapshot",
    "Explain",
    "DescribeSpread",
    "RankRemovals",
    "ListNodes",
    "Rebalance",
    "PlanNodes",
];

/// The longest time that a call may take.
const PATIENCE: Duration = Duration::from_millis(20);

/// Room for more methods. Bytes that stand for none are skipped.
const SLOTS: usize = 32;

type Client = SpreadServiceClient<SpreadServiceServer<Service>>;

/// The input is a list of calls: the method, the length of the message (two bytes), the message. A
/// call of a stream takes all messages that follow for its method.
pub fn check(input: &[u8]) {
    runtime().block_on(async {
        let limits = Limits {
            max_replicas: 200,
            max_step_scores: 2_000,
            max_snapshots: 4,
            ..Limits::default()
        };
        let service = Service::new(unobserved(limits), Default::default());
        let server = SpreadServiceServer::new(service);
        for call in calls(input) {
            let client = SpreadServiceClient::new(server.clone());
            let answer = call.send(server.clone(), PATIENCE).await;
            if let Err(status) = &answer {
                properly_refused(&call, status);
                if status.code() == Code::DeadlineExceeded && !READING.contains(&call.method) {
                    // On a busy machine a change may still be under way, so the state is not known
                    // meanwhile.
                    return;
                }
            } else if call.method == "Filter" {
                recounted_filter(client, &call.messages[0]).await;
            } else if call.method == "Score" {
                recounted_score(client, &call.messages[0]).await;
            }
        }
        sound(SpreadServiceClient::new(server)).await;
    });
}

fn calls(mut input: &[u8]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    while let [method, high, low, rest @ ..] = input {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        input = rest;
        let Some(method) = METHODS.get(usize::from(*method) % SLOTS) else {
            continue;
        };
        let message = Bytes::copy_from_slice(message);
        match calls.last_mut() {
            Some(last)
                if last.method == *method && ["StreamSnapshot", "Decide"].contains(method) =>
            {
                last.messages.push(message);
            }
            _ => calls.push(Call {
                method,
                messages: vec![message],
            }),
        }
    }
    calls
}

/// Checks that a refusal has one of the documented codes and says why in its details. Bytes that
/// are no message have no faults to list.
fn properly_refused(call: &Call, status: &Status) {
    let undecodable = [Code::Internal, Code::InvalidArgument].contains(&status.code());
    if undecodable && status.message().contains("failed to decode") {
        return;
    }
    let known = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::Aborted,
        Code::FailedPrecondition,
        Code::ResourceExhausted,
        Code::DeadlineExceeded,
    ];
    assert!(known.contains(&status.code()), "{status:?} to {call:?}");
    let details = status.get_error_details();
    assert!(details.error_info().is_some(), "{status:?} to {call:?}");
    let invalid = status.code() == Code::InvalidArgument;
    assert!(
        !invalid || details.bad_request().is_some(),
        "{status:?} to {call:?}"
    );
}

/// Returns the objects of the snapshot, with an overlay. `None` if the snapshot has reservations,
/// which count too.
async fn cluster(
    client: Client,
    snapshot: &str,
    overlay: &[evenkeel::proto::v1::Change],
) -> Option<Cluster> {
    let described = describe(client.clone()).await;
    let name = if snapshot.is_empty() {
        "default"
    } else {
        snapshot
    };
    let described = described.iter().find(|s| s.name == name)?;
    if described.reservation_count > 0 {
        return None;
    }
    let mut cluster = Cluster::default();
    for part in export(client, snapshot).await {
        part.changes
            .iter()
            .for_each(|change| model::apply(&mut cluster, change));
        cluster.defaults = part.default_constraints.unwrap_or(cluster.defaults);
        cluster.kubernetes_version += &part.kubernetes_version;
    }
    overlay
        .iter()
        .for_each(|change| model::apply(&mut cluster, change));
    Some(cluster)
}

/// Asks again for the full view, unless in the Fleet dialect, and compares the answer with a
/// recount.
macro_rules! recounted {
    ($name:ident: $request:ty, $rpc:ident, $place:literal $(, $all:ident)?) => {
        async fn $name(mut client: Client, message: &[u8]) {
            let mut request = <$request>::decode(message).expect("it was answered");
            if request.dialect == Dialect::Fleet as i32 {
                return;
            }
            request.view = View::Full as i32;
            request.max_domains = Some(0);
            request.min_revision = 0;
            request.epoch.clear();
            $(request.$all = 0;)?
            let got = client.$rpc(request.clone()).await;
            let got = got.expect("it was answered").into_inner();
            let pod = request.pod.unwrap_or_default();
            let Some(cluster) = cluster(client, &request.snapshot, &request.overlay).await else {
                return;
            };
            let candidates = request.candidates.map(|candidates| candidates.names);
            let checks = NodeChecks::try_from(request.node_checks).expect("it was answered");
            let about = Question {
                cluster: &cluster,
                pod: &pod,
                place: $place,
            };
            let recounted = cluster.$rpc(&pod, candidates.as_deref(), checks);
            agree::$rpc(&got, &recounted, &about);
        }
    };
}

recounted!(recounted_filter: FilterRequest, filter, "Filter");
recounted!(recounted_score: ScoreRequest, score, "Score", top);

/// Checks that no kept view differs from a recount, and that an export can be sent back and is
/// exported alike.
async fn sound(mut client: Client) {
    for snapshot in describe(client.clone()).await {
        let request = VerifySnapshotRequest {
            snapshot: snapshot.name.clone(),
        };
        let verified = client
            .verify_snapshot(request)
            .await
            .expect("it exists")
            .into_inner();
        assert_eq!(verified.mismatch_count, 0, "{:?}", verified.mismatches);
        let parts = export(client.clone(), &snapshot.name).await;
        let request = UpdateSnapshotRequest {
            default_constraints: parts
                .iter()
                .find_map(|part| part.default_constraints.clone()),
            kubernetes_version: parts
                .iter()
                .map(|part| part.kubernetes_version.clone())
                .collect(),
            ..replace_of(
                "restored",
                parts.iter().flat_map(|part| part.changes.clone()).collect(),
            )
        };
        let service = Service::new(unobserved(Limits::default()), Default::default());
        let mut other = SpreadServiceClient::new(SpreadServiceServer::new(service));
        other
            .update_snapshot(request)
            .await
            .expect("what was taken once is valid");
        let restored = export(other, "restored").await;
        let objects = |parts: &[UpdateSnapshotRequest]| -> Vec<Option<Object>> {
            parts
                .iter()
                .flat_map(|part| &part.changes)
                .map(|change| change.object.clone())
                .collect()
        };
        assert_eq!(objects(&restored), objects(&parts));
    }
}

async fn describe(mut client: Client) -> Vec<Snapshot> {
    let all = client.list_snapshots(ListSnapshotsRequest::default()).await;
    all.expect("a list").into_inner().snapshots
}

async fn export(mut client: Client, snapshot: &str) -> Vec<UpdateSnapshotRequest> {
    let request = ExportSnapshotRequest {
        snapshot: snapshot.into(),
    };
    let answer = client.export_snapshot(request).await;
    let mut stream = answer.expect("the snapshot exists").into_inner();
    let mut parts = Vec::new();
    while let Some(part) = stream.message().await.expect("the stream is whole") {
        parts.push(part.update.unwrap_or_default());
    }
    parts
}
