//! While one writer feeds nodes and pods and replaces everything now and then,
//! every answer is that of the one revision it names.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::generate;

use evenkeel::proto::v1::{Change, FilterRequest, Mode, NodeChecks, Pod, UpdateSnapshotRequest};
use evenkeel::snapshot::Snapshot;
use evenkeel::verify::verify;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use support::agree::{self, Question};
use support::build::{full_filter_of, score_as};
use support::model::{self, Stored};
use support::recount::Cluster;
use support::server::{Client, Server};

/// Number of batches that the writer sends.
const BATCHES: usize = 250;

/// The interval, in batches, between two replaces.
const REPLACE_EVERY: usize = 40;

/// The state that the readers and the writer share.
#[derive(Default)]
struct Shared {
    /// The objects of the snapshot, by revision. The writer adds an entry before it sends the
    /// batch.
    history: Mutex<Vec<Arc<Cluster>>>,
    /// Set once the writer has sent all batches.
    done: AtomicBool,
    /// The number of different revisions that answers were of, summed over readers.
    seen: AtomicUsize,
}

impl Shared {
    fn at(&self, revision: i64) -> Arc<Cluster> {
        let index = usize::try_from(revision).expect("revisions are not negative");
        Arc::clone(&self.history.lock().expect("nobody panicked")[index])
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

/// Draws values of a strategy, the same in every run.
fn draw<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    let tree = strategy.new_tree(runner);
    tree.expect("no strategy here rejects").current()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_answer_is_of_the_revision_that_it_names() {
    let server = Server::start().await;
    let shared = Arc::new(Shared::default());
    let mut runner = TestRunner::deterministic();
    write(&server, &shared, first_batch(&mut runner), Mode::Replace).await;

    let mut tasks = Vec::new();
    for overlays in [false, false, true] {
        let overlay = if overlays { 3 } else { 0 };
        let strategy = (generate::incoming::pod(), generate::batch(overlay));
        let questions = (0..6).map(|_| draw(&strategy, &mut runner)).collect();
        let client = server.another_client().await;
        tasks.push(tokio::spawn(read(client, questions, Arc::clone(&shared))));
    }
    let snapshot = server.registry.get("default");
    let snapshot = snapshot.expect("it was written");
    let verifying = Arc::clone(&shared);
    tasks.push(tokio::task::spawn_blocking(move || {
        while !verifying.is_done() {
            check_copy(&snapshot, &verifying);
        }
    }));
    let (registry, sweeping) = (Arc::clone(&server.registry), Arc::clone(&shared));
    tasks.push(tokio::task::spawn_blocking(move || {
        while !sweeping.is_done() {
            registry.sweep(2);
            std::thread::yield_now();
        }
    }));

    for batch in 1..=BATCHES {
        if batch % REPLACE_EVERY == 0 {
            write(&server, &shared, first_batch(&mut runner), Mode::Replace).await;
        } else {
            let changes = draw(&generate::batch(5), &mut runner);
            write(&server, &shared, changes, Mode::Unspecified).await;
        }
    }
    shared.done.store(true, Ordering::Release);
    for task in tasks {
        task.await.expect("the reader agrees");
    }
    // Readers did look while the writer wrote.
    let seen = shared.seen.load(Ordering::Relaxed);
    assert!(seen > BATCHES / 8, "answers of {seen} revisions");
}

/// Nodes and pods to begin with; more pods than deltas ever have.
fn first_batch(runner: &mut TestRunner) -> Vec<Change> {
    let mut changes = Vec::new();
    for index in 0..30 {
        let mut pod = draw(&generate::pod(), runner);
        let metadata = pod.metadata.get_or_insert_default();
        metadata.name = format!("first-{index}");
        changes.push(pod.change());
    }
    for index in 0..6 {
        let mut node = draw(&generate::node(), runner);
        let metadata = node.metadata.get_or_insert_default();
        metadata.name = format!("n{index}");
        changes.push(node.change());
    }
    changes
}

async fn write(server: &Server, shared: &Shared, changes: Vec<Change>, mode: Mode) {
    let revision = {
        let mut history = shared.history.lock().expect("nobody panicked");
        if history.is_empty() {
            history.push(Arc::default());
        }
        let mut cluster = match mode {
            Mode::Replace => Cluster::default(),
            Mode::Unspecified => Cluster::clone(history.last().expect("it begins empty")),
        };
        changes.iter().for_each(|c| model::apply(&mut cluster, c));
        history.push(Arc::new(cluster));
        history.len() as i64 - 1
    };
    let request = UpdateSnapshotRequest {
        changes,
        mode: mode as i32,
        ..Default::default()
    };
    assert_eq!(server.send(request).await.revision, revision);
}

/// Asks the same questions over and over until the writer has finished.
async fn read(mut client: Client, questions: Vec<(Pod, Vec<Change>)>, shared: Arc<Shared>) {
    let mut last = 0;
    while !shared.is_done() {
        for (pod, overlay) in &questions {
            let request = FilterRequest {
                overlay: overlay.clone(),
                ..full_filter_of(pod.clone())
            };
            let filter = client.filter(request.clone()).await;
            let got = filter.expect("an answer").into_inner();
            shared
                .seen
                .fetch_add(usize::from(got.revision > last), Ordering::Relaxed);
            last = last.max(got.revision);
            let seen = imagined(&shared.at(got.revision), overlay);
            let place = format!("revision {}, overlay {overlay:?}", got.revision);
            let about = Question {
                cluster: &seen,
                pod,
                place: &place,
            };
            let checks = NodeChecks::Unspecified;
            agree::filter(&got, &seen.filter(pod, None, checks), &about);
            let score = client.score(score_as(request)).await;
            let got = score.expect("an answer").into_inner();
            let seen = imagined(&shared.at(got.revision), overlay);
            let about = Question {
                cluster: &seen,
                ..about
            };
            agree::score(&got, &seen.score(pod, None, checks), &about);
        }
    }
}

fn imagined(cluster: &Cluster, overlay: &[Change]) -> Cluster {
    let mut seen = cluster.clone();
    overlay.iter().for_each(|c| model::apply(&mut seen, c));
    seen
}

/// Checks that a copy is whole, of one revision, and has not drifted.
fn check_copy(snapshot: &Snapshot, shared: &Shared) {
    let (frozen, kept) = snapshot.freeze_kept();
    let report = verify(&frozen, &kept, &|| false).expect("it is not cancelled");
    assert_eq!(
        report.findings.described,
        [],
        "revision {}",
        frozen.revision
    );
    let cluster = shared.at(frozen.revision);
    assert_eq!(
        model::outlines(frozen.changes()),
        model::outlines(model::changes(&cluster).into_iter()),
        "revision {}",
        frozen.revision
    );
}
