//! A server whose clock moves only when a test says so, and its reservations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::proto::v1::{
    AssignedPod, ConfirmReservationsRequest, Confirmation, FilterRequest, HeldPlacement,
    ListReservationsRequest, PlaceRequest, PlaceResponse, Pod, ReleaseReservationsRequest,
    RenewReservationsRequest, Reservation, ReservePodsRequest, ReservePodsResponse, ReservedPod,
    View,
};
use evenkeel::snapshot::Limits;
use tonic::{Response, Status};
use tonic_types::StatusExt;

use support::build::{ZONE, hard, node, place_of, pod, spread};
use support::model::Stored;
use support::server::Server;

/// Labels of the workload.
pub const WEB: [(&str, &str); 1] = [("app", "web")];

/// The time that reservations are held, unless a test says otherwise.
pub const TTL_SECONDS: u64 = 60;

/// A server with one node in each of two zones.
pub struct Held {
    /// The server.
    pub server: Server,
    now: Arc<AtomicU64>,
}

impl Held {
    /// Starts a server with the nodes `a` and `b`, and nothing on them.
    pub async fn start() -> Self {
        Self::with_limits(Limits::default()).await
    }

    /// As [`Self::start`], with these limits.
    pub async fn with_limits(limits: Limits) -> Self {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let told = Arc::clone(&now);
        let clock = move || time(told.load(Ordering::SeqCst));
        let server = Server::with_clock(limits, clock).await;
        let nodes = ["a", "b"].map(|name| node(name, &[(ZONE, name)]).change());
        server.update("", nodes.to_vec()).await;
        Self { server, now }
    }

    /// Lets time pass, and does not end what is over then.
    pub fn pass_unnoticed(&self, seconds: u64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Lets time pass, and ends what is over then.
    pub fn pass(&self, seconds: u64) {
        self.pass_unnoticed(seconds);
        let ended = self.server.registry.end_expired();
        ended.expect("there is no disk to wait for");
    }

    /// Places pods, and holds the places.
    pub async fn reserve(&self, replicas: i32) -> PlaceResponse {
        self.server.place(request(replicas)).await
    }

    /// Places and holds one pod, by a request that may come again.
    pub async fn reserve_as(&self, request_id: &str) -> PlaceResponse {
        let request = PlaceRequest {
            request_id: request_id.into(),
            ..request(1)
        };
        self.server.place(request).await
    }

    /// Reserves chosen nodes for pods.
    pub async fn assign(&self, pods: Vec<(Pod, &str)>) -> Result<ReservePodsResponse, Status> {
        let request = assignments("", pods);
        let response = self.server.client().reserve_pods(request).await;
        response.map(Response::into_inner)
    }

    /// Renews a reservation. Returns true if it was live.
    pub async fn renew(&self, id: &str, seconds: Option<u64>) -> bool {
        let request = RenewReservationsRequest {
            snapshot: String::new(),
            ids: vec![id.into()],
            ttl: seconds.map(|seconds| Duration::from_secs(seconds).into()),
        };
        let response = self.server.client().renew_reservations(request).await;
        let response = response.expect("a valid request").into_inner();
        response.unknown_ids.is_empty()
    }

    /// Says which pod a reservation became. Returns true if the reservation was live.
    pub async fn confirm(&self, id: &str, name: &str, uid: &str) -> bool {
        let request = ConfirmReservationsRequest {
            snapshot: String::new(),
            confirmations: vec![Confirmation {
                id: id.into(),
                pod: Some(ReservedPod {
                    name: name.into(),
                    uid: uid.into(),
                }),
            }],
        };
        let response = self.server.client().confirm_reservations(request).await;
        let response = response.expect("a valid request").into_inner();
        response.unknown_ids.is_empty()
    }

    /// Gives a reservation up. Returns true if it was live.
    pub async fn release(&self, id: &str) -> bool {
        let request = ReleaseReservationsRequest {
            snapshot: String::new(),
            ids: vec![id.into()],
        };
        let response = self.server.client().release_reservations(request).await;
        let response = response.expect("a valid request").into_inner();
        response.unknown_ids.is_empty()
    }

    /// Returns the reservations.
    pub async fn list(&self) -> Vec<HeldPlacement> {
        let request = ListReservationsRequest::default();
        let response = self.server.client().list_reservations(request).await;
        response.expect("a valid request").into_inner().reservations
    }

    /// Returns the count of each zone, in the order of their names.
    pub async fn counts(&self) -> [i64; 2] {
        counts(&self.server).await.0
    }
}

/// Returns the count of each zone, and the revision of the counts.
pub async fn counts(server: &Server) -> ([i64; 2], i64) {
    let request = FilterRequest {
        pod: Some(template()),
        view: View::Domains.into(),
        ..FilterRequest::default()
    };
    let mut counts = [0; 2];
    let answer = server.filter(request).await;
    for domain in &answer.constraints[0].domains {
        counts[usize::from(domain.value == "b")] = domain.matching_pods;
    }
    (counts, answer.revision)
}

/// The fields that a refusal names.
pub fn named(refused: &Status) -> Vec<String> {
    let faults = refused.get_details_bad_request().expect("faults");
    let fields = faults.field_violations.into_iter();
    fields.map(|fault| fault.field).collect()
}

/// The time of a second of the clock.
pub fn time(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

/// The workload's template, with a max skew of 1 over zones.
pub fn template() -> Pod {
    spread(pod("", &WEB), vec![hard(1, ZONE, &WEB)])
}

/// A request that reserves chosen nodes for pods.
pub fn assignments(snapshot: &str, pods: Vec<(Pod, &str)>) -> ReservePodsRequest {
    let assigned = |(pod, node): (Pod, &str)| AssignedPod {
        pod: Some(pod),
        node: node.into(),
    };
    ReservePodsRequest {
        snapshot: snapshot.into(),
        pods: pods.into_iter().map(assigned).collect(),
        reserve: request(1).reserve,
    }
}

/// A request to place pods and hold the places.
pub fn request(replicas: i32) -> PlaceRequest {
    PlaceRequest {
        reserve: Some(Reservation {
            owner: "deployer".into(),
            ttl: Some(Duration::from_secs(TTL_SECONDS).into()),
        }),
        ..place_of(template(), replicas)
    }
}
