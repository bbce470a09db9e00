//! The age of a snapshot (the time since the last batch of its feed, and the age of the feed's
//! knowledge then), and its maximum age.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::error::Error;
use crate::snapshot::clock::{Moment, Now};

/// The maximum ages of snapshots, and the treatment of older ones.
#[derive(Debug, Clone, Default)]
pub struct MaxAges {
    /// The maximum age of snapshots that are not named; `None` for any age.
    pub default: Option<Duration>,
    /// The maximum ages by name; `None` for any age.
    pub by_name: HashMap<String, Option<Duration>>,
    /// True if decisions on older snapshots are refused.
    pub refuse: bool,
}

/// The time when one snapshot was fed, and its maximum age.
pub struct Freshness {
    max_age: Option<Duration>,
    refuse: bool,
    /// The [`Moment`] up to which the feed's knowledge was complete in the last batch.
    fed: AtomicI64,
    /// The time that the last batch took from its arrival until it was applied, in microseconds.
    lag: AtomicU64,
    /// The last announcement. Locked while it is made, so that it is true.
    announced: Mutex<Announced>,
}

/// The last announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Announced {
    Fresh,
    Stale,
    /// The snapshot is deleted. Nothing is announced after that.
    Deleted,
}

impl Freshness {
    /// The freshness of a snapshot of this name that was fed at this moment.
    pub fn new(name: &str, ages: &MaxAges, fed: Moment) -> Self {
        Self {
            max_age: ages.by_name.get(name).copied().unwrap_or(ages.default),
            refuse: ages.refuse,
            fed: AtomicI64::new(fed.to_number()),
            lag: AtomicU64::new(0),
            announced: Mutex::new(Announced::Fresh),
        }
    }

    /// Returns the snapshot's age. `None` when it has no maximum age.
    pub fn age(&self, clock: impl FnOnce() -> Now) -> Option<Duration> {
        self.max_age.map(|_| self.since_fed(clock().steady))
    }

    fn since_fed(&self, now: Moment) -> Duration {
        now.since(Moment::of_number(self.fed.load(Ordering::Relaxed)))
    }

    /// Returns whether decisions are answered at this age.
    ///
    /// # Errors
    /// [`Error::Stale`] when they are not.
    pub fn check(&self, name: &str, clock: impl FnOnce() -> Now) -> Result<(), Error> {
        let Some(max_age) = self.max_age.filter(|_| self.refuse) else {
            return Ok(());
        };
        let age = self.since_fed(clock().steady);
        if age <= max_age {
            return Ok(());
        }
        Err(Error::Stale {
            snapshot: name.to_owned(),
            age,
            max_age,
        })
    }

    /// Records a batch that took `lag` from its arrival until it was applied, from a feed with
    /// knowledge of this age. Reports if the snapshot became stale or stopped being so.
    pub fn feed(&self, at: Moment, (lag, age): (Duration, Duration), tell: impl FnOnce(bool)) {
        let lag = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.lag.store(lag, Ordering::Relaxed);
        let fed = at.before(age).to_number();
        self.fed.store(fed, Ordering::Relaxed);
        self.look(at, tell);
    }

    /// Returns the time that the last batch took from its arrival until it was applied.
    pub fn lag(&self) -> Duration {
        Duration::from_micros(self.lag.load(Ordering::Relaxed))
    }

    /// Reads the clock, and reports if the snapshot became stale or stopped
    /// being so.
    pub fn look(&self, now: Moment, tell: impl FnOnce(bool)) {
        let Some(max_age) = self.max_age else { return };
        let mut announced = self.announced.lock();
        let is_stale = self.since_fed(now) > max_age;
        match (*announced, is_stale) {
            (Announced::Fresh, true) => *announced = Announced::Stale,
            (Announced::Stale, false) => *announced = Announced::Fresh,
            _ => return,
        }
        tell(is_stale);
    }

    /// Ends all announcements, because the snapshot is deleted.
    pub fn end(&self) {
        *self.announced.lock() = Announced::Deleted;
    }

    /// Returns whether the snapshot was announced to be stale.
    pub fn is_stale(&self) -> bool {
        *self.announced.lock() == Announced::Stale
    }
}
