//! A server with a state directory continues from it, and reads only the records of the log that
//! came after it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use evenkeel::limits::Limits;
use evenkeel::log::Log;
use evenkeel::replica::Unusable;
use evenkeel::snapshot::{Registry, Unobserved};
use evenkeel::store::{Durability, Store};
use support::fake_log::FakeLog;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::simulation::alone::{Alone, offer};
use crate::simulation::unclaimed::reserve;
use crate::simulation::wishes::{batch, node, pod};
use crate::simulation::world::{NAME, digest};

fn open(directory: &Path) -> Arc<Store> {
    let store = Store::open(directory, Durability::Relaxed);
    Arc::new(store.expect("it can be opened"))
}

/// A log with two servers, of which one has a state directory.
struct Pair {
    runtime: Runtime,
    log: FakeLog,
    directory: TempDir,
    other: Alone,
}

/// The way by which a server came to its state.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    /// The number of records that it read.
    followed: u64,
    /// The number of snapshots that it read anew.
    anew: u64,
}

impl Pair {
    fn new() -> Self {
        let (runtime, log) = (Runtime::new().expect("a runtime"), FakeLog::default());
        let other = Alone::on(&log, "other", &runtime);
        Self {
            runtime,
            log,
            directory: tempfile::tempdir().expect("a temporary directory"),
            other,
        }
    }

    /// Starts the server with the directory. Checks that it comes to the same state as the other
    /// one.
    fn start(&self) -> (Alone, Came) {
        let store = open(self.directory.path());
        let server = Alone::keeping(&self.log, "keeps", &self.runtime, &store);
        server.follow();
        self.other.follow();
        assert_eq!(digest(&server.snapshot()), digest(&self.other.snapshot()));
        let counts = server.replica.counts();
        let came = Came {
            followed: counts.followed.load(Ordering::Relaxed),
            anew: counts.bootstraps.load(Ordering::Relaxed),
        };
        (server, came)
    }

    /// Has the other server change something.
    fn change(&self, number: usize) {
        let changed = self.other.registry.update(NAME, offer(number, None));
        changed.expect("nobody is in the way");
    }
}

/// Replaces the state by one with two objects.
fn replace(server: &Alone) {
    let mut staged = server.registry.stage(NAME).expect("there is room");
    let objects = batch(vec![node(0), pod("replaced", 0)]);
    let applied = staged.apply(&objects, None, &Limits::default());
    applied.expect("there is room");
    let arrived = server.registry.now().steady;
    let replaced = server.registry.replace(NAME, staged, (None, None), arrived);
    replaced.expect("nobody is in the way");
}

#[test]
fn a_server_continues_from_its_directory() {
    let pair = Pair::new();
    let (server, came) = {
        pair.change(0);
        pair.start()
    };
    assert_eq!((came.followed, came.anew), (1, 0));
    // Both servers make batches, replaces and reservations.
    for at in [&server, &pair.other] {
        at.follow();
        replace(at);
        at.registry
            .update(NAME, offer(1, None))
            .expect("it is applied");
        reserve(at, None).expect("nobody is in the way");
    }
    server.follow();
    // This kills the server.
    drop(server);
    let (server, came) = pair.start();
    assert_eq!((came.followed, came.anew), (0, 0), "all of it was kept");
    assert_eq!(server.snapshot().reservations(0, "", 9).len(), 2);
    drop(server);
    pair.change(2);
    pair.change(3);
    let (_server, came) = pair.start();
    assert_eq!((came.followed, came.anew), (2, 0));
}

#[test]
fn what_the_log_does_not_continue_is_read_anew() {
    let pair = Pair::new();
    pair.change(0);
    drop(pair.start());
    // The log is made anew.
    let last = pair.log.messages(NAME).pop().expect("it has some");
    let removed = pair.runtime.block_on(pair.log.remove_if(NAME, &last));
    removed.expect("it is there");
    let other = Alone::on(&pair.log, "third", &pair.runtime);
    for number in 1..5 {
        let changed = other.registry.update(NAME, offer(number, None));
        changed.expect("nobody is in the way");
    }
    let pair = Pair { other, ..pair };
    let (server, came) = pair.start();
    assert_eq!(came.followed, 4);
    // From now on the directory keeps the state.
    server.replica.mend_local(NAME);
    drop(server);
    let (_server, came) = pair.start();
    assert_eq!((came.followed, came.anew), (0, 0));
}

#[test]
fn a_directory_that_is_behind_is_written_anew() {
    let pair = Pair::new();
    for number in 0..3 {
        pair.change(number);
    }
    // The log begins with a checkpoint.
    let written = pair.other.replica.checkpoint(NAME);
    assert_eq!(written, Ok(Some(3)));
    let trimmed = pair.runtime.block_on(pair.log.trim(NAME, 3));
    trimmed.expect("it is there");
    let (server, came) = pair.start();
    assert_eq!((came.followed, came.anew), (0, 1));
    server.replica.mend_local(NAME);
    pair.change(4);
    server.follow();
    drop(server);
    let (_server, came) = pair.start();
    assert_eq!((came.followed, came.anew), (0, 0));
}

#[test]
fn a_directory_belongs_to_a_log_or_to_a_server_of_its_own() {
    let pair = Pair::new();
    pair.change(0);
    let (server, _) = pair.start();
    let epoch = server.snapshot().epoch().to_owned();
    drop(server);
    // Without a log the server begins an epoch of its own, because the others may go on with
    // theirs.
    let store = open(pair.directory.path());
    store.leave_log().expect("it can be written");
    let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
    let registry = registry.with_journal(Arc::clone(&store) as _);
    let restored = store.restore(&registry, |_| true, |_| {});
    assert_eq!(restored.expect("it is whole").snapshots, 1);
    let alone = registry.get(NAME).expect("it is there");
    assert_ne!(alone.epoch(), epoch);
    registry
        .update(NAME, offer(1, None))
        .expect("it is applied");
    drop((alone, registry, store));
    // The log lacks what the server did without it.
    let store = open(pair.directory.path());
    let replica = Alone::replica(&pair.log, "keeps", &pair.runtime).with_local(store);
    let examined = replica.examine_local();
    assert!(
        matches!(&examined, Err(Unusable::Foreign(name)) if name == NAME),
        "{examined:?}"
    );
}
