//! Deadlines of calls.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

/// The time that a call without a deadline may wait for a revision.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The longest time before its deadline at which a call is answered with the error that the
/// deadline has passed. At the deadline itself the gRPC library ends the call with a status that
/// tells less.
const MARGIN: Duration = Duration::from_millis(5);

/// The longest timeout that is used, whatever a client asks for. Every clock can count that far
/// ahead.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The moment `timeout` from now.
pub fn after(timeout: Duration) -> Instant {
    let at = Instant::now().checked_add(timeout.min(LONGEST));
    at.expect("a clock counts a year ahead")
}

/// The deadline of a call that arrives now, from its `grpc-timeout`, if it has
/// one.
pub fn given(headers: &HeaderMap) -> Option<Instant> {
    let timeout = timeout(headers)?;
    Some(after(timeout.saturating_sub(margin(timeout))))
}

/// The last moment for an answer of any kind to a call that arrives now, a
/// little after [`given`].
pub fn last(headers: &HeaderMap) -> Option<Instant> {
    let timeout = timeout(headers)?;
    let half = margin(timeout).checked_div(2).unwrap_or_default();
    Some(after(timeout.saturating_sub(half)))
}

fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse(headers.get("grpc-timeout")?.to_str().ok()?)
}

fn margin(timeout: Duration) -> Duration {
    MARGIN.min(timeout.checked_div(10).unwrap_or_default())
}

/// The time until which a call waits for a revision: its deadline, if it has one.
pub fn or_patience(deadline: Option<Instant>) -> Instant {
    deadline.unwrap_or_else(|| after(MAX_WAIT))
}

/// Reads a `grpc-timeout`: up to 8 digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(n.saturating_mul(3_600))),
        "M" => Some(Duration::from_secs(n.saturating_mul(60))),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts() {
        for (text, want) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("10S", Some(Duration::from_secs(10))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("", None),
            ("S", None),
            ("1", None),
            ("1x", None),
            ("-1S", None),
            ("123456789S", None),
        ] {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
