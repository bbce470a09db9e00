//! Pauses between attempts.

use std::time::Duration;

use kube::runtime::watcher::DefaultBackoff;

/// The longest pause: an API server that returns is heard within seconds.
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that double, with some luck in them, so that many do not return to a server
/// at the same moment.
#[derive(Default)]
pub(super) struct Pauses(DefaultBackoff);

impl Pauses {
    /// The next one.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0.next().unwrap_or(LONGEST).min(LONGEST);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// All is well: the next one is the shortest.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
