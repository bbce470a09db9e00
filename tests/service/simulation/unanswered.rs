//! Messages to a log that does not say whether they landed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel::snapshot::{Claim, Error, JournalError, Now};
use support::fake_log::{Call, FakeLog, Fate, Faults};

use crate::simulation::alone::{Alone, offer};
use crate::simulation::unclaimed::reserve;
use crate::simulation::world::{NAME, World};

/// A log of three servers. When two are away, the third one goes on leading: it answers with what
/// it has, and acknowledges nothing.
#[derive(Default)]
struct Leader {
    is_alone: AtomicBool,
    appends: AtomicUsize,
}

impl Faults for Leader {
    fn fate(&self, call: Call) -> Fate {
        if call != Call::Append {
            return Fate::Done;
        }
        self.appends.fetch_add(1, Ordering::Relaxed);
        match self.is_alone.load(Ordering::Relaxed) {
            true => Fate::Lost,
            false => Fate::Done,
        }
    }

    fn keepers(&self) -> usize {
        match self.is_alone.load(Ordering::Relaxed) {
            true => 1,
            false => 3,
        }
    }

    fn passes(&self, _: Duration) -> bool {
        true
    }
}

#[test]
fn changes_are_refused_at_once_while_one_server_leads_alone() {
    let leader = Arc::<Leader>::default();
    let log = FakeLog::default().seen_with(Arc::clone(&leader) as _);
    let server = Alone::on(&log, "a");
    let update = |number| server.registry.update(NAME, offer(number, None));
    server.put(0);

    leader.is_alone.store(true, Ordering::Relaxed);
    let doubted = update(1).expect_err("nothing is acknowledged");
    let is_doubt = matches!(doubted, Error::NotStored(JournalError::UnknownFate { .. }));
    assert!(is_doubt, "it was sent: {doubted:?}");
    let sent = leader.appends.load(Ordering::Relaxed);
    for number in 2..5 {
        let refused = update(number).expect_err("nothing is acknowledged");
        let is_known = matches!(refused, Error::NotStored(JournalError::Unreachable(_)));
        assert!(is_known, "nothing was sent: {refused:?}");
    }
    assert_eq!(leader.appends.load(Ordering::Relaxed), sent);

    leader.is_alone.store(false, Ordering::Relaxed);
    server.put(5);
}

/// A log that stops answering appends. A caller that waits for it waits for the agreed time.
struct Silent {
    world: Arc<World>,
    is_silent: AtomicBool,
}

impl Faults for Silent {
    fn fate(&self, call: Call) -> Fate {
        match call == Call::Append && self.is_silent.load(Ordering::Relaxed) {
            true => Fate::Lost,
            false => Fate::Done,
        }
    }

    fn silent(&self, within: Duration) {
        self.world.pass_time(within);
    }

    fn passes(&self, within: Duration) -> bool {
        self.world.pass_time(within);
        true
    }
}

#[test]
fn a_caller_is_told_after_twelve_seconds_that_there_is_no_answer() {
    let world = World::of(0);
    let silent = Arc::new(Silent {
        world: Arc::clone(&world),
        is_silent: AtomicBool::new(false),
    });
    let log = world.log.seen_with(Arc::clone(&silent) as _);
    let clock = Arc::clone(&world);
    let server = Alone::at(&log, "a", move || Now::from(clock.now()));
    server.put(0);
    silent.is_silent.store(true, Ordering::Relaxed);
    let before = world.now();
    let doubted = server.registry.update(NAME, offer(1, None));
    let doubted = doubted.expect_err("nothing is acknowledged");
    let is_doubt = matches!(doubted, Error::NotStored(JournalError::UnknownFate { .. }));
    assert!(is_doubt, "it was sent: {doubted:?}");
    let took = world.now().duration_since(before).expect("time passes");
    assert_eq!(took, Duration::from_secs(12));
}

/// A log that takes the first message from now on, but loses the answer and shows the message to
/// nobody until it is asked where it ends.
#[derive(Default)]
struct Hidden {
    hides: AtomicBool,
    has_one: AtomicBool,
}

impl Faults for Hidden {
    fn fate(&self, call: Call) -> Fate {
        match (call, self.hides.load(Ordering::Relaxed)) {
            (Call::Append, true) => {
                self.has_one.store(true, Ordering::Relaxed);
                Fate::AnswerLost
            }
            (Call::Next, true) => Fate::NotYet,
            (Call::Read, _) if self.has_one.load(Ordering::Relaxed) => {
                self.hides.store(false, Ordering::Relaxed);
                Fate::Done
            }
            _ => Fate::Done,
        }
    }

    fn passes(&self, _: Duration) -> bool {
        true
    }
}

/// A step on a snapshot and one of its reservations.
type Step = fn(&Alone, String) -> Result<(), Error>;

/// A server does not take its own record, which shows up late, for the work of others: it does not
/// say that a reservation is unknown, or that the snapshot is not there.
#[test]
fn what_may_have_been_done_is_not_tried_again() {
    let steps: [(&str, Step); 5] = [
        ("reserve", |server, _| reserve(server, None).map(drop)),
        ("confirm", |server, id| {
            let claim = Claim {
                name: "taken".into(),
                uid: "".into(),
            };
            server.snapshot().confirm(vec![(id, claim)]).map(drop)
        }),
        ("renew", |server, id| {
            server.snapshot().renew(vec![id], None).map(drop)
        }),
        ("release", |server, id| {
            server.snapshot().release(vec![id]).map(drop)
        }),
        ("delete", |server, _| {
            let epoch = server.snapshot().epoch().to_owned();
            server.registry.delete(NAME, &epoch).map(drop)
        }),
    ];
    for (name, step) in steps {
        let hidden = Arc::<Hidden>::default();
        let log = FakeLog::default().seen_with(Arc::clone(&hidden) as _);
        let server = Alone::on(&log, "a");
        server.put(0);
        reserve(&server, None).expect("there is room");
        let id = server.snapshot().reservations(0, "", 1)[0].id.clone();
        hidden.hides.store(true, Ordering::Relaxed);
        let doubted = step(&server, id).expect_err(name);
        let is_doubt = matches!(doubted, Error::NotStored(JournalError::UnknownFate { .. }));
        assert!(is_doubt, "{name}: it was sent: {doubted:?}");
    }
}

/// Calls `before` ahead of each next message, and skips the message.
struct Passed {
    is_next: AtomicBool,
    before: Box<dyn Fn() + Send + Sync>,
}

impl Faults for Passed {
    fn fate(&self, call: Call) -> Fate {
        if call != Call::Next || !self.is_next.load(Ordering::Relaxed) {
            return Fate::Done;
        }
        // The reader waits on a runtime, and `before` may not wait on the same thread.
        let happened = thread::scope(|scope| scope.spawn(&self.before).join());
        happened.expect("nothing is wrong");
        Fate::Skipped
    }
}

/// The record landed, but its reader was given the next one. So the log cannot be trusted.
#[test]
fn what_was_sent_is_doubted_where_the_log_cannot_be_trusted() {
    let log = FakeLog::default();
    let other = Alone::on(&log, "b");
    other.put(0);
    let before = move || {
        other.put(1);
    };
    let passed = Arc::new(Passed {
        is_next: AtomicBool::new(false),
        before: Box::new(before),
    });
    let server = Alone::on(&log.seen_with(Arc::clone(&passed) as _), "a");
    server.follow();
    let snapshot = server.snapshot();
    passed.is_next.store(true, Ordering::Relaxed);
    let doubted = server.registry.update(NAME, offer(2, None));
    let doubted = doubted.expect_err("it was not read back");
    let is_doubt = matches!(doubted, Error::NotStored(JournalError::UnknownFate { .. }));
    assert!(is_doubt, "it was sent: {doubted:?}");
    assert!(!snapshot.is_synced(), "what it read may be wrong");
}
