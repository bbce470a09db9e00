//! Servers of this version while one of a later version writes to their log.

use evenkeel::log::record::{FORMAT, compress, digest as sha256};
use evenkeel::log::{Body, EntryRow, NumberedRow, Place};
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint};
use support::fake_log::FakeLog;

use crate::simulation::alone::{Alone, offer};
use crate::simulation::world::{NAME, digest};

/// A record that only a later version can write.
struct LaterRecord {
    name: &'static str,
    message: fn(&Body, EntryRow) -> Bytes,
}

/// The kinds of records that a later version may not write while servers of this version run.
const UNKNOWN: [LaterRecord; 5] = [
    LaterRecord {
        name: "a later format",
        message: |body, entry| framed(FORMAT + 1, &with(body, entry).encode_to_vec()),
    },
    LaterRecord {
        name: "something new of a record",
        message: |body, entry| framed(FORMAT, &extended(with(body, entry).encode_to_vec())),
    },
    LaterRecord {
        name: "something new of an entry",
        message: |body, entry| {
            let entry = extended(entry.encode_to_vec());
            framed(FORMAT, &nested(body.encode_to_vec(), 7, &entry))
        },
    },
    LaterRecord {
        name: "something new of a reservation",
        message: |body, entry| {
            let held = extended(NumberedRow::default().encode_to_vec());
            let entry = nested(entry.encode_to_vec(), 12, &held);
            framed(FORMAT, &nested(body.encode_to_vec(), 7, &entry))
        },
    },
    LaterRecord {
        name: "something new that happens",
        message: |body, mut entry| {
            entry.happened = 99;
            with(body, entry).write()
        },
    },
];

fn with(body: &Body, entry: EntryRow) -> Body {
    Body {
        entries: vec![entry],
        ..body.clone()
    }
}

/// Adds a field that this version does not know to a message.
fn extended(mut message: Vec<u8>) -> Vec<u8> {
    encode_key(1_000, WireType::Varint, &mut message);
    encode_varint(1, &mut message);
    message
}

/// Adds a field that is itself a message to a message.
fn nested(mut message: Vec<u8>, tag: u32, field: &[u8]) -> Vec<u8> {
    encode_key(tag, WireType::LengthDelimited, &mut message);
    encode_varint(field.len() as u64, &mut message);
    message.extend(field);
    message
}

/// Frames a message as a record of this format.
fn framed(format: u8, message: &[u8]) -> Bytes {
    let compressed = compress(message);
    let mut frame = b"EVKL".to_vec();
    frame.push(format);
    frame.extend(sha256(&[&[format], &compressed]));
    frame.extend(compressed);
    frame.into()
}

/// Returns a record without entries that follows the last one, and an entry for it: the last entry,
/// numbered as the next.
fn next(log: &FakeLog) -> (Body, EntryRow) {
    let last = log.messages(NAME).pop().expect("it has some");
    let place = Place::before(&last).expect("it is a record");
    let place = place.after(&last);
    let body = Body::read(&last.bytes).expect("it is a record");
    let mut entry = body.entries[0].clone();
    entry.revision += 1;
    entry.sequence += 1;
    let body = Body {
        after: place.sequence,
        chain: place.hash.to_vec(),
        writer: "later".to_owned(),
        nonce: vec![7; 16],
        entries: Vec::new(),
        ..body
    };
    (body, entry)
}

/// Two servers of this version that share a log.
fn pair() -> (FakeLog, Alone, Alone) {
    let log = FakeLog::default();
    let [one, other] = ["one", "other"].map(|name| Alone::on(&log, name));
    for number in 0..3 {
        one.put(number);
    }
    other.read();
    (log, one, other)
}

#[test]
fn what_a_later_version_writes_in_this_format_is_followed() {
    let (log, one, other) = pair();
    let (body, entry) = next(&log);
    let revision = entry.revision;
    log.intrude(NAME, with(&body, entry).write());
    for server in [&one, &other] {
        server.follow();
        assert_eq!(server.snapshot().revision(), revision);
    }
    other.put(7);
    one.follow();
    assert_eq!(digest(&one.snapshot()), digest(&other.snapshot()));
}

#[test]
fn what_only_a_later_version_knows_is_not_skipped() {
    for LaterRecord { name, message } in UNKNOWN {
        let (log, one, other) = pair();
        let before = digest(&one.snapshot());
        let last = &log.messages(NAME)[2];
        let place = Place::before(last).expect("it is a record").after(last);
        let (body, entry) = next(&log);
        log.intrude(NAME, message(&body, entry.clone()));
        // This record would fit if a server skipped the unknown one.
        let body = Body {
            after: 4,
            chain: place.after(&log.messages(NAME)[3]).hash.to_vec(),
            ..body
        };
        log.intrude(NAME, with(&body, entry).write());
        for server in [&one, &other] {
            for _ in 0..3 {
                let followed = server.replica.follow(NAME, true);
                let refused = followed.expect_err(name).to_string();
                assert!(refused.contains("later version"), "{name}: {refused}");
                let changed = server.registry.update(NAME, offer(9, None));
                assert!(changed.is_err(), "{name}: {changed:?}");
            }
            assert_eq!(digest(&server.snapshot()), before, "{name}");
            let answers = server.registry.get_synced(NAME);
            assert!(answers.is_ok(), "{name}: it answers what it knows");
        }
        assert_eq!(log.messages(NAME).len(), 5, "{name}: nothing is appended");
        // A new server of this version stops there as well.
        let new = Alone::on(&log, "new");
        assert!(new.replica.follow(NAME, true).is_err(), "{name}");
    }
}
