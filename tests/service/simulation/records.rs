//! Records that prove their place in a log, so that readers recognize every other message.

use std::time::SystemTime;

use evenkeel::log::record::{FORMAT, GENESIS};
use evenkeel::log::{Body, Message, Place, Unreadable};
use uuid::Uuid;

/// What a reader makes of a message.
type Judged = Result<Option<Box<Body>>, Unreadable>;

fn body(place: &Place, log_id: Uuid) -> Body {
    Body {
        log_id: log_id.as_bytes().to_vec(),
        after: place.sequence,
        chain: place.hash.to_vec(),
        writer: "a".to_owned(),
        nonce: Uuid::new_v4().as_bytes().to_vec(),
        ..Body::default()
    }
}

fn message(sequence: u64, body: &Body) -> Message {
    Message {
        sequence,
        at: SystemTime::UNIX_EPOCH,
        bytes: body.write(),
    }
}

/// The place after the first record of a log, and the id of the log.
fn begun() -> (Place, Uuid) {
    let log_id = Uuid::new_v4();
    let first = message(1, &body(&Place::START, log_id));
    assert!(matches!(Place::START.judge(&first), Ok(Some(_))));
    let place = Place::START.after(&first);
    (Place { log_id, ..place }, log_id)
}

/// Returns whether a verdict gives this reason why a message is wrong.
fn is_wrong(verdict: &Judged, reason: &str) -> bool {
    matches!(verdict, Err(Unreadable::Damaged(why)) if why.contains(reason))
}

/// A function that returns whether a verdict is as expected.
type Expected = fn(&Judged) -> bool;

#[test]
fn a_record_is_valid_at_its_place_alone() {
    let (place, log_id) = begun();
    let good = body(&place, log_id);
    let cases: [(&str, u64, Body, Expected); 6] = [
        ("the next", 2, good.clone(), |v| matches!(v, Ok(Some(_)))),
        ("one passed over", 3, good.clone(), |v| {
            is_wrong(v, "missing")
        }),
        ("one again", 1, good.clone(), |v| is_wrong(v, "missing")),
        (
            "on another sequence",
            2,
            Body {
                after: 0,
                ..good.clone()
            },
            |v| *v == Ok(None),
        ),
        ("of another log", 2, body(&place, Uuid::new_v4()), |v| {
            is_wrong(v, "another log")
        }),
        (
            "on another message",
            2,
            Body {
                chain: GENESIS.to_vec(),
                ..good
            },
            |v| is_wrong(v, "another message"),
        ),
    ];
    for (case, sequence, body, is_right) in cases {
        let verdict = place.judge(&message(sequence, &body));
        assert!(is_right(&verdict), "{case}: {verdict:?}");
    }
}

#[test]
fn what_counts_for_nobody_hides_no_difference_before_it() {
    let (place, log_id) = begun();
    let (one, other) = (
        message(2, &body(&place, log_id)),
        message(2, &body(&place, log_id)),
    );
    let void = message(3, &body(&place, log_id));
    let after = place.after(&one).after(&void);
    let next = message(4, &body(&after, log_id));
    assert!(matches!(after.judge(&next), Ok(Some(_))));
    let forged = place.after(&other).after(&void);
    assert!(is_wrong(&forged.judge(&next), "another message"));
    // A reader that begins in the middle learns its place from a record, and from no other message.
    assert_eq!(Place::before(&next), Some(after));
    assert_eq!(Place::before(&void), None);
}

#[test]
fn every_flipped_bit_and_every_cut_is_known() {
    let (place, log_id) = begun();
    let whole = body(&place, log_id).write();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1 << bit;
            assert!(Body::read(&bytes).is_err(), "bit {bit} of byte {at}");
        }
        assert!(Body::read(&whole[..at]).is_err(), "cut at {at}");
    }
    assert!(Body::read(&whole).is_ok());
}

#[test]
fn a_later_format_is_told_from_damage() {
    let mut later = vec![b'E', b'V', b'K', b'L', FORMAT + 1];
    later.extend(evenkeel::log::record::digest(&[&[FORMAT + 1], b"anything"]));
    later.extend(b"anything");
    let read = Body::read(&later);
    assert!(matches!(read, Err(Unreadable::Later(_))), "{read:?}");
    let message = Message {
        sequence: 1,
        at: SystemTime::UNIX_EPOCH,
        bytes: later.into(),
    };
    let verdict = Place::START.judge(&message);
    assert!(matches!(verdict, Err(Unreadable::Later(_))), "{verdict:?}");
}
