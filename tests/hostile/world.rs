//! The other clients of an attacked server.

use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::{
    Change, FilterRequest, LabelSelector, Node, ObjectMeta, PlaceRequest, Pod, PodSpec,
    TopologySpreadConstraint, UpdateSnapshotRequest, change,
};
use tokio::sync::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::{ErrorInfo, StatusExt};

use crate::process::Server;
use crate::raw::Connection;

/// The longest wait on a machine that has other work, in milliseconds.
pub(crate) const LONGEST_MS: f64 = 750.0;

/// Held while one attack is measured.
pub(crate) static MEASURING: Mutex<()> = Mutex::const_new(());

pub(crate) type Client = SpreadServiceClient<Channel>;

/// A connection on which a server sends `window` bytes of each answer before it has to wait.
pub(crate) async fn connect(server: &Server, window: u32) -> Connection {
    let connection = Connection::open(server.address(), window).await;
    connection.expect("it is accepted")
}

/// Checks that health answers.
pub(crate) async fn assert_healthy(channel: Channel) {
    let checked = HealthClient::new(channel)
        .check(HealthCheckRequest::default())
        .await;
    checked.expect("health answers");
}

/// Checks that a small Filter is answered.
pub(crate) async fn assert_answered(client: &mut Client) {
    let answer = client.filter(question("web")).await;
    answer.expect("a valid question");
}

/// A question that counts the pods with the label `app: NAME`.
pub(crate) fn question(app: &str) -> FilterRequest {
    FilterRequest {
        pod: Some(spread_pod(app)),
        ..FilterRequest::default()
    }
}

/// A pod that spreads over zones with the pods of the same label.
pub(crate) fn spread_pod(app: &str) -> Pod {
    let labels = [("app".to_owned(), app.to_owned())];
    Pod {
        metadata: Some(ObjectMeta {
            name: "incoming".into(),
            labels: labels.clone().into(),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            topology_spread_constraints: vec![TopologySpreadConstraint {
                max_skew: 1,
                topology_key: "zone".into(),
                when_unsatisfiable: "DoNotSchedule".into(),
                label_selector: Some(LabelSelector {
                    match_labels: labels.into(),
                    ..LabelSelector::default()
                }),
                ..TopologySpreadConstraint::default()
            }],
            ..PodSpec::default()
        }),
        ..Pod::default()
    }
}

/// Puts `count` nodes in ten zones.
pub(crate) async fn fill(client: &mut Client, count: usize) {
    let node = |number: usize| Change {
        object: Some(change::Object::Node(Node {
            metadata: Some(ObjectMeta {
                name: format!("node-{number}"),
                labels: [("zone".to_owned(), format!("zone-{}", number % 10))].into(),
                ..ObjectMeta::default()
            }),
            ..Node::default()
        })),
    };
    let batch = UpdateSnapshotRequest {
        changes: (0..count).map(node).collect(),
        ..UpdateSnapshotRequest::default()
    };
    client.update_snapshot(batch).await.expect("valid nodes");
}

/// A `Place` that takes long.
pub(crate) fn long_place() -> PlaceRequest {
    PlaceRequest {
        pod: Some(spread_pod("web")),
        replicas: 100_000,
        ..PlaceRequest::default()
    }
}

/// Returns the details of a refusal that are for programs.
#[track_caller]
pub(crate) fn info_of(status: &Status) -> ErrorInfo {
    let info = status.get_details_error_info();
    info.expect("all errors have one")
}

/// The limit that a refusal names.
pub(crate) fn limit_of(status: &Status) -> Option<String> {
    let mut info = status.get_details_error_info()?;
    info.metadata.remove("limit")
}

/// Checks the code and the reason of a refusal.
#[track_caller]
pub(crate) fn assert_refused(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status}");
    assert_eq!(info_of(status).reason, reason, "{status}");
}
