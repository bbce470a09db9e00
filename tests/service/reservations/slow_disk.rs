//! A disk that stands still holds up callers that write, and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel::proto::v1::{FilterRequest, PlaceRequest};
use evenkeel::snapshot::reservation::Serial;
use evenkeel::snapshot::{
    Aside, Batch, Entry, Journal, JournalError, Limits, Registry, Snapshot, Unobserved,
};
use evenkeel::store::{Durability, Store};
use parking_lot::{Condvar, Mutex};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::held::{self, WEB, template};
use support::build::{
    ZONE, explain_of, filter_of, hold_of, node, on, place_of, pod, score_of, update_of, zones,
};
use support::model::Stored;
use support::server::Server;

/// The longest time that work without the disk may take. The disk of these tests stands still until
/// all of that work is over, so the exact figure does not matter.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fate of writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mood {
    Works,
    StandsStill,
    Fails,
}

/// A store on a disk whose mood can be set.
pub struct Disk {
    store: Store,
    mood: Mutex<Mood>,
    changed: Condvar,
    /// The number of threads that wait for the disk.
    waiting: AtomicUsize,
    /// The revision that each entry led to, and the reservations that it ended.
    entries: Mutex<Vec<(i64, Vec<Serial>)>>,
}

impl Disk {
    pub fn new(directory: &tempfile::TempDir) -> Arc<Self> {
        let store = Store::open(directory.path(), Durability::Relaxed);
        Self::of(store.expect("a directory of its own"))
    }

    pub fn of(store: Store) -> Arc<Self> {
        Arc::new(Self {
            store,
            mood: Mutex::new(Mood::Works),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            entries: Mutex::default(),
        })
    }

    pub fn set(&self, mood: Mood) {
        *self.mood.lock() = mood;
        self.changed.notify_all();
    }

    /// A registry on the disk, with the state that the disk keeps.
    pub fn registry(self: &Arc<Self>, registry: Registry) -> Registry {
        let registry = registry.with_journal(Arc::clone(self) as _);
        let restored = self.store.restore(&registry);
        restored.expect("it can be read");
        registry
    }

    fn works(&self) -> Result<(), JournalError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut mood = self.mood.lock();
        while *mood == Mood::StandsStill {
            self.changed.wait(&mut mood);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        match *mood {
            Mood::Fails => Err(JournalError::Failed("it is broken".into())),
            _ => Ok(()),
        }
    }
}

impl Journal for Disk {
    fn append(&self, entries: &[&Entry]) -> Result<(), JournalError> {
        self.works()?;
        self.store.append(entries)?;
        let told = entries.iter().map(|e| (e.revision, e.ended.clone()));
        self.entries.lock().extend(told);
        Ok(())
    }

    fn open_aside(&self) -> Result<Aside, JournalError> {
        self.store.open_aside()
    }

    fn write_aside(&self, aside: Aside, changes: &Batch) -> Result<(), JournalError> {
        self.works()?;
        self.store.write_aside(aside, changes)
    }

    fn drop_aside(&self, aside: Aside) {
        self.store.drop_aside(aside);
    }
}

fn new_registry() -> Registry {
    Registry::new(Limits::default(), Arc::new(Unobserved))
}

/// A request to place and hold for so long.
fn hold(ttl: Duration) -> PlaceRequest {
    hold_of(template(), 1, ttl)
}

async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect(what);
}

/// Makes each call that writes nothing. Returns the counts of Filter, and their revision.
async fn ask_all(server: &Server) -> ([i64; 2], i64) {
    server.explain(explain_of(template())).await;
    server.place(place_of(template(), 3)).await;
    server.describe_spread(Default::default()).await;
    server.list_snapshots(Default::default()).await;
    server.score(score_of(template())).await;
    let overlaid = FilterRequest {
        overlay: vec![on(pod("planned", &WEB), "a").change()],
        ..filter_of(template())
    };
    server.filter(overlaid).await;
    assert_eq!(server.held().await.len(), 1);
    assert_eq!(server.describe("").await.reservation_count, 1);
    held::counts(server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_nothing_waits_for_no_disk() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = Disk::new(&directory);
    let server = Server::with_registry(disk.registry(new_registry())).await;
    server.update("", zones(&["a", "b"])).await;
    let ttl = Duration::from_millis(500);
    let placed = server.place(hold(ttl)).await;
    let (held, revision) = (&placed.placements[0].node, placed.revision);

    disk.set(Mood::StandsStill);
    // These are many more writers than decisions that may run at once.
    let mut writers = JoinSet::new();
    for i in 0..40 {
        let mut client = server.another_client();
        writers.spawn(async move {
            let reserved = client.place(hold(Duration::from_secs(600))).await;
            reserved.map(|reserved| reserved.get_ref().revision)
        });
        let mut client = server.another_client();
        writers.spawn(async move {
            let arrived = on(pod(&format!("other-{i}"), &[("app", "other")]), "a");
            let request = update_of(vec![arrived.change()]);
            let updated = client.update_snapshot(request).await;
            updated.map(|updated| updated.get_ref().revision)
        });
    }
    wait_for("somebody writes", || {
        disk.waiting.load(Ordering::SeqCst) > 0
    })
    .await;
    let snapshot = server.registry.get("default").expect("it exists");
    let is_over = |snapshot: &Snapshot| snapshot.until_next_end() == Some(Duration::ZERO);
    wait_for("its time is over", || is_over(&snapshot)).await;

    // The reservation counts until its end is recorded, and all calls are answered.
    let counts = if held == "a" { [1, 0] } else { [0, 1] };
    for _ in 0..10 {
        let asked = timeout(PATIENCE, ask_all(&server)).await;
        assert_eq!(asked.expect("nobody waits"), (counts, revision));
    }

    disk.set(Mood::Works);
    while let Some(written) = timeout(PATIENCE, writers.join_next())
        .await
        .expect("the disk works again")
    {
        written.expect("no panic").expect("it is written");
    }
    wait_for("it has ended", || !is_over(&snapshot)).await;
    assert_eq!(server.describe("").await.reservation_count, 40);
    let entries = disk.entries.lock().clone();
    let revisions: Vec<i64> = entries.iter().map(|(revision, _)| *revision).collect();
    let each: Vec<i64> = (1..=2 + 40 + 40 + 1).collect();
    assert_eq!(revisions, each, "each revision is an entry");
    let ends: Vec<_> = entries.iter().filter(|(_, e)| !e.is_empty()).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!(ends[0].1, [1]);
}

/// Copies that arrive while the first is written wait for it, and then have its
/// answer.
#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_request_wait_for_the_first() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = Disk::new(&directory);
    let server = Server::with_registry(disk.registry(new_registry())).await;
    server
        .update("", vec![node("a", &[(ZONE, "a")]).change()])
        .await;
    let counters = server.registry.counters();
    let counted = || {
        [&counters.view_hits, &counters.view_builds]
            .map(|it| it.load(Ordering::SeqCst))
            .iter()
            .sum::<u64>()
    };
    let before = counted();
    server.place(place_of(template(), 1)).await;
    let (planned, each) = (counted(), counted() - before);
    assert!(each > 0, "deciding counts pods");

    disk.set(Mood::StandsStill);
    let mut copies = JoinSet::new();
    for _ in 0..4 {
        let mut client = server.another_client();
        let request = PlaceRequest {
            request_id: "once".into(),
            ..hold(Duration::from_secs(600))
        };
        copies.spawn(async move { client.place(request).await });
    }
    let waits = || disk.waiting.load(Ordering::SeqCst) > 0;
    wait_for("one is written", waits).await;
    // The others decide meanwhile: none of them has found an answer to repeat.
    let decided = || counted() >= planned + 4 * each;
    wait_for("all have decided", decided).await;
    disk.set(Mood::Works);
    let answers = copies.join_all().await.into_iter();
    let answers: Vec<_> = answers
        .map(|answer| answer.expect("it is answered").into_inner())
        .collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(server.describe("").await.reservation_count, 1);
}

/// An end that the journal did not take has not happened: after a crash the reservation is still
/// held, and ends then.
#[test]
fn an_end_that_was_not_recorded_happens_after_the_crash() {
    use super::clocks::Clocks;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let clocks = Clocks::default();
    let disk = clocks.disk(&directory);
    let registry = disk.registry(clocks.registry());
    super::clocks::hold(&registry, 60);
    let before = super::clocks::seen(&registry);
    disk.set(Mood::Fails);
    clocks.pass(61);
    let refused = registry.end_expired();
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(super::clocks::seen(&registry), before);
    drop((registry, disk));

    for ended in [false, true, true] {
        let disk = clocks.disk(&directory);
        let registry = disk.registry(clocks.registry());
        let (epoch, revision, held) = before.clone();
        let after = (epoch, revision + 1, Vec::new());
        if !ended {
            assert_eq!(
                super::clocks::seen(&registry),
                (after.0.clone(), revision, held)
            );
            registry.end_expired().expect("the disk works");
        }
        assert_eq!(super::clocks::seen(&registry), after);
    }
}
