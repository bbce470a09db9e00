//! Requests whose answer was lost, and decisions of a server that is behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel::limits::Limits;
use evenkeel::snapshot::reserving::{Reserved, Reserving};
use evenkeel::snapshot::{DecidedPicks, Error, JournalError, Retryable};
use support::fake_log::{Call, FakeLog, Fate, Faults};

use crate::simulation::alone::Alone;
use crate::simulation::holding::hold;

/// Delays one kind of call while it is set: appends arrive late, or a message is not there yet when
/// it is first asked for.
struct Slow(AtomicBool, Call);

impl Slow {
    fn at(call: Call) -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false), call))
    }
}

impl Faults for Slow {
    fn fate(&self, call: Call) -> Fate {
        match call {
            _ if call != self.1 => Fate::Done,
            Call::Next if self.0.swap(false, Ordering::Relaxed) => Fate::NotYet,
            Call::Append if self.0.load(Ordering::Relaxed) => Fate::Late,
            _ => Fate::Done,
        }
    }

    fn passes(&self, _: Duration) -> bool {
        true
    }
}

/// Reserves a place. Returns true if the answer is that of an earlier request.
pub fn reserve(server: &Alone, request: Option<Retryable>) -> Result<bool, Error> {
    let decide = || DecidedPicks {
        revision: server.snapshot().revision(),
        picks: vec![(0, "n0".into())],
        answer: (),
    };
    let tell = |_: &mut (), reserved: Reserved| reserved.ids.concat().into_bytes();
    let holds = [hold(Duration::from_secs(3_600))];
    let wanted = (&holds[..], request);
    let limits = Limits::default();
    let reserved = server
        .snapshot()
        .reserve(wanted, &limits, decide(), || Ok(decide()), tell);
    reserved.map(|reserving| matches!(reserving, Reserving::Repeated(_)))
}

/// Returns a server that does not know yet that a reservation was released elsewhere, and the
/// reservation. The server reads the release only when it asks a second time.
fn behind(log: &FakeLog) -> (Alone, String) {
    let server = Alone::on(log, "a");
    let slow = Slow::at(Call::Next);
    let other = Alone::on(&log.seen_with(Arc::clone(&slow) as _), "b");
    server.put(0);
    other.follow();
    reserve(&server, None).expect("nobody is in the way");
    other.follow();
    let id = server.snapshot().reservations(0, "", 1)[0].id.clone();
    let released = server.snapshot().release(vec![id.clone()]);
    assert_eq!(released.expect("it is held").revision, 3);
    assert_eq!(other.snapshot().revision(), 2, "it is behind");
    slow.0.store(true, Ordering::Relaxed);
    (other, id)
}

/// Another server has made a place free. A server that has not read that yet reads it before it
/// says that there is no place.
#[test]
fn nothing_is_refused_by_a_state_that_is_over() {
    let log = FakeLog::default();
    let (other, _) = behind(&log);
    let snapshot = other.snapshot();
    let decide = || DecidedPicks {
        revision: snapshot.revision(),
        picks: match snapshot.reservations(0, "", 1).len() {
            0 => vec![(0, "n0".into())],
            _ => Vec::new(),
        },
        answer: Vec::new(),
    };
    let holds = [hold(Duration::from_secs(3_600))];
    let tell = |answer: &mut Vec<String>, reserved: Reserved| {
        *answer = reserved.ids;
        Vec::new()
    };
    let limits = Limits::default();
    let again = || Ok::<_, Error>(decide());
    let reserved = snapshot.reserve((&holds, None), &limits, decide(), again, tell);
    let Ok(Reserving::Done(ids)) = reserved else {
        panic!("nothing is wrong");
    };
    assert_eq!((ids.len(), snapshot.revision()), (1, 4));
}

/// A change that need not be recorded is answered from all that was acknowledged before. Here a
/// reservation is already held for longer than its renewal asks for.
#[test]
fn nothing_is_renewed_that_was_released_elsewhere() {
    let log = FakeLog::default();
    let (server, id) = behind(&log);
    let short = Some(Duration::from_secs(1));
    let renewed = server.snapshot().renew(vec![id.clone()], short);
    let renewed = renewed.expect("the log is there");
    assert_eq!((renewed.revision, renewed.unknown), (3, vec![id]));
}

/// A recorded change takes all earlier records into account, so it is not made a second time
/// because a part of it was unknown.
#[test]
fn of_what_is_released_together_only_that_is_unknown_which_was_not_held() {
    let log = FakeLog::default();
    let (server, gone) = behind(&log);
    reserve(&server, None).expect("nobody is in the way");
    let id = server.snapshot().reservations(0, "", 1)[0].id.clone();
    let released = server.snapshot().release(vec![id, gone.clone()]);
    let released = released.expect("the log is there");
    assert_eq!((released.revision, released.unknown), (5, vec![gone]));
}

/// The answer was lost, and the record arrived later: whoever asks again gets the same reservation.
#[test]
fn a_request_whose_record_arrived_late_is_answered_again() {
    let request = Some(Retryable {
        key: [1; 32],
        question: [0; 32],
    });
    let (log, slow) = (FakeLog::default(), Slow::at(Call::Append));
    let server = Alone::on(&log.seen_with(Arc::clone(&slow) as _), "a");
    let other = Alone::on(&log, "b");
    server.put(0);
    other.follow();
    slow.0.store(true, Ordering::Relaxed);
    let unknown = reserve(&server, request).expect_err("no answer came");
    let is_unknown = matches!(&unknown, Error::NotStored(JournalError::UnknownFate { .. }));
    assert!(is_unknown, "{unknown}");
    while log.late() > 0 {
        log.arrive(0);
    }
    slow.0.store(false, Ordering::Relaxed);
    for server in [&server, &other] {
        server.follow();
        assert_eq!(reserve(server, request), Ok(true));
        assert_eq!(server.snapshot().reservations(0, "", 10).len(), 1);
    }
}
