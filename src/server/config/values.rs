//! Checks of the values of flags.

use std::time::Duration;

/// A whole number from 1. Upper bounds come from `tokio`'s semaphores.
pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(count) if (1..=tokio::sync::Semaphore::MAX_PERMITS).contains(&count) => Ok(count),
        _ => Err("expected a whole number from 1"),
    }
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("expected a duration above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}
