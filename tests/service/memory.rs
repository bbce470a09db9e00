//! What happens when the allocator says that the memory is used up: growth is refused before
//! anything changes, and decisions go on without caching anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::account::Account;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use evenkeel::proto::v1::{Change, VerifySnapshotRequest};
use evenkeel::snapshot::{Limits, Registry, Unobserved};
use support::build::{
    ZONE, batch_of, filter_of, hard, hold_of, node, on, pod, service, spread, update_of, zones,
};
use support::caller::export;
use support::model::{Stored, delete};
use support::refusal::{limit, reason};
use support::server::Server;
use tonic::{Code, Status};

const LIMIT: usize = 64 << 20;

/// A server whose allocator says what a test wants.
struct Told {
    server: Server,
    in_use: Arc<AtomicUsize>,
}

impl Told {
    /// A server with two zones and some pods, and all memory.
    async fn start() -> Self {
        let in_use = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&in_use);
        let account = Account::measured(LIMIT, move |_| told.load(Ordering::Relaxed));
        let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
        let server = Server::with_registry(registry.with_account(account)).await;
        let pods = ["a", "b"].map(|zone| on(web(&format!("p-{zone}")), zone).change());
        let changes = zones(&["a", "b"]).into_iter().chain(pods);
        let changes = changes.chain([service("web", &[("app", "web")]).change()]);
        server.update("", changes.collect()).await;
        Self { server, in_use }
    }

    /// Lets the allocator say that this many bytes of the limit are left.
    fn leave(&self, bytes: usize) {
        self.in_use.store(LIMIT - bytes, Ordering::Relaxed);
    }

    async fn update(&self, changes: Vec<Change>) -> Result<(), Status> {
        let request = update_of(changes);
        let updated = self.server.client().update_snapshot(request).await;
        updated.map(drop)
    }

    fn views(&self) -> usize {
        let snapshot = self.server.registry.get("default").expect("it exists");
        snapshot.summary().views
    }
}

fn web(name: &str) -> evenkeel::proto::v1::Pod {
    pod(name, &[("app", "web")])
}

fn question() -> evenkeel::proto::v1::FilterRequest {
    let app = [("app", "web")];
    filter_of(spread(pod("incoming", &app), vec![hard(1, ZONE, &app)]))
}

#[track_caller]
fn assert_no_memory(refused: Result<(), Status>) {
    let status = refused.expect_err("there is no memory");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert_eq!(reason(&status).as_deref(), Some("OVER_LIMIT"));
    assert_eq!(limit(&status).as_deref(), Some("max-memory-bytes"));
}

#[tokio::test]
async fn growth_is_refused_before_anything_changes_and_shrinking_is_not() {
    let told = Told::start().await;
    let before = told.server.describe("").await;
    told.leave(LIMIT / 16 - 1);
    let long = [("app", "web"), ("more", &*"m".repeat(60))];
    let growing = [
        node("c", &[(ZONE, "c")]).change(),
        node("a", &[(ZONE, "a"), ("more", "b")]).change(),
        on(web("new"), "a").change(),
        on(pod("p-a", &long), "a").change(),
        on(web("p-a"), "unknown").change(),
        service("web", &long).change(),
        service("other", &[]).change(),
    ];
    for change in growing {
        // A delete in the same batch does not make room for it.
        let batch = vec![delete("Pod", "default", "p-b"), change];
        assert_no_memory(told.update(batch).await);
        assert_eq!(told.server.describe("").await, before);
    }
    let shrinking = [delete("Pod", "default", "p-b"), delete("Node", "", "b")];
    for change in shrinking {
        told.update(vec![change]).await.expect("it does not grow");
    }
    told.leave(LIMIT / 16);
    let grown = told.update(vec![on(web("new"), "a").change()]).await;
    grown.expect("there is room");
}

#[tokio::test]
async fn what_would_be_kept_is_refused() {
    let told = Told::start().await;
    told.leave(0);
    let mut client = told.server.client();
    let other = batch_of("other", Vec::new());
    assert_no_memory(client.update_snapshot(other).await.map(drop));
    let begin = Step::BeginReplace(Default::default());
    let staged = told.server.stream(vec![begin]).await.message().await;
    assert_no_memory(staged.map(drop));
    let reserving = hold_of(web(""), 1, Duration::from_secs(60));
    assert_no_memory(client.place(reserving).await.map(drop));
    assert_no_memory(export(client, "").await.map(drop));
}

/// A verification builds a second state, so it needs as much memory as the first.
#[tokio::test]
async fn a_verification_ends_where_there_is_no_memory_for_a_second_state() {
    let told = Told::start().await;
    told.server.verify("").await;
    told.leave(0);
    let request = VerifySnapshotRequest::default();
    let refused = told.server.client().verify_snapshot(request).await;
    assert_no_memory(refused.map(drop));
    let snapshot = told.server.registry.get("default").expect("it exists");
    evenkeel::verify::verify(&snapshot.state(), &|| false).expect_err("it builds no state");
}

#[tokio::test]
async fn a_decision_is_answered_without_memory_but_caches_nothing() {
    let told = Told::start().await;
    told.leave(0);
    let answer = told.server.filter(question()).await;
    assert_eq!(answer.feasible.len(), 2);
    assert_eq!(told.views(), 0);
    told.leave(LIMIT);
    assert_eq!(
        told.server.filter(question()).await.feasible,
        answer.feasible
    );
    assert_eq!(told.views(), 1);
    // Views go to make room.
    told.leave(0);
    told.server.registry.sweep(1_000);
    assert_eq!(told.views(), 0);
    assert_eq!(
        told.server.filter(question()).await.feasible,
        answer.feasible
    );
}
