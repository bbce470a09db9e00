//! The world that all servers of a run share: the log, the time, and a ledger of what clients were
//! told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel::snapshot::Snapshot;
use prost::Message;
use support::fake_log::{FakeLog, StaleLeader};
use support::linearizable::Event;

use crate::simulation::schedule::Dice;

/// The snapshot that all servers have.
pub const NAME: &str = "fleet";

/// The number of reservations that a node has room for.
pub const ROOM: usize = 2;

/// The number of nodes.
pub const NODES: usize = 3;

/// The world that all servers share.
pub struct World {
    pub seed: u64,
    pub dice: Dice,
    pub log: FakeLog,
    pub calm: AtomicBool,
    /// True if the events of the run are noted: `STORY` is set.
    tells: bool,
    pub finished: AtomicUsize,
    /// True if a server has put a pod since the world became calm.
    pub has_put_last: AtomicBool,
    /// The most time that passes with each call to the log, in microseconds.
    pub pace: AtomicUsize,
    /// A leader that is cut off from the others, and the number of calls for which it still is.
    stale: Mutex<Option<(StaleLeader, usize)>>,
    nanos: Arc<AtomicU64>,
    /// The number of milliseconds by which the clock of the log is ahead.
    pub log_ahead: Arc<AtomicU64>,
    ledger: Mutex<Ledger>,
}

/// The answers that clients got, and the states that were seen.
#[derive(Default)]
pub struct Ledger {
    /// Pods that were acknowledged, with the epoch and the revision.
    pub acknowledged: Vec<(String, String, i64)>,
    /// The revisions that were acknowledged, each with the change that has it.
    revisions: HashMap<(String, i64), String>,
    /// Pods that were refused for good.
    pub refused: HashSet<String>,
    /// Epochs that a client tried to delete, each with the pods that it had then. A log that lost
    /// records goes on in another epoch, with pods that were acknowledged in the one before.
    pub deleted: HashMap<String, HashSet<String>>,
    /// The state that was seen at each revision of an epoch.
    states: HashMap<(String, i64), String>,
    /// Reservations that were told to clients.
    pub ids: Vec<String>,
    /// The answers to clients about reservations.
    pub history: Vec<Event>,
    /// The number of moments so far.
    ticks: u64,
    /// The number of pods that were named.
    pub named: usize,
    /// The events of the run, for people who look at a failed one.
    pub story: Vec<String>,
}

impl Ledger {
    /// The next moment.
    pub fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

impl World {
    pub fn of(seed: u64) -> Arc<Self> {
        let nanos = Arc::new(AtomicU64::new(1_000_000_000_000_000_000));
        let log_ahead = Arc::<AtomicU64>::default();
        let clock = (Arc::clone(&nanos), Arc::clone(&log_ahead));
        let log = FakeLog::with_clock(move || {
            let ahead = Duration::from_millis(clock.1.load(Ordering::Relaxed));
            UNIX_EPOCH + Duration::from_nanos(clock.0.load(Ordering::Relaxed)) + ahead
        });
        Arc::new(Self {
            seed,
            dice: Dice::of(seed),
            log,
            calm: AtomicBool::new(false),
            tells: std::env::var_os("STORY").is_some(),
            finished: AtomicUsize::new(0),
            has_put_last: AtomicBool::new(false),
            pace: AtomicUsize::new(40_000),
            stale: Mutex::default(),
            nanos,
            log_ahead,
            ledger: Mutex::default(),
        })
    }

    pub fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    pub fn pass_time(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).expect("spans are short");
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A server that crashes may hold the lock.
        self.ledger
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the leader that is cut off from the others now, if there is one, and counts a call.
    pub fn stale_leader(&self) -> Option<StaleLeader> {
        let mut stale = self.stale.lock().expect("nobody panics here");
        match &mut *stale {
            Some((_, 0)) => *stale = None,
            Some((_, calls)) => *calls -= 1,
            None if self.dice.happens(3) => {
                let calls = 10 + self.dice.below(150);
                *stale = Some((self.log.cut_off(), calls));
            }
            None => {}
        }
        stale.as_ref().map(|(leader, _)| leader.clone())
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            self.ledger().story.push(what());
        }
    }

    /// Ends the run, and says what is wrong.
    pub fn fail(&self, what: &str) -> ! {
        let story = std::mem::take(&mut self.ledger().story).join("\n");
        panic!("seed {}: {what}\n{story}", self.seed);
    }

    /// Notes a change that was acknowledged. No two have the same revision.
    pub fn acknowledge(&self, who: &str, epoch: &str, revision: i64) {
        let place = (epoch.to_owned(), revision);
        let other = self.ledger().revisions.insert(place, who.to_owned());
        if let Some(other) = other.filter(|other| other != who) {
            self.fail(&format!(
                "{who} and {other} were both given revision {revision}"
            ));
        }
    }

    /// Checks the state that a server answers with.
    pub fn look(&self, server: usize, snapshot: &Snapshot) {
        if snapshot.revision() == 0 || !snapshot.is_synced() {
            return;
        }
        let held = reserved(snapshot);
        if let Some((node, count)) = held.iter().find(|(_, count)| **count > ROOM) {
            self.fail(&format!(
                "server {server} holds {count} reservations on {node}"
            ));
        }
        let place = (snapshot.epoch().to_owned(), snapshot.revision());
        let seen = digest(snapshot);
        self.tell(|| format!("  {server} is at {} of {}", place.1, &place.0[..8]));
        let before = self
            .ledger()
            .states
            .entry(place.clone())
            .or_insert(seen.clone())
            .clone();
        if before != seen {
            self.fail(&format!(
                "server {server} differs at revision {}:\n{before}\n{seen}",
                place.1
            ));
        }
    }
}

/// Returns how many reservations each node has.
pub fn reserved(snapshot: &Snapshot) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for listed in snapshot.reservations(0, "", usize::MAX) {
        *counts.entry(listed.held.node.to_string()).or_default() += 1;
    }
    counts
}

/// A digest of everything that decisions read of a snapshot.
pub fn digest(snapshot: &Snapshot) -> String {
    let state = snapshot.state();
    let mut objects = Vec::new();
    for change in state.changes() {
        change.encode(&mut objects).expect("a vector has room");
    }
    let held = snapshot.reservations(0, "", usize::MAX);
    let held: Vec<String> = held
        .iter()
        .map(|listed| format!("{}@{}", listed.serial, listed.held.node))
        .collect();
    let hash = evenkeel::log::record::digest(&[&objects]);
    format!(
        "{:02x?} pods {} held {held:?}",
        &hash[..6],
        snapshot.summary().sizes.pods
    )
}

/// The names of all pods.
pub fn pods(snapshot: &Snapshot) -> HashSet<String> {
    use evenkeel::proto::v1::change::Object;
    let state = snapshot.state();
    let pods = state.changes().filter_map(|change| match change.object {
        Some(Object::Pod(pod)) => Some(pod.metadata.unwrap_or_default().name),
        _ => None,
    });
    pods.collect()
}
