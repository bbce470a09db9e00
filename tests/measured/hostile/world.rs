//! The other clients of an attacked server.

use evenkeel::proto::v1::{FilterRequest, PlaceRequest, Pod};
use support::build::{filter_of, hard, place_of, plain_node, pod, spread, update_of};
use support::model::Stored;
use tokio::sync::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::hostile::beside::Bystanders;
use crate::hostile::process::Server;
use crate::hostile::raw::Connection;

/// The longest wait on a machine that has other work, in milliseconds.
pub(crate) const LONGEST_MS: f64 = 750.0;

/// Held while one attack is measured.
pub(crate) static MEASURING: Mutex<()> = Mutex::const_new(());

pub(crate) use support::caller::Client;
pub(crate) use support::refusal::limit as limit_of;

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

/// Checks that health and small questions beside an attack are answered, and none waits for long.
#[track_caller]
pub(crate) fn assert_not_held_up(bystanders: Bystanders, attack: &str) {
    let (health, filter) = bystanders.stop();
    for (who, waits) in [("health", health), ("a small Filter", filter)] {
        assert!(waits.failures().is_empty(), "{attack}: {who}: {waits:?}");
        let longest = waits.longest();
        assert!(
            longest < LONGEST_MS,
            "{attack}: {who} waited {longest:.0} ms"
        );
    }
}

/// Checks that a small Filter is answered.
pub(crate) async fn assert_answered(client: &mut Client) {
    let answer = client.filter(question("web")).await;
    answer.expect("a valid question");
}

/// A question that counts the pods with the label `app: NAME`.
pub(crate) fn question(app: &str) -> FilterRequest {
    filter_of(spread_pod(app))
}

/// A pod that spreads over zones with the pods of the same label.
pub(crate) fn spread_pod(app: &str) -> Pod {
    let labels = [("app", app)];
    spread(pod("incoming", &labels), vec![hard(1, "zone", &labels)])
}

/// Puts `count` nodes in ten zones.
pub(crate) async fn fill(client: &mut Client, count: usize) {
    let node = |number: usize| {
        let zone = format!("zone-{}", number % 10);
        plain_node(&format!("node-{number}"), &[("zone", &zone)]).change()
    };
    let batch = update_of((0..count).map(node).collect());
    client.update_snapshot(batch).await.expect("valid nodes");
}

/// A `Place` that takes long.
pub(crate) fn long_place() -> PlaceRequest {
    place_of(spread_pod("web"), 100_000)
}

/// Checks the code and the reason of a refusal.
#[track_caller]
pub(crate) fn assert_refused(status: &Status, code: Code, reason: &str) {
    assert_eq!(status.code(), code, "{status}");
    assert_eq!(
        support::refusal::reason(status).as_deref(),
        Some(reason),
        "{status}"
    );
}
