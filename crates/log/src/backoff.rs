//! Pauses before another attempt: they double, with a random share, so that many clients do not
//! return to a server at the same moment.

use std::time::{Duration, Instant};

/// The pauses between attempts. They begin with the shortest one again when an attempt
/// has lasted for twice the longest pause.
#[derive(Debug)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    doublings: u32,
    /// The time when the last attempt began, or is to begin.
    last: Option<Instant>,
}

impl Backoff {
    /// Pauses from the shortest to the longest.
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Self {
            shortest,
            longest,
            doublings: 0,
            last: None,
        }
    }

    /// The pause after an attempt that failed.
    pub fn after_failure(&mut self) -> Duration {
        let now = Instant::now();
        if self.was_calm(now) {
            self.doublings = 0;
        }
        let pause = doubled(self.shortest, self.longest, self.doublings);
        self.doublings += 1;
        let pause = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.last = Some(now + pause);
        pause
    }

    /// Returns the pause before an attempt that does harm only if it comes too often. It is zero
    /// for the first attempt, and when the previous attempt has lasted.
    pub fn before_attempt(&mut self) -> Duration {
        let now = Instant::now();
        match self.was_calm(now) {
            false => self.after_failure(),
            true => {
                self.doublings = 0;
                self.last = Some(now);
                Duration::ZERO
            }
        }
    }

    fn was_calm(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.saturating_duration_since(last) >= self.longest * 2)
    }
}

/// The shortest pause, doubled `doublings` times, up to the longest.
fn doubled(shortest: Duration, longest: Duration, doublings: u32) -> Duration {
    longest.min(shortest.saturating_mul(1 << doublings.min(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_until_an_attempt_lasts() {
        let [shortest, longest] = [20, 100].map(Duration::from_millis);
        let mut backoff = Backoff::new(shortest, longest);
        assert_eq!(backoff.before_attempt(), Duration::ZERO);
        for most in [20, 40, 80, 100, 100] {
            let most = Duration::from_millis(most);
            let pause = backoff.before_attempt();
            assert!(pause >= most / 2 && pause <= most, "{pause:?} of {most:?}");
        }
        backoff.last = backoff.last.and_then(|last| last.checked_sub(longest * 4));
        assert_eq!(backoff.before_attempt(), Duration::ZERO);
        assert!(backoff.after_failure() <= shortest);
    }
}
