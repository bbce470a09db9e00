//! Time passes for reservations, whatever happens to the wall clock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::snapshot::clock::Uptime;
use evenkeel::snapshot::{DecidedPicks, Error, Hold, Limits, Now, Offer, Registry, Unobserved};
use evenkeel::store::{Durability, Store};
use tempfile::TempDir;

use super::slow_disk::Disk;

const HOUR: i64 = 3_600;

/// The clocks of a machine: a wall clock that can be set, and the time that passes, across boots.
#[derive(Clone)]
pub struct Clocks {
    passed: Arc<AtomicI64>,
    set_by: Arc<AtomicI64>,
    boots: Arc<AtomicI64>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            passed: Arc::new(AtomicI64::new(1_000_000)),
            set_by: Arc::default(),
            boots: Arc::default(),
        }
    }
}

impl Clocks {
    /// Lets time pass.
    pub fn pass(&self, seconds: i64) {
        self.passed.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets the wall clock so much forward, or back.
    fn set_by(&self, seconds: i64) {
        self.set_by.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Starts the machine again.
    fn boot(&self) {
        self.boots.fetch_add(1, Ordering::SeqCst);
    }

    /// A disk of the machine.
    pub fn disk(&self, directory: &TempDir) -> Arc<Disk> {
        let (passed, boots) = (Arc::clone(&self.passed), Arc::clone(&self.boots));
        let uptime = move || {
            let passed = passed.load(Ordering::SeqCst);
            Some(Uptime {
                boot: boots.load(Ordering::SeqCst).to_string(),
                passed: Duration::from_secs(passed.unsigned_abs()),
            })
        };
        let store = Store::open(directory.path(), Durability::Relaxed);
        Disk::of(store.expect("it can be opened").with_uptime(uptime))
    }

    fn now(&self) -> Now {
        let passed = self.passed.load(Ordering::SeqCst);
        let wall = passed + self.set_by.load(Ordering::SeqCst);
        Now {
            wall: time(wall),
            ..Now::from(time(passed))
        }
    }

    /// A registry that uses these clocks.
    pub fn registry(&self) -> Registry {
        let clocks = self.clone();
        let limits = Limits::default();
        Registry::with_clock(limits, Arc::new(Unobserved), move || clocks.now())
    }
}

fn time(second: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second.unsigned_abs())
}

/// The epoch, the revision, and the ids of the reservations.
pub type Seen = (String, i64, Vec<String>);

pub fn seen(registry: &Registry) -> Seen {
    let snapshot = registry.get("default").expect("it exists");
    let held = snapshot.reservations(0, "", usize::MAX);
    let held = held.into_iter().map(|listed| listed.id).collect();
    (snapshot.epoch().to_owned(), snapshot.revision(), held)
}

/// Makes a reservation for so many seconds.
pub fn hold(registry: &Registry, seconds: u64) {
    let offer = Offer::of(Arc::default(), registry.now().steady);
    let updated = registry.update("default", offer);
    let revision = updated.expect("it is applied").revision;
    let hold = Hold {
        owner: "deployer".into(),
        ttl: Duration::from_secs(seconds),
        template: Arc::default(),
    };
    let decided = DecidedPicks {
        revision,
        picks: vec![(0, "a".into())],
        answer: (),
    };
    let snapshot = registry.get("default").expect("it exists");
    let again = || -> Result<_, Error> { unreachable!("nobody else writes") };
    let tell = |(): &mut (), _| Vec::new();
    let reserved = snapshot.reserve((&[hold], None), registry.limits(), decided, again, tell);
    reserved.expect("it is held");
}

#[test]
fn a_wall_clock_that_is_set_neither_ends_nor_keeps_what_is_held() {
    for set_by in [-HOUR, HOUR] {
        for ttl in [3, 600] {
            let clocks = Clocks::default();
            let registry = clocks.registry();
            hold(&registry, ttl);
            clocks.set_by(set_by);
            for (passes, held) in [(0, 1), (ttl as i64 - 1, 1), (1, 0)] {
                clocks.pass(passes);
                registry.end_expired().expect("there is no disk");
                let (_, _, listed) = seen(&registry);
                assert_eq!(listed.len(), held, "{ttl} s, set by {set_by} s");
            }
        }
    }
}

#[test]
fn no_revision_of_an_epoch_stands_for_two_states() {
    // Each case has the seconds by which the wall clock is set before each restart.
    let cases = [[-HOUR, 0, 0], [0, -HOUR, HOUR], [HOUR, -HOUR, -HOUR]];
    for case in cases {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let clocks = Clocks::default();
        let mut states: HashMap<(String, i64), Vec<String>> = HashMap::new();
        let mut look = |registry: &Registry| {
            let (epoch, revision, held) = seen(registry);
            let known = states.entry((epoch, revision)).or_insert(held.clone());
            assert_eq!(*known, held, "revision {revision}, {case:?}");
        };
        for set_by in case {
            let disk = clocks.disk(&directory);
            let registry = disk.registry(clocks.registry());
            if registry.get("default").is_ok() {
                look(&registry);
            }
            for ttl in [600, 60, 3] {
                hold(&registry, ttl);
                look(&registry);
            }
            for _ in 0..2 {
                clocks.pass(10);
                registry.end_expired().expect("the disk works");
                look(&registry);
            }
            clocks.set_by(set_by);
        }
        let mut epochs: Vec<_> = states.into_keys().map(|(epoch, _)| epoch).collect();
        epochs.dedup();
        assert_eq!(epochs.len(), 1, "it is one history");
    }
}

/// If the machine runs on, the time that a restart takes is known. Otherwise only the wall clock
/// tells it. If that clock was set back, nothing is held longer than its TTL.
#[test]
fn after_a_restart_the_time_passed_counts_and_never_more_than_the_ttl() {
    // Each case has the seconds by which the wall clock is set, the seconds that the server is
    // away, and the seconds that the hold of 600 s lasts after that.
    let either = [(0, 0, 600), (0, 200, 400), (0, 600, 0), (0, 900, 0)];
    let runs_on = [(HOUR, 0, 600), (HOUR, 200, 400), (-HOUR, 200, 400)];
    let booted = [(-HOUR, 0, 600), (-HOUR, 200, 600), (-100, 200, 500)];
    for (boots, cases) in [(false, runs_on), (true, booted)] {
        for (set_by, away, left) in either.into_iter().chain(cases) {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let clocks = Clocks::default();
            let disk = clocks.disk(&directory);
            hold(&disk.registry(clocks.registry()), 600);
            drop(disk);
            clocks.set_by(set_by);
            clocks.pass(away);
            if boots {
                clocks.boot();
            }
            let disk = clocks.disk(&directory);
            let registry = disk.registry(clocks.registry());
            let snapshot = registry.get("default").expect("it is kept");
            let until = snapshot.until_next_end().map(|until| until.as_secs());
            assert_eq!(until, Some(left), "{boots}: {set_by}, {away}");
        }
    }
}
