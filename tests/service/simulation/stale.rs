//! A leader that was cut off from the others, and still answers with an older end of the log. No
//! server goes back because of it, and no server that starts believes it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use evenkeel::snapshot::Registry;
use support::fake_log::{Call, FakeLog, Fate, Faults, StaleLeader};

use crate::simulation::alone::{Alone, offer};
use crate::simulation::world::{NAME, digest};

/// The connection to a log, which may lead to a leader that was cut off. Whenever the server calls
/// the log, a client notes what the server answers with.
#[derive(Default)]
struct Way {
    leader: Mutex<Option<StaleLeader>>,
    losses: AtomicU64,
    is_full: AtomicBool,
    registry: OnceLock<Weak<Registry>>,
    answered: Mutex<Vec<(String, i64)>>,
}

impl Way {
    fn lead_to(&self, leader: Option<StaleLeader>) {
        *self.leader.lock().expect("nobody panics here") = leader;
    }

    fn look(&self) {
        let registry = self.registry.get().and_then(Weak::upgrade);
        let found = registry.and_then(|registry| registry.get(NAME).ok());
        if let Some(snapshot) = found.filter(|it| it.is_synced() && it.revision() > 0) {
            let answer = (snapshot.epoch().to_owned(), snapshot.revision());
            self.answered
                .lock()
                .expect("nobody panics here")
                .push(answer);
        }
    }

    /// Checks that no answer had a lower revision than an earlier answer of the same epoch.
    fn check(&self) {
        self.look();
        let answered = self.answered.lock().expect("nobody panics here");
        for (at, (epoch, revision)) in answered.iter().enumerate() {
            let mut before = answered[..at].iter().filter(|(other, _)| other == epoch);
            assert!(before.all(|(_, it)| it <= revision), "{answered:?}");
        }
    }
}

impl Faults for Way {
    fn fate(&self, call: Call) -> Fate {
        self.look();
        match call == Call::Append && self.is_full.load(Ordering::Relaxed) {
            true => Fate::Full,
            false => Fate::Done,
        }
    }

    fn stale_leader(&self) -> Option<StaleLeader> {
        self.leader.lock().expect("nobody panics here").clone()
    }

    fn connection(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    fn passes(&self, _: Duration) -> bool {
        true
    }
}

/// A server with such a connection, and another one without faults.
struct Two {
    log: FakeLog,
    way: Arc<Way>,
    server: Alone,
    other: Alone,
}

impl Two {
    /// Both servers have read this many records, of which a checkpoint covers two.
    fn after(records: usize) -> Self {
        let log = FakeLog::default();
        let way = Arc::<Way>::default();
        let server = Alone::on(&log.seen_with(Arc::clone(&way) as _), "a");
        let other = Alone::on(&log, "b");
        way.registry
            .get_or_init(|| Arc::downgrade(&server.registry));
        let two = Self {
            log,
            way,
            server,
            other,
        };
        for number in 0..records {
            two.other.put(number);
            if number == 1 {
                let written = two.other.replica.checkpoint(NAME);
                assert_eq!(written, Ok(Some(2)));
            }
        }
        two.server.read();
        two
    }

    /// Checks that both servers go on, and hold the same.
    fn go_on(&self) {
        self.server.follow();
        self.other.follow();
        self.server.read();
        self.server.put(99);
        self.other.follow();
        let held = [&self.server, &self.other].map(|it| digest(&it.snapshot()));
        assert_eq!(held[0], held[1]);
        self.way.check();
    }
}

#[test]
fn a_server_does_not_go_back_with_a_leader_that_was_cut_off() {
    let two = Two::after(3);
    let cut_off = two.log.cut_off();
    two.other.put(3);
    two.server.read();
    let before = (two.server.snapshot().epoch().to_owned(), 4);
    two.way.lead_to(Some(cut_off));
    for all in [false, true, false] {
        let followed = two.server.replica.follow(NAME, all);
        followed.expect_err("nobody knows whether the log ends there");
        let snapshot = two.server.snapshot();
        let now = (snapshot.epoch().to_owned(), snapshot.revision());
        assert_eq!(now, before);
        let changed = two.server.registry.update(NAME, offer(4, None));
        changed.expect_err("nothing can be appended");
        let lag = two.server.replica.lags().pop().expect("it has a log");
        assert_eq!(lag.trouble, None, "that passes");
    }
    two.other.put(4);
    two.way.lead_to(None);
    two.go_on();
    assert_eq!(two.server.snapshot().epoch(), before.0);
}

#[test]
fn a_server_that_starts_at_a_leader_that_was_cut_off_waits_for_all_that_was_acknowledged() {
    let two = Two::after(3);
    let cut_off = two.log.cut_off();
    two.other.put(3);
    let way = Arc::<Way>::default();
    way.lead_to(Some(cut_off));
    let new = Alone::on(&two.log.seen_with(Arc::clone(&way) as _), "c");
    // A log without room tells a server nothing about what others have.
    for is_full in [false, true, false] {
        way.is_full.store(is_full, Ordering::Relaxed);
        let followed = new.replica.follow(NAME, true);
        followed.expect_err("not all of it is there");
    }
    way.lead_to(None);
    new.follow();
    assert_eq!(digest(&new.snapshot()), digest(&two.other.snapshot()));
}

#[test]
fn what_a_log_has_lost_goes_on_under_a_new_epoch() {
    // Each case is the number of records that are left of five, and of those that others append
    // then.
    for (left, more) in [(4, 0), (3, 0), (3, 1), (3, 2), (2, 2), (2, 4)] {
        let two = Two::after(5);
        let epoch = two.server.snapshot().epoch().to_owned();
        two.log.lose_after(NAME, left);
        two.way.losses.fetch_add(1, Ordering::Relaxed);
        // This server has read only the records that are left.
        let late = Alone::on(&two.log, "c");
        late.read();
        for number in 0..more {
            late.put(10 + number);
        }
        for _ in 0..3 {
            let _ = two.server.replica.follow(NAME, false);
            two.way.check();
        }
        two.go_on();
        late.follow();
        assert_eq!(digest(&late.snapshot()), digest(&two.server.snapshot()));
        let is_same = two.server.snapshot().epoch() == epoch;
        assert_eq!(is_same, left + more as u64 >= 5, "{left} and {more}");
    }
}
