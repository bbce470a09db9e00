//! A server whose clock moves only when a test says so, and its reservations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::proto::v1::{
    FilterRequest, HeldPlacement, ListReservationsRequest, PlaceRequest, PlaceResponse, Pod,
    RenewReservationsRequest, RenewReservationsResponse, ReservePodsRequest, ReservePodsResponse,
    View,
};
use evenkeel::snapshot::Limits;
use tonic::{Response, Status};

use support::build::{
    ZONE, assign_of, confirm_of, filter_of, hard, hold_of, pod, release_of, spread, zones,
};
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
        server.update("", zones(&["a", "b"])).await;
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

    /// Renews reservations.
    pub async fn renew(&self, ids: Vec<String>, seconds: Option<u64>) -> RenewReservationsResponse {
        let request = RenewReservationsRequest {
            snapshot: String::new(),
            ids,
            ttl: seconds.map(|seconds| Duration::from_secs(seconds).into()),
        };
        self.server.renew_reservations(request).await
    }

    /// Says which pod a reservation became. Returns true if the reservation was live.
    pub async fn confirm(&self, id: &str, name: &str, uid: &str) -> bool {
        let request = confirm_of(id, name, uid);
        let response = self.server.confirm_reservations(request).await;
        response.unknown_ids.is_empty()
    }

    /// Gives a reservation up. Returns true if it was live.
    pub async fn release(&self, id: &str) -> bool {
        let request = release_of(vec![id.into()]);
        let response = self.server.release_reservations(request).await;
        response.unknown_ids.is_empty()
    }

    /// Returns the reservations.
    pub async fn list(&self) -> Vec<HeldPlacement> {
        let request = ListReservationsRequest::default();
        self.server.list_reservations(request).await.reservations
    }

    /// Returns the count of each zone, in the order of their names.
    pub async fn counts(&self) -> [i64; 2] {
        counts(&self.server).await.0
    }
}

/// Returns the count of each zone, and the revision of the counts.
pub async fn counts(server: &Server) -> ([i64; 2], i64) {
    let request = FilterRequest {
        view: View::Domains.into(),
        ..filter_of(template())
    };
    let mut counts = [0; 2];
    let answer = server.filter(request).await;
    for domain in &answer.constraints[0].domains {
        counts[usize::from(domain.value == "b")] = domain.matching_pods;
    }
    (counts, answer.revision)
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
    ReservePodsRequest {
        snapshot: snapshot.into(),
        ..assign_of(pods, Duration::from_secs(TTL_SECONDS))
    }
}

/// A request to place pods and hold the places.
pub fn request(replicas: i32) -> PlaceRequest {
    hold_of(template(), replicas, Duration::from_secs(TTL_SECONDS))
}
