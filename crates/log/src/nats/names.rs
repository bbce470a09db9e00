//! The names of the streams, subjects and keys of a fleet on its nats-servers.

use std::str::FromStr;

use data_encoding::HEXLOWER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::digest::{SHA256, digest};

/// The longest encoded name of a snapshot; longer ones begin with a hash. NATS takes
/// names of streams of up to 255 bytes.
const MAX_ENCODED: usize = 160;

/// The number of characters of a long name that stay readable.
const READABLE: usize = 96;

/// The start of a long name that became a hash. No encoded name begins like this.
const HASHED: char = '=';

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
    /// The name of the stream with a generation of a snapshot's log.
    pub(super) fn log_stream(&self, snapshot: &str, generation: u64) -> String {
        let number = numbered(generation, "");
        format!("EVK_{self}_LOG{number}_{}", shortened(snapshot))
    }

    /// Returns the log that a stream holds; `None` for other streams.
    pub(super) fn log_of(&self, stream: &str) -> Option<NamedLog> {
        let rest = stream.strip_prefix(&format!("EVK_{self}_LOG"))?;
        let (number, encoded) = rest.split_once('_')?;
        let generation = match number {
            "" => 0,
            number => number.parse().ok()?,
        };
        Some(NamedLog {
            snapshot: decode(encoded),
            generation,
        })
    }

    /// The subject of the records in a generation of a snapshot's log.
    pub(super) fn log_subject(&self, snapshot: &str, generation: u64) -> String {
        let number = numbered(generation, ".");
        format!("evk.{self}.log.{}{number}", shortened(snapshot))
    }

    /// A subject like those of records, which no stream has.
    pub(super) fn probe(&self) -> String {
        format!("evk.{self}.log._")
    }

    /// The key of the present generation of the log of a snapshot.
    pub(super) fn generation_key(&self, snapshot: &str) -> String {
        format!("generation/{}", shortened(snapshot))
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

/// The parts of the name of a stream with a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedLog {
    /// The snapshot of the log; `None` if the stream has only a hash of its name.
    pub snapshot: Option<String>,
    /// The number of logs that the snapshot had before.
    pub generation: u64,
}

/// The number of a generation as a part of a name; empty for the first generation.
fn numbered(generation: u64, before: &str) -> String {
    match generation {
        0 => String::new(),
        number => format!("{before}{number}"),
    }
}

/// What stands for itself in a subject and in the name of a stream.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// A name as part of a subject, and of the name of a stream.
fn encode(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

/// An encoded name that is short enough for a stream. A long name becomes a hash and its beginning.
fn shortened(name: &str) -> String {
    let encoded = encode(name);
    if encoded.len() <= MAX_ENCODED {
        return encoded;
    }
    let hash = HEXLOWER.encode(&digest(&SHA256, name.as_bytes()).as_ref()[..16]);
    format!("{HASHED}{hash}_{}", &encoded[..READABLE])
}

/// The name that was encoded; `None` if only a hash of it is there.
fn decode(encoded: &str) -> Option<String> {
    let whole = (!encoded.starts_with(HASHED)).then_some(encoded)?;
    Some(percent_decode_str(whole).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Names of snapshots, of which the long ones are hashed.
    fn snapshots() -> Vec<String> {
        let short = [
            "default", "a.b", "a_b", "a/b", "a_db", "a__b", "a_.b", "a._b", "A.b", "a-b", "é",
            "a b*>", "_ue9_",
        ];
        let long = "a.".repeat(126);
        let hashed = [&long, &long[..251], &"_".repeat(253)].map(str::to_owned);
        let short = short.into_iter().map(str::to_owned);
        short.chain(hashed).collect()
    }

    fn fleet() -> FleetName {
        "Blue-1".parse().expect("a name")
    }

    #[test]
    fn different_logs_have_different_streams() {
        let fleet = fleet();
        let (mut streams, mut subjects) = (HashSet::new(), HashSet::new());
        for name in snapshots() {
            for generation in [0, 1, 12] {
                let stream = fleet.log_stream(&name, generation);
                let valid =
                    |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '%' | '=');
                assert!(stream.len() <= 255 && stream.chars().all(valid), "{stream}");
                let expected = NamedLog {
                    snapshot: (name.len() <= 10).then(|| name.clone()),
                    generation,
                };
                assert_eq!(fleet.log_of(&stream), Some(expected), "{stream}");
                assert!(streams.insert(stream), "{name}");
                let subject = fleet.log_subject(&name, generation);
                assert!(subjects.insert(subject), "{name}");
            }
        }
        for other in [
            "EVK_Blue_LOG_default",
            "EVK_Blue-1_LOGS_x",
            "EVK_Blue-1_KEYS",
        ] {
            assert_eq!(fleet.log_of(other), None, "{other}");
        }
        let subject = fleet.log_subject("eu/a.b_1", 0);
        assert_eq!(subject, "evk.Blue-1.log.eu%2Fa%2Eb_1");
    }

    #[test]
    fn blobs_and_keys_have_their_names_back() {
        let fleet = fleet();
        for name in snapshots() {
            for kind in ["blobs", "keys"] {
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
