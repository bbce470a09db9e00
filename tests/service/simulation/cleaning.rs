//! Data that no server needs any more is removed, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::limits::Limits;
use evenkeel::log::Log;
use evenkeel::proto::v1::change::Object;
use evenkeel::snapshot::offer::Update;
use evenkeel::snapshot::{Aside, Error, Journal};
use support::fake_log::FakeLog;

use crate::simulation::alone::{Alone, offer, runtime};
use crate::simulation::wishes::{batch, pod};
use crate::simulation::world::NAME;

const HOUR: u64 = 3_600;

/// A log and servers whose time passes only through [`Later::pass`].
struct Later {
    log: FakeLog,
    seconds: Arc<AtomicU64>,
}

impl Later {
    fn new() -> Self {
        let seconds = Arc::new(AtomicU64::new(1_000_000_000));
        let clock = Arc::clone(&seconds);
        Self {
            log: FakeLog::with_clock(move || at(&clock)),
            seconds,
        }
    }

    fn server(&self, name: &str) -> Alone {
        self.server_ahead(name, 0)
    }

    /// A server whose clock is ahead by this many seconds.
    fn server_ahead(&self, name: &str, ahead: u64) -> Alone {
        let clock = Arc::clone(&self.seconds);
        let now = move || (at(&clock) + Duration::from_secs(ahead)).into();
        Alone::at(&self.log, name, now)
    }

    fn pass(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The number of blobs.
    fn parts(&self) -> usize {
        let blobs = self.log.blobs();
        let listed = ["parts/", "checkpoint/"].map(|it| runtime().block_on(blobs.list(it)));
        let listed = listed.map(|it| it.expect("nothing goes wrong").len());
        listed.iter().sum()
    }
}

fn at(seconds: &AtomicU64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed))
}

/// More pods than fit into one part.
fn many() -> Vec<Object> {
    let pods = (0..100_000).map(|number| pod(&format!("pod-{number:060}"), 0));
    pods.collect()
}

/// Writes a state aside, and does not commit it.
fn stage(server: &Alone) -> Aside {
    let aside = server.replica.open_aside().expect("there is room");
    let written = server.replica.write_aside(aside, &batch(many()));
    written.expect("there is room");
    aside
}

/// Replaces the state by one with many pods; `meanwhile` happens before it is committed.
fn replace(server: &Alone, meanwhile: impl FnOnce()) -> Result<Update, Error> {
    let mut staged = server.registry.stage(NAME).expect("there is room");
    let applied = staged.apply(&batch(many()), None, &Limits::default());
    applied.expect("there is room");
    meanwhile();
    let arrived = server.registry.now().steady;
    server.registry.replace(NAME, staged, (None, None), arrived)
}

#[test]
fn parts_that_no_record_names_are_dropped_after_hours() {
    let later = Later::new();
    let server = later.server("a");
    server.put(0);
    // A record names some parts, a checkpoint names others, and the rest was given up.
    replace(&server, || ()).expect("nobody is in the way");
    server.replica.checkpoint(NAME).expect("it is written");
    let needed = later.parts();
    let aside = stage(&server);
    server.replica.drop_aside(aside);
    assert!(later.parts() > needed, "it left parts behind");
    assert_eq!(server.replica.drop_orphans(), Ok(0), "it is seen first");
    later.pass(5 * HOUR);
    assert_eq!(server.replica.drop_orphans(), Ok(0), "it may be in use");
    later.pass(2 * HOUR);
    assert!(
        server
            .replica
            .drop_orphans()
            .is_ok_and(|dropped| dropped > 0)
    );
    assert_eq!(later.parts(), needed);
    // The parts that are left are enough for a new server.
    let new = later.server("b");
    new.follow();
    assert_eq!(new.snapshot().revision(), server.snapshot().revision());
}

#[test]
fn a_server_whose_clock_is_ahead_drops_nothing_that_is_being_written() {
    let later = Later::new();
    let (server, ahead) = (later.server("a"), later.server_ahead("b", 7 * HOUR));
    server.put(0);
    ahead.read();
    let look = |server: &Alone| assert_eq!(server.replica.drop_orphans(), Ok(0));
    replace(&server, || {
        look(&ahead);
        later.pass(4 * HOUR);
        look(&ahead);
    })
    .expect("nobody is in the way");
    let new = later.server("c");
    new.follow();
    assert_eq!(new.snapshot().revision(), 2);
    // A write to a state restarts the time after which its parts count as old.
    let aside = stage(&server);
    look(&ahead);
    later.pass(5 * HOUR);
    let more = server.replica.write_aside(aside, &batch(many()));
    more.expect("there is room");
    look(&ahead);
    later.pass(5 * HOUR);
    look(&ahead);
    later.pass(HOUR);
    assert!(
        ahead
            .replica
            .drop_orphans()
            .is_ok_and(|dropped| dropped > 1)
    );
}

#[test]
fn what_is_not_there_any_more_is_not_committed() {
    let later = Later::new();
    let server = later.server("a");
    server.put(0);
    let replaced = replace(&server, || {
        let blobs = later.log.blobs();
        let listed = runtime().block_on(blobs.list("parts/"));
        for part in listed.expect("nothing goes wrong") {
            let dropped = runtime().block_on(blobs.remove(&part));
            dropped.expect("nothing goes wrong");
        }
    });
    assert!(replaced.is_err(), "{replaced:?}");
    let new = later.server("b");
    new.follow();
    assert_eq!(new.snapshot().revision(), 1);
    server.put(1);
    new.follow();
    assert_eq!(new.snapshot().revision(), 2);
}

#[test]
fn what_takes_too_long_to_be_written_is_not_committed() {
    let later = Later::new();
    let server = later.server("a");
    server.put(0);
    let replaced = replace(&server, || later.pass(5 * HOUR));
    assert!(replaced.is_err(), "{replaced:?}");
}

#[test]
fn the_log_of_a_deleted_snapshot_goes_soon_with_all_that_it_needs() {
    let later = Later::new();
    let (server, other, asleep) = (later.server("a"), later.server("b"), later.server("c"));
    let names = || runtime().block_on(later.log.names());
    server.put(0);
    replace(&server, || ()).expect("nobody is in the way");
    server.replica.checkpoint(NAME).expect("it is written");
    [&other, &asleep].into_iter().for_each(Alone::follow);
    let remove = |may: bool| server.replica.remove_deleted(NAME, || may);
    later.pass(30 * HOUR);
    assert_eq!(remove(true), Ok(false), "it is not deleted");
    server.registry.delete(NAME, "").expect("it is there");
    other.follow();
    later.pass(10);
    assert_eq!(remove(true), Ok(false), "it is too early");
    later.pass(15);
    server.read();
    // Another server may have the right to remove the log by now: the log is closed, and stays.
    assert_eq!(remove(false), Ok(false));
    assert_eq!(names(), Ok(vec![NAME.to_owned()]));
    let refused = other.registry.update(NAME, offer(1, None));
    assert!(
        refused.is_err(),
        "it would be lost with the log: {refused:?}"
    );
    assert_eq!(remove(true), Ok(true));
    assert_eq!(names(), Ok(Vec::new()));
    assert_eq!(later.parts(), 0);
    // A server that did not read of the deletion learns that it was no mishap.
    let _ = asleep.replica.follow(NAME, false);
    asleep.follow();
    assert!(asleep.registry.get(NAME).is_err(), "it is deleted");
    assert_eq!(asleep.replica.troubles(), Vec::<String>::new());
    // Either server makes the log anew, and both follow it.
    other.put(2);
    server.follow();
    assert_eq!(server.snapshot().epoch(), other.snapshot().epoch());
    server.put(3);
    other.follow();
    assert_eq!(other.snapshot().revision(), 2);
}
