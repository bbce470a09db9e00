//! Checks of this server's clocks: they are compared with the clock of the log.
//!
//! No wall clock decides when something ends that several servers keep: each server measures time
//! spans by its own monotonic clock. How old a record is that a server reads when it starts, follows
//! from the log's own times. A server whose wall clock is wrong appends nothing, because
//! the times in its records would be wrong. A server whose monotonic clock runs otherwise than the
//! clock of the log measures its time spans anew.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::snapshot::held_row::nanos;
use crate::snapshot::{JournalError, Moment, Now};

/// The largest difference between the wall clock and the clock of the log.
const MAX_SKEW: Duration = Duration::from_millis(500);

/// The largest difference between the time that has passed by the monotonic clock and by the clock
/// of the log.
const MAX_DRIFT: Duration = Duration::from_millis(250);

/// The longest time that a comparison may take to tell how much time has passed.
const QUICK: Duration = Duration::from_millis(250);

/// The largest error of a time span that was measured while both clocks kept to these limits.
pub const GRACE: Duration = Duration::from_secs(1);

/// The largest difference between the clocks of nats-servers, which lead a log in turn.
const BROKERS: Duration = Duration::from_secs(2);

/// The time for which a comparison stays valid, unless the wall clock is set.
const COUNTS: Duration = Duration::from_secs(10);

/// The last comparisons of the clocks of this server.
#[derive(Default)]
pub struct ClockWatch(Mutex<KnownClocks>);

#[derive(Default)]
struct KnownClocks {
    compared: Option<WallComparison>,
    /// The nanoseconds by which the clock of the log was ahead of the monotonic clock at the first
    /// comparison, or when it was last found to run otherwise.
    ahead: Option<i64>,
    /// The moment of that comparison.
    since: Moment,
}

/// The last comparison of the wall clock.
#[derive(Clone, Copy)]
struct WallComparison {
    /// The difference between both clocks.
    skew: Duration,
    is_ahead: bool,
    at: Now,
}

impl WallComparison {
    /// Compares the wall clock with the time that the log told between two moments.
    fn of(told: SystemTime, from: Now, to: Now) -> Self {
        let ahead = from.wall.duration_since(told).unwrap_or_default();
        let behind = told.duration_since(to.wall).unwrap_or_default();
        Self {
            skew: ahead.max(behind),
            is_ahead: ahead > behind,
            at: to,
        }
    }

    fn trouble(&self) -> Option<String> {
        let way = if self.is_ahead { "ahead of" } else { "behind" };
        let skew = Duration::from_millis(u64::try_from(self.skew.as_millis()).unwrap_or(u64::MAX));
        let skew = humantime::format_duration(skew);
        let is_off = self.skew > MAX_SKEW;
        is_off.then(|| format!("the clock of this server is {skew} {way} that of the log"))
    }

    /// Returns whether the comparison is still valid.
    fn is_of(&self, now: Now) -> bool {
        let passed = now.steady.since(self.at.steady);
        let expected = self.at.wall + passed;
        let set_forward = now.wall.duration_since(expected).unwrap_or_default();
        let set_back = expected.duration_since(now.wall).unwrap_or_default();
        passed < COUNTS && set_forward.max(set_back) <= MAX_SKEW
    }
}

impl ClockWatch {
    /// Notes the time that the log told between two moments. Returns whether that was quick enough
    /// to tell how much time has passed.
    pub fn note(&self, told: SystemTime, from: Now, to: Now) -> bool {
        let mut known = self.0.lock();
        let comparison = WallComparison::of(told, from, to);
        let before = known.compared.replace(comparison);
        let before = before.and_then(|it| it.trouble());
        match (before, comparison.trouble()) {
            (None, Some(why)) => tracing::error!(why, "this server appends nothing to the log"),
            (Some(_), None) => tracing::info!("the clock of this server is right again"),
            _ => {}
        }
        let took = to.steady.since(from.steady);
        if took > QUICK {
            return false;
        }
        let middle = from.steady.after(took / 2).since(Moment::default());
        let ahead = nanos(told).saturating_sub(i64::try_from(middle.as_nanos()).unwrap_or(0));
        let before = known.ahead.map(|before| u128::from(before.abs_diff(ahead)));
        if before.is_none_or(|by| by > MAX_DRIFT.as_nanos()) {
            if before.is_some() {
                tracing::warn!(
                    "time passes otherwise by the clock of the log: ends are measured anew"
                );
            }
            known.ahead = Some(ahead);
            known.since = to.steady;
        }
        true
    }

    /// Returns the fault of the wall clock, in words for people.
    pub fn trouble(&self) -> Option<String> {
        let compared = self.0.lock().compared;
        compared.and_then(|comparison| comparison.trouble())
    }

    /// Returns whether the wall clock was found right not long ago.
    pub fn is_right(&self, now: Now) -> bool {
        let compared = self.0.lock().compared;
        compared.is_some_and(|it| it.trouble().is_none() && it.is_of(now))
    }

    /// Checks that the wall clock was found right, if it was compared.
    ///
    /// # Errors
    /// The wall clock is wrong; the error says by how much.
    pub fn check(&self) -> Result<(), JournalError> {
        self.trouble()
            .map_or(Ok(()), |why| Err(JournalError::WrongClock(why)))
    }

    /// The time by the clock of the log, in nanoseconds since 1970, if this server's clocks are
    /// known to be right.
    pub fn log_time(&self, now: Now) -> Option<i64> {
        if !self.is_right(now) {
            return None;
        }
        let passed = now.steady.since(Moment::default()).as_nanos();
        let ahead = self.0.lock().ahead?;
        Some(ahead.saturating_add(i64::try_from(passed).ok()?))
    }

    /// The least time that has passed since a time by the clock of the log, which another
    /// nats-server may have told.
    pub fn passed(&self, since: i64, now: Now) -> Duration {
        let passed = self
            .log_time(now)
            .map_or(0, |now| now.saturating_sub(since));
        let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(0));
        passed.saturating_sub(BROKERS)
    }

    /// The moment since which the monotonic clock runs as the clock of the log does.
    pub fn right_since(&self) -> Moment {
        self.0.lock().since
    }
}
