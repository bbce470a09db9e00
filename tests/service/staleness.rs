//! Snapshots whose feed is silent: the server says so in health and in every answer, and refuses to
//! answer if a setting says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use support::{process, streams};

use evenkeel::proto::v1::{Pod, UpdateSnapshotRequest};
use evenkeel::snapshot::named::{MaxAges, Observer};
use evenkeel::snapshot::{Limits, Now, Registry};
use parking_lot::Mutex;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use streams::{next, watch};
use support::build::{batch_of, describe_as, explain_as, filter_in, place_as, score_as};
use support::refusal::{code, reason};
use support::server::Server;

const MAX_AGE: Duration = Duration::from_secs(30);

/// The notices about snapshots, in order.
#[derive(Default)]
struct Told(Mutex<Vec<(String, bool)>>);

impl Observer for Told {
    fn snapshot_changed(&self, _: &str, _: bool) {}
    fn snapshot_deleted(&self, _: &str) {}
    fn snapshot_stale(&self, name: &str, stale: bool) {
        self.0.lock().push((name.to_owned(), stale));
    }
}

/// A server whose clock is moved by hand.
struct World {
    server: Server,
    seconds: Arc<AtomicU64>,
    /// The seconds by which the wall clock differs from the time that passes.
    set_by: Arc<AtomicI64>,
    told: Arc<Told>,
}

impl World {
    /// Snapshots may be 30 s old, but `any` of any age.
    async fn new(refuse: bool) -> Self {
        let seconds = Arc::new(AtomicU64::new(1_000_000));
        let set_by = Arc::new(AtomicI64::new(0));
        let clocks = (Arc::clone(&seconds), Arc::clone(&set_by));
        let at = |second: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let now = move || {
            let passed = clocks.0.load(Ordering::Relaxed);
            let shown = passed.saturating_add_signed(clocks.1.load(Ordering::Relaxed));
            Now {
                wall: at(shown),
                ..Now::from(at(passed))
            }
        };
        let told = Arc::new(Told::default());
        let observer: Arc<dyn Observer> = Arc::clone(&told) as Arc<dyn Observer>;
        let ages = MaxAges {
            default: Some(MAX_AGE),
            by_name: [("any".to_owned(), None)].into(),
            refuse,
        };
        let registry = Registry::with_clock(Limits::default(), observer, now).with_max_ages(ages);
        let server = Server::with_registry(registry).await;
        Self {
            server,
            seconds,
            set_by,
            told,
        }
    }

    /// Sets the wall clock this many seconds forward, or back.
    fn set_wall_clock(&self, by: i64) {
        self.set_by.fetch_add(by, Ordering::Relaxed);
        self.server.registry.sweep(600);
    }

    fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
        self.server.registry.sweep(600);
    }

    /// Returns the age in every kind of answer, or the refusal.
    async fn ages(&self, snapshot: &str) -> Vec<Result<Option<i64>, Status>> {
        let mut client = self.server.client();
        let asked = filter_in(snapshot, Pod::default());
        macro_rules! age {
            ($method:ident, $request:expr) => {{
                let answer = client.$method($request).await;
                answer.map(|answer| answer.into_inner().age.map(|age| age.seconds))
            }};
        }
        vec![
            age!(filter, asked.clone()),
            age!(score, score_as(asked.clone())),
            age!(explain, explain_as(asked.clone())),
            age!(place, place_as(asked.clone())),
            age!(describe_spread, describe_as(asked)),
        ]
    }

    async fn all_answer(&self, snapshot: &str, age: Option<i64>) {
        for got in self.ages(snapshot).await {
            assert_eq!(got.expect("it is answered"), age, "{snapshot}");
        }
    }

    async fn all_refuse(&self, snapshot: &str) {
        for got in self.ages(snapshot).await {
            let status = got.expect_err("it is refused");
            assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
            assert_eq!(reason(&status).as_deref(), Some("SNAPSHOT_STALE"));
            assert!(
                status.message().contains("over max-age of 30s"),
                "{status:?}"
            );
        }
    }

    fn told(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.told.0.lock())
    }
}

#[tokio::test]
async fn answers_carry_their_age_and_health_follows_it() {
    let world = World::new(false).await;
    world.server.update("fed", Vec::new()).await;
    world.server.update("any", Vec::new()).await;
    world.all_answer("fed", Some(0)).await;
    world.wait(30);
    assert_eq!(world.told(), []);
    world.wait(1);
    assert_eq!(world.told(), [("fed".to_owned(), true)]);
    world.wait(1);
    assert_eq!(world.told(), [], "told once");
    world.all_answer("fed", Some(32)).await;
    world.all_answer("any", None).await;
    let described = world.server.describe("fed").await;
    assert_eq!(
        (described.age.map(|age| age.seconds), described.stale),
        (Some(32), true)
    );

    // A heartbeat is an empty batch, which moves the revision on.
    let heartbeat = world.server.update("fed", Vec::new()).await;
    assert_eq!(heartbeat.revision, 2);
    assert_eq!(world.told(), [("fed".to_owned(), false)]);
    world.all_answer("fed", Some(0)).await;
    let described = world.server.describe("fed").await;
    assert_eq!(
        (described.age.map(|age| age.seconds), described.stale),
        (Some(0), false)
    );
}

#[tokio::test]
async fn old_snapshots_refuse_to_answer_if_they_are_told_to() {
    let world = World::new(true).await;
    world.server.update("fed", Vec::new()).await;
    world.server.update("any", Vec::new()).await;
    world.wait(30);
    world.all_answer("fed", Some(30)).await;
    world.wait(1);
    world.all_refuse("fed").await;
    world.all_answer("any", None).await;

    // A refused batch does not make the snapshot fresh; a replace does.
    let refused = UpdateSnapshotRequest {
        expected_revision: Some(7),
        ..batch_of("fed", Vec::new())
    };
    let refused = world.server.client().update_snapshot(refused).await;
    assert_eq!(code(refused), Code::Aborted);
    world.all_refuse("fed").await;
    world
        .server
        .replace("fed", Vec::new(), Default::default())
        .await;
    world.all_answer("fed", Some(0)).await;
}

#[tokio::test]
async fn nobody_grows_older_or_younger_when_the_wall_clock_is_set() {
    const HOUR: i64 = 3_600;
    for by in [HOUR, -HOUR] {
        let world = World::new(false).await;
        world.server.update("fed", Vec::new()).await;
        world.wait(29);
        world.set_wall_clock(by);
        assert_eq!(world.told(), [], "set by {by} s");
        world.all_answer("fed", Some(29)).await;
        world.wait(2);
        assert_eq!(world.told(), [("fed".to_owned(), true)], "set by {by} s");
        world.set_wall_clock(-by);
        assert_eq!(world.told(), [], "set back");
        world.all_answer("fed", Some(31)).await;
    }
}

#[tokio::test]
async fn a_deleted_snapshot_leaves_no_mark_on_the_next_of_its_name() {
    let world = World::new(false).await;
    world.server.update("fed", Vec::new()).await;
    world.wait(31);
    world.server.registry.delete("fed", "").expect("it exists");
    world.wait(1);
    world.server.update("fed", Vec::new()).await;
    world.wait(1);
    assert_eq!(world.told(), [("fed".to_owned(), true)]);
    world.all_answer("fed", Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_a_silent_feed_is_not_serving_until_it_speaks() {
    let server = process::Server::start(&["--max-age", "1h,silent=200ms"]);
    server.update("silent", Vec::new()).await;
    server.update("other", Vec::new()).await;
    let mut silent = watch(server.channel(), "silent").await;
    let mut other = watch(server.channel(), "other").await;
    let mut all = watch(server.channel(), "").await;
    let first = next(&mut silent).await;
    assert!(first == NotServing || next(&mut silent).await == NotServing);
    assert_eq!(next(&mut other).await, Serving);
    assert_eq!(next(&mut all).await, Serving);
    server.update("silent", Vec::new()).await;
    assert_eq!(next(&mut silent).await, Serving);
    assert_eq!(next(&mut silent).await, NotServing);
}
