//! Copies of a snapshot show one moment of it, whatever what-if overlays do meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel::matching::Path;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Change, ExportSnapshotResponse};
use evenkeel::snapshot::{Batch, Limits, Snapshot};
use evenkeel::verify::verify;

use support::build::{ZONE, node, on, pod};
use support::model::{Stored, delete};
use support::server::Server;

/// The number of pods of the namespace that takes long to copy.
const MANY: usize = 1_500;

/// The number of nodes that are known only because a pod names them, one pod each.
const GHOSTS: usize = 40;

/// The number of copies that are compared with the truth.
const COPIES: usize = 12;

/// The longest time that the overlays have to get between the copies.
const PATIENCE: Duration = Duration::from_secs(60);

fn in_namespace(change: Change, namespace: &str) -> Change {
    let mut change = change;
    if let Some(Object::Pod(pod)) = &mut change.object {
        pod.metadata.get_or_insert_default().namespace = namespace.into();
    }
    change
}

/// A namespace that takes long to copy, and after it one whose pods are on nodes that are known by
/// name only.
fn content() -> Vec<Change> {
    let nodes = (0..8).map(|i| node(&format!("n{i}"), &[(ZONE, "z")]).change());
    let many = (0..MANY).map(|i| {
        let on_node = format!("n{}", i % 8);
        let pod = on(pod(&format!("p{i}"), &[("app", "web")]), &on_node);
        in_namespace(pod.change(), "a")
    });
    let ghosts = (0..GHOSTS).map(|i| {
        let pod = on(
            pod(&format!("g{i}"), &[("app", "db")]),
            &format!("ghost-{i}"),
        );
        in_namespace(pod.change(), "z")
    });
    nodes.chain(many).chain(ghosts).collect()
}

/// Deletes the last pods of many nodes that are known by name only, changes nodes, and brings in
/// new names.
fn overlay(round: usize) -> Batch {
    let gone = (0..GHOSTS).filter(|i| !(i + round).is_multiple_of(3));
    let mut changes: Vec<Change> = gone.map(|i| delete("Pod", "z", &format!("g{i}"))).collect();
    let new = (0..5).map(|i| on(pod(&format!("x{i}"), &[]), &format!("new-{round}-{i}")));
    changes.extend(new.map(|pod| in_namespace(pod.change(), "z")));
    changes.push(delete("Node", "", "n7"));
    changes.push(node(&format!("y{round}"), &[(ZONE, "y")]).change());
    Batch::check(changes, &Limits::default(), Path::root("overlay")).expect("it is valid")
}

/// Describes pods by name with their nodes, and nodes.
fn objects(changes: impl IntoIterator<Item = Change>) -> BTreeMap<String, String> {
    let objects = changes.into_iter().filter_map(|change| change.object);
    let described = objects.map(|object| match object {
        Object::Pod(pod) => {
            let node = pod.spec.unwrap_or_default().node_name;
            (
                format!("pod {}", pod.metadata.unwrap_or_default().name),
                node,
            )
        }
        Object::Node(node) => {
            let name = node.metadata.unwrap_or_default().name;
            (format!("node {name}"), String::new())
        }
        other => panic!("nobody stored {other:?}"),
    });
    described.collect()
}

/// A thread that makes overlays come and go until it is told to stop.
struct Overlays {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Overlays {
    fn on(snapshot: &Arc<Snapshot>) -> Self {
        let (stop, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (snapshot, stopped, count) = (Arc::clone(snapshot), stop.clone(), done.clone());
        let run = move || {
            while !stopped.load(Ordering::Relaxed) {
                let round = count.fetch_add(1, Ordering::Relaxed);
                let revision = snapshot.read("z", overlay(round), |cut| Ok(cut.revision));
                assert_eq!(revision, Ok(1));
            }
        };
        Self {
            stop,
            done,
            thread: Some(std::thread::spawn(run)),
        }
    }

    fn count(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Overlays {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        if !std::thread::panicking() {
            assert!(ended.is_some_and(|ended| ended.is_ok()), "overlays went on");
        }
    }
}

/// Checks that an export has the number of objects that it says, and returns its changes.
fn summed(parts: Vec<ExportSnapshotResponse>) -> Vec<Change> {
    let (mut all, mut before) = (Vec::new(), None);
    for part in parts {
        assert!(before.is_none(), "a part after the last");
        let update = part.update.expect("every part has an update");
        all.extend(update.changes);
        before = part.summary;
    }
    assert_eq!(before.map(|it| it.object_count), Some(all.len() as i64));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_hold_what_is_there_while_overlays_come_and_go() {
    let server = Server::start().await;
    server.update("", content()).await;
    let snapshot = server.registry.get("default").expect("it was written");
    let truth = objects(content());
    let overlays = Overlays::on(&snapshot);
    let start = Instant::now();
    let mut copies = 0;
    while copies < COPIES || overlays.count() < 4 * COPIES {
        assert!(start.elapsed() < PATIENCE, "{} overlays", overlays.count());
        assert_eq!(objects(summed(server.export("").await)), truth);
        let state = snapshot.state();
        assert_eq!(objects(state.changes()), truth);
        let report = verify(&state, &|| false).expect("it is not cancelled");
        assert_eq!(report.mismatch_count, 0, "{:?}", report.mismatches);
        copies += 1;
    }
    drop(overlays);
}

#[tokio::test]
async fn even_what_is_empty_is_summed_up() {
    let server = Server::start().await;
    server.update("", Vec::new()).await;
    let parts = server.export("").await;
    assert_eq!(parts.len(), 2);
    assert_eq!(summed(parts), Vec::new());
}
