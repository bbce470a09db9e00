//! The time on two clocks. The maker of a registry passes them in.

use std::fs;
use std::sync::{Arc, LazyLock};
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
    /// The moment this long ago, when some wall clock showed this time.
    pub(super) fn back_to(self, wall: SystemTime, ago: Duration) -> Self {
        Self {
            wall,
            steady: self.steady.before(ago),
        }
    }
}

/// A moment on the monotonic clock, in nanoseconds since an arbitrary one. It is meaningless in
/// another process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(i64);

impl Moment {
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

    /// The time since another moment; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        let since = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(since).unwrap_or(0))
    }
}

/// The clocks of this machine.
pub fn system() -> impl Fn() -> Now + Send + Sync {
    /// All moments of a process count from this one.
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let start = *START;
    move || Now {
        wall: SystemTime::now(),
        steady: Moment(0).after(start.elapsed()),
    }
}

/// The time for which a machine has been running, by a clock that goes on while the machine sleeps,
/// and that cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uptime {
    /// Identifies this boot of the machine.
    pub boot: String,
    /// The running time, in whole steps.
    pub passed: Duration,
}

/// The precision of an [`Uptime`].
pub const UPTIME_STEP: Duration = Duration::from_millis(10);

/// The id of this boot of the machine; `None` where the system does not tell.
pub fn boot() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().to_owned())
}

/// The running time of this machine; `None` where the system does not tell.
pub fn uptime() -> Option<Uptime> {
    let told = fs::read_to_string("/proc/uptime").ok()?;
    let seconds = told.split_whitespace().next()?.parse().ok()?;
    Some(Uptime {
        boot: boot()?,
        passed: Duration::try_from_secs_f64(seconds).ok()?,
    })
}

/// A moment on both clocks, as if the wall clock were never set.
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
