//! A log that loses its last record while the server that has read it is disconnected. Another
//! server, which has not read that record, then appends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel::log::Body;
use support::fake_log::{Call, FakeLog, Fate, Faults};
use tokio::runtime::Runtime;

use crate::simulation::alone::{Alone, offer};
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
        let (runtime, log) = (Runtime::new().expect("a runtime"), FakeLog::default());
        let line = Arc::<Line>::default();
        let away = Alone::on(&log.seen_with(Arc::clone(&line) as _), "a", &runtime);
        let other = Alone::on(&log, "b", &runtime);
        let update = |server: &Alone, number| server.registry.update(NAME, offer(number, None));
        update(&away, 0).expect("nobody is in the way");
        other.read();
        update(&away, 1).expect("nobody is in the way");
        log.lose_after(NAME, 1);
        update(&other, 2).expect("it ends where the other one has read it");
        line.0.fetch_add(1, Ordering::Relaxed);
        if appends {
            let refused = update(&away, 3);
            assert!(refused.is_err(), "it follows on nothing: {refused:?}");
        }
        let is_due = runtime.block_on(away.replica.wait(NAME, Duration::ZERO));
        assert!(is_due, "it is to be followed");
        away.follow();
        assert_eq!(digest(&away.snapshot()), digest(&other.snapshot()));
        // All servers go on, and a new one can begin.
        update(&away, 4).expect("it has read all");
        update(&other, 5).expect("it has read all");
        away.follow();
        let new = Alone::on(&log, "c", &runtime);
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
