//! Records that prove their place in a log, so that readers recognize every other message.

use std::time::{Duration, SystemTime};

use evenkeel::log::record::{FORMAT, GENESIS};
use evenkeel::log::{Body, Error, Log, Message, Place, Unreadable, Verdict};
use support::fake_log::FakeLog;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(1);

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
    assert!(matches!(Place::START.judge(&first), Verdict::Valid(_)));
    let place = Place::START.after(&first);
    (Place { log_id, ..place }, log_id)
}

/// Returns whether a verdict gives this reason why a message is wrong.
fn is_wrong(verdict: &Verdict, reason: &str) -> bool {
    matches!(verdict, Verdict::Wrong(why) if why.contains(reason))
}

/// A function that returns whether a verdict is as expected.
type Expected = fn(&Verdict) -> bool;

#[test]
fn a_record_is_valid_at_its_place_alone() {
    let (place, log_id) = begun();
    let good = body(&place, log_id);
    let cases: [(&str, u64, Body, Expected); 6] = [
        ("the next", 2, good.clone(), |v| {
            matches!(v, Verdict::Valid(_))
        }),
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
            |v| *v == Verdict::Void,
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
    assert!(matches!(after.judge(&next), Verdict::Valid(_)));
    let forged = place.after(&other).after(&void);
    assert!(is_wrong(&forged.judge(&next), "another message"));
    // A reader that begins in the middle learns its place from a record, and from no other message.
    assert_eq!(Place::told_by(&next), Some(after.after(&next)));
    assert_eq!(Place::told_by(&void), None);
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
    assert!(matches!(verdict, Verdict::Later(_)), "{verdict:?}");
}

#[tokio::test]
async fn one_of_two_appends_at_a_place_is_refused() {
    let log = FakeLog::default();
    let append = |after| log.append_if("a", after, body(&Place::START, Uuid::nil()).write(), SOON);
    assert!(matches!(append(1).await, Err(Error::NotFound(_))));
    assert_eq!(append(0).await, Ok(1));
    assert_eq!(append(0).await, Err(Error::Conflict));
    assert_eq!(append(1).await, Ok(2));
    assert_eq!(log.names().await, Ok(vec!["a".to_owned()]));
}

#[tokio::test]
async fn a_follower_waits_gives_the_same_again_and_knows_where_a_log_ends() {
    let log = FakeLog::default();
    let follower = log.follow("a", 0);
    let now = Duration::ZERO;
    assert!(matches!(
        follower.next(0, now).await,
        Err(Error::NotFound(_))
    ));
    let one = body(&Place::START, Uuid::nil()).write();
    log.append_if("a", 0, one.clone(), SOON)
        .await
        .expect("it is empty");
    let (waited, appended) = tokio::join!(follower.next(1, SOON), async {
        log.append_if("a", 1, one.clone(), SOON).await
    });
    assert_eq!(appended, Ok(2));
    let second = waited.expect("it is there").expect("it came in time");
    assert_eq!(second.sequence, 2);
    assert_eq!(follower.next(1, now).await, Ok(Some(second.clone())));
    assert_eq!(log.read("a", 2).await, Ok(second));
    assert_eq!(follower.next(2, now).await, Ok(None));
    assert_eq!(follower.next(5, now).await, Err(Error::Shorter(2)));
    log.trim("a", 2).await.expect("it exists");
    assert_eq!(follower.next(0, now).await, Err(Error::Trimmed(2)));
    let bounds = log.bounds("a").await.expect("it exists");
    assert_eq!((bounds.first, bounds.last), (2, 2));
}

#[tokio::test]
async fn keys_change_by_compare_and_set_and_blobs_stay() {
    let log = FakeLog::default();
    let (keys, blobs) = (log.keys(), log.blobs());
    let set = |revision, value: &'static str| keys.set_if("lease", revision, value.into());
    let first = set(None, "a").await.expect("there is none");
    assert_eq!(set(None, "b").await, Err(Error::Conflict));
    let second = set(Some(first), "b").await.expect("nobody else changed it");
    assert_eq!(set(Some(first), "c").await, Err(Error::Conflict));
    assert_eq!(keys.get("lease").await, Ok(Some(("b".into(), second))));
    blobs.put("x/0", "one".into()).await.expect("there is room");
    assert_eq!(blobs.get("x/0").await, Ok("one".into()));
    assert_eq!(blobs.list("x/").await.map(|list| list.len()), Ok(1));
    blobs.drop_blob("x/0").await.expect("it is there");
    assert!(matches!(blobs.get("x/0").await, Err(Error::NotFound(_))));
}
