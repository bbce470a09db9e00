//! The age of a snapshot (the time since the last batch of its feed, and the age of the feed's
//! knowledge then), and its maximum age.

use std::collections::HashMap;
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
    state: Mutex<FedState>,
}

/// What the last batch said, and what was announced.
struct FedState {
    /// The moment up to which the feed's knowledge was complete.
    fed: Moment,
    /// The time that the batch took from its arrival until it was applied.
    lag: Duration,
    /// The last announcement. It is made under the lock, so that it is true.
    announced: Announced,
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
            state: Mutex::new(FedState {
                fed,
                lag: Duration::ZERO,
                announced: Announced::Fresh,
            }),
        }
    }

    /// Returns the snapshot's age. `None` when it has no maximum age.
    pub fn age(&self, clock: impl FnOnce() -> Now) -> Option<Duration> {
        self.max_age.map(|_| self.since_fed(clock().steady))
    }

    fn since_fed(&self, now: Moment) -> Duration {
        now.since(self.state.lock().fed)
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
        let mut state = self.state.lock();
        (state.fed, state.lag) = (at.before(age), lag);
        drop(state);
        self.look(at, tell);
    }

    /// Returns the time that the last batch took from its arrival until it was applied.
    pub fn lag(&self) -> Duration {
        self.state.lock().lag
    }

    /// Reads the clock, and reports if the snapshot became stale or stopped
    /// being so.
    pub fn look(&self, now: Moment, tell: impl FnOnce(bool)) {
        let Some(max_age) = self.max_age else { return };
        let mut state = self.state.lock();
        let is_stale = now.since(state.fed) > max_age;
        match (state.announced, is_stale) {
            (Announced::Fresh, true) => state.announced = Announced::Stale,
            (Announced::Stale, false) => state.announced = Announced::Fresh,
            _ => return,
        }
        tell(is_stale);
    }

    /// Ends all announcements, because the snapshot is deleted.
    pub fn end(&self) {
        self.state.lock().announced = Announced::Deleted;
    }

    /// Returns whether the snapshot was announced to be stale.
    pub fn is_stale(&self) -> bool {
        self.state.lock().announced == Announced::Stale
    }
}
