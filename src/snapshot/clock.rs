//! The time on two clocks. The maker of a registry passes them in.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, which is reported and stored. It may be set, forward or
    /// back.
    pub wall: SystemTime,
    /// The monotonic clock, which measures time spans.
    pub steady: Moment,
}

impl Now {
    /// When the wall clock said this, as far as it tells. It is all that is left of a
    /// time before this process.
    pub(super) fn back_to(self, wall: SystemTime) -> Self {
        let ago = self.wall.duration_since(wall).unwrap_or_default();
        Self {
            wall,
            steady: self.steady.before(ago),
        }
    }
}

/// A moment on the monotonic clock, in nanoseconds since an arbitrary one. It
/// means nothing in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
    /// Later than all others.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment this much later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }

    /// The moment this much earlier.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// The time since another moment; none if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let since = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(since).unwrap_or(0))
    }

    /// As a number that orders as moments do.
    pub(super) fn to_number(self) -> i64 {
        self.0
    }

    /// The moment of such a number.
    pub(super) fn of_number(number: i64) -> Self {
        Self(number)
    }
}

/// The clocks of this machine.
pub fn system() -> impl Fn() -> Now + Send + Sync {
    let start = Instant::now();
    move || Now {
        wall: SystemTime::now(),
        steady: Moment(0).after(start.elapsed()),
    }
}

/// A wall clock that is never set.
impl From<SystemTime> for Now {
    fn from(wall: SystemTime) -> Self {
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            wall,
            steady: Moment(nanos(since)),
        }
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
