//! A log that loses its last record while the server that has read it is disconnected. Another
//! server, which has not read that record, then appends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::log::Body;
use support::fake_log::{Call, FakeLog, Fate, Faults};

use crate::simulation::alone::{Alone, offer, runtime};
use crate::simulation::world::{NAME, digest};

/// A connection that is lost now and then.
#[derive(Default)]
struct Line(AtomicU64);

impl Faults for Line {
    fn fate(&self, _: Call) -> Fate {
        Fate::Done
    }

    fn connection(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_server_that_was_away_finds_out_that_its_last_record_is_another_one() {
    for appends in [false, true] {
        let log = FakeLog::default();
        let line = Arc::<Line>::default();
        let away = Alone::on(&log.seen_with(Arc::clone(&line) as _), "a");
        let other = Alone::on(&log, "b");
        away.put(0);
        other.read();
        away.put(1);
        log.lose_after(NAME, 1);
        // It ends where this one has read it.
        other.put(2);
        line.0.fetch_add(1, Ordering::Relaxed);
        if appends {
            let refused = away.registry.update(NAME, offer(3, None));
            assert!(refused.is_err(), "it follows on nothing: {refused:?}");
        }
        let is_due = runtime().block_on(away.replica.wait(NAME, Duration::ZERO));
        assert!(is_due, "it is to be followed");
        away.follow();
        assert_eq!(digest(&away.snapshot()), digest(&other.snapshot()));
        // All servers go on, and a new one can begin.
        away.put(4);
        other.put(5);
        away.follow();
        let new = Alone::on(&log, "c");
        new.follow();
        for server in [&away, &new] {
            assert_eq!(digest(&server.snapshot()), digest(&other.snapshot()));
        }
        let bodies = log
            .messages(NAME)
            .into_iter()
            .map(|it| Body::read(&it.bytes));
        let changes = bodies.filter(|body| body.as_ref().is_ok_and(|it| !it.entries.is_empty()));
        assert_eq!(changes.count(), 4, "nothing else was appended");
    }
}
