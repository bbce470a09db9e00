//! The names of the streams, subjects and keys of a fleet on its nats-servers.

use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

/// The longest encoded name of a snapshot in the name of a stream, which may have 255 bytes. Of
/// longer ones the beginning stays readable.
const MAX_ENCODED: usize = 160;

/// The start of a name that was cut. No encoded name begins like this.
const CUT: char = '=';

/// The number of characters that only one stream has.
const OWN: usize = 8;

/// The name of a fleet: all replicas that share it, and no others, share logs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FleetName(String);

/// The error for a text that is not a name of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 32 letters, digits and \"-\"")]
pub struct BadFleet;

impl FromStr for FleetName {
    type Err = BadFleet;

    fn from_str(name: &str) -> Result<Self, BadFleet> {
        let valid = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        if (1..=32).contains(&name.len()) && name.bytes().all(valid) {
            Ok(Self(name.to_owned()))
        } else {
            Err(BadFleet)
        }
    }
}

impl std::fmt::Display for FleetName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FleetName {
    /// A name for the stream of a snapshot's log that no other stream gets.
    pub(super) fn new_log_stream(&self, snapshot: &str) -> String {
        let encoded = encode(snapshot);
        let told = match encoded.len() <= MAX_ENCODED {
            true => encoded,
            false => format!("{CUT}{}", &encoded[..MAX_ENCODED]),
        };
        let own = Uuid::new_v4().simple().to_string();
        format!("EVK_{self}_LOG_{told}_{}", &own[..OWN])
    }

    /// Returns whether a stream is a log, and of which snapshot; `Some(None)` if its name does not
    /// say that.
    pub(super) fn log_of(&self, stream: &str) -> Option<Option<String>> {
        let rest = stream.strip_prefix(&format!("EVK_{self}_LOG_"))?;
        let (told, _) = rest.rsplit_once('_')?;
        Some((!told.starts_with(CUT)).then(|| decode(told)).flatten())
    }

    /// The subject of the records of a snapshot's log.
    pub(super) fn log_subject(&self, snapshot: &str) -> String {
        self.subject("log", snapshot)
    }

    /// A subject like those of records, which no stream has.
    pub(super) fn probe(&self) -> String {
        format!("evk.{self}.log._")
    }

    /// The name of the stream of a kind: blobs or keys.
    pub(super) fn stream(&self, kind: &str) -> String {
        format!("EVK_{self}_{}", kind.to_ascii_uppercase())
    }

    /// The subject for a name of a kind.
    pub(super) fn subject(&self, kind: &str, name: &str) -> String {
        format!("evk.{self}.{kind}.{}", encode(name))
    }

    /// The subjects of all names of a kind.
    pub(super) fn subjects(&self, kind: &str) -> String {
        format!("evk.{self}.{kind}.*")
    }

    /// The name that a subject of a kind stands for.
    pub(super) fn name_of(&self, kind: &str, subject: &str) -> Option<String> {
        decode(subject.strip_prefix(&format!("evk.{self}.{kind}."))?)
    }
}

/// The name of the fleet whose keys a stream holds.
pub(super) fn fleet_of(keys: &str) -> Option<&str> {
    keys.strip_prefix("EVK_")?.strip_suffix("_KEYS")
}

/// What stands for itself in a subject and in the name of a stream.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// A name as part of a subject, and of the name of a stream.
fn encode(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

/// The name that was encoded.
fn decode(encoded: &str) -> Option<String> {
    Some(percent_decode_str(encoded).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Names of snapshots, of which streams cut the long ones.
    fn snapshots() -> Vec<String> {
        let short = [
            "default", "a.b", "a_b", "a/b", "a_db", "a__b", "a_.b", "a._b", "A.b", "a-b", "é",
            "a b*>", "_ue9_",
        ];
        let long = "a.".repeat(126);
        let cut = [&long, &long[..251], &"_".repeat(253)].map(str::to_owned);
        let short = short.into_iter().map(str::to_owned);
        short.chain(cut).collect()
    }

    fn fleet() -> FleetName {
        "Blue-1".parse().expect("a name")
    }

    #[test]
    fn different_logs_have_different_streams() {
        let fleet = fleet();
        let (mut streams, mut subjects) = (HashSet::new(), HashSet::new());
        for name in snapshots() {
            for _ in 0..3 {
                let stream = fleet.new_log_stream(&name);
                let valid =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '%' | '=');
                assert!(stream.len() <= 255 && stream.chars().all(valid), "{stream}");
                let told = (name.len() <= 10).then(|| name.clone());
                assert_eq!(fleet.log_of(&stream), Some(told), "{stream}");
                assert!(streams.insert(stream), "{name}");
            }
            assert!(subjects.insert(fleet.log_subject(&name)), "{name}");
        }
        for other in [
            "EVK_Blue_LOG_default_1",
            "EVK_Blue-1_LOGS_x_1",
            "EVK_Blue-1_KEYS",
        ] {
            assert_eq!(fleet.log_of(other), None, "{other}");
        }
        let subject = fleet.log_subject("eu/a.b_1");
        assert_eq!(subject, "evk.Blue-1.log.eu%2Fa%2Eb_1");
    }

    #[test]
    fn names_come_back_from_subjects() {
        let fleet = fleet();
        for name in snapshots() {
            for kind in ["blobs", "keys", "log"] {
                let found = fleet.name_of(kind, &fleet.subject(kind, &name));
                assert_eq!(found.as_ref(), Some(&name), "{kind}");
            }
        }
    }

    #[test]
    fn a_fleet_is_a_short_word() {
        for name in ["a", "Blue-1", &"x".repeat(32)] {
            assert!(name.parse::<FleetName>().is_ok(), "{name}");
        }
        for name in ["", "a_b", "a.b", "a b", "a*", "é", &"x".repeat(33)] {
            assert_eq!(name.parse::<FleetName>(), Err(BadFleet), "{name}");
        }
    }
}
