//! Versions of nats-server that are accepted.

use crate::visible;

/// The oldest version that is accepted. Some earlier versions let several writers win one
/// compare-and-append (nats-server #4320).
const OLDEST: [u64; 3] = [2, 15, 0];

/// The error for a nats-server that is too old, or whose version cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the nats-server {} has version \"{}\"; {oldest} or later is needed", visible::brief(server), visible::brief(version), oldest = OLDEST.map(|number| number.to_string()).join("."))]
pub struct TooOld {
    server: String,
    version: String,
}

/// Checks the version that a server reports.
pub(super) fn check(server: &str, version: &str) -> Result<(), TooOld> {
    if parse(version).is_some_and(|version| version >= OLDEST) {
        return Ok(());
    }
    Err(TooOld {
        server: server.to_owned(),
        version: version.to_owned(),
    })
}

/// The numbers of `2.15.2`, also with a suffix. A preview counts as its release: it has the
/// features that are needed.
fn parse(text: &str) -> Option<[u64; 3]> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let numbers = text.split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for accepted in [
            "2.15.0",
            "2.15.2",
            "2.100.0",
            "3.0.0",
            "v2.15.1",
            "2.15.0-RC.1",
        ] {
            assert_eq!(check("n1", accepted), Ok(()), "{accepted}");
        }
        for refused in ["2.9.20", "2.14.9", "1.99.99", "", "2.15", "2.x.0", "newest"] {
            assert!(check("n1", refused).is_err(), "{refused}");
        }
        assert_eq!(
            check("n1", "2.9.10")
                .expect_err("it is too old")
                .to_string(),
            "the nats-server n1 has version \"2.9.10\"; 2.15.0 or later is needed"
        );
    }
}
