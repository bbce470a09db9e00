//! The checker of histories: it accepts what a single server may answer, and reports each kind of
//! fault.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::linearizable::{Event, Rules, What, faults};

fn event(called: u64, answered: u64, revision: i64, what: What) -> Event {
    Event {
        called,
        answered,
        at: seconds(answered),
        retried: false,
        epoch: "first".into(),
        revision,
        what,
    }
}

fn seconds(after: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(after)
}

/// Reservations that are held for 100 seconds.
fn reserved(key: Option<u8>, picks: &[(&str, &str)]) -> What {
    let picks = picks.iter();
    What::Reserved {
        picks: picks
            .map(|(id, node)| ((*id).into(), (*node).into()))
            .collect(),
        key,
        until: seconds(100),
    }
}

fn used(known: bool, until: Option<u64>) -> What {
    What::Used {
        id: "a".into(),
        known,
        until: until.map(seconds),
    }
}

#[test]
fn a_history_of_several_servers_is_told_from_that_of_one() {
    let one = |id: &str, node: &str| reserved(None, &[(id, node)]);
    let released = |known| What::Released {
        id: "a".into(),
        known,
    };
    let confirmed = |known| used(known, None);
    let bound = What::Bound {
        id: "a".into(),
        pod: "p".into(),
    };
    let deleted = What::Deleted { pod: "p".into() };
    let rules = Rules {
        zones: [("x1", "x"), ("y1", "y")]
            .map(|(node, zone)| (node.into(), zone.into()))
            .into(),
        room: 2,
        max_skew: 1,
    };
    let retried = |event: Event| Event {
        retried: true,
        ..event
    };
    let made = || event(0, 1, 1, one("a", "x1"));
    let second = |called, revision, node| event(called, called + 1, revision, one("b", node));
    let cases: Vec<(&str, Vec<Event>)> = vec![
        (
            "",
            vec![
                made(),
                event(2, 3, 1, confirmed(true)),
                event(4, 5, 2, released(true)),
            ],
        ),
        (
            "",
            vec![
                made(),
                event(2, 3, 2, released(true)),
                event(4, 5, 2, released(false)),
            ],
        ),
        // The first try of the release was applied.
        (
            "",
            vec![
                made(),
                retried(event(2, 9, 4, released(false))),
                second(3, 3, "x1"),
            ],
        ),
        (
            "",
            vec![
                made(),
                event(2, 3, 1, confirmed(true)),
                event(4, 5, 2, bound.clone()),
                event(6, 7, 3, deleted),
                second(8, 4, "x1"),
            ],
        ),
        ("two", vec![made(), event(0, 1, 1, one("b", "y1"))]),
        ("twice", vec![made(), event(2, 3, 2, one("a", "y1"))]),
        (
            "was told before",
            vec![event(0, 1, 5, What::Fed), event(2, 3, 4, What::Read)],
        ),
        ("lost", vec![made(), event(2, 3, 1, released(false))]),
        ("lost", vec![made(), event(2, 3, 1, confirmed(false))]),
        (
            "not there then",
            vec![
                made(),
                event(2, 3, 2, released(true)),
                event(4, 5, 2, confirmed(true)),
            ],
        ),
        (
            "had ended before",
            vec![
                made(),
                event(2, 3, 2, released(true)),
                event(4, 5, 3, released(true)),
            ],
        ),
        ("skew 2", vec![made(), second(2, 2, "x1")]),
        (
            "skew 2",
            vec![
                made(),
                event(2, 3, 1, confirmed(true)),
                event(4, 5, 2, bound),
                second(6, 3, "x1"),
            ],
        ),
        (
            "no room",
            vec![
                made(),
                second(2, 2, "y1"),
                event(4, 5, 3, one("c", "x1")),
                event(6, 7, 4, one("d", "y1")),
                event(8, 9, 5, one("e", "x1")),
            ],
        ),
        ("nobody reserved", vec![event(0, 1, 1, released(true))]),
    ];
    assert_told(cases, Some(&rules));
}

#[test]
fn expiry_and_keys_and_epochs_are_those_of_one_server() {
    let keyed = |ids: &[(&str, &str)]| reserved(Some(1), ids);
    let made = || event(0, 1, 1, keyed(&[("a", "")]));
    let again = |ids: &[&str]| What::ReservedBefore {
        key: 1,
        ids: ids.iter().map(|id| (*id).into()).collect(),
    };
    let of_another = |event: Event| Event {
        epoch: "second".into(),
        ..event
    };
    let cases = vec![
        ("", vec![made(), event(100, 101, 1, used(false, None))]),
        ("lost", vec![made(), event(98, 99, 1, used(false, None))]),
        (
            "lost",
            vec![
                made(),
                event(50, 51, 1, used(true, Some(150))),
                event(120, 121, 1, used(false, None)),
            ],
        ),
        (
            "",
            vec![
                made(),
                event(2, 2, 0, What::ReleaseUnanswered { id: "a".into() }),
                event(98, 99, 2, used(false, None)),
            ],
        ),
        ("", vec![made(), event(2, 3, 1, again(&["a"]))]),
        ("two answers", vec![made(), event(2, 3, 1, again(&["b"]))]),
        (
            "reserved twice",
            vec![made(), event(2, 3, 2, keyed(&[("b", "")]))],
        ),
        ("reserved twice", vec![made(), event(2, 3, 1, keyed(&[]))]),
        ("", vec![made(), event(100, 101, 2, keyed(&[("b", "")]))]),
        (
            "",
            vec![made(), of_another(event(2, 3, 0, used(false, None)))],
        ),
        (
            "",
            vec![made(), of_another(event(2, 3, 2, keyed(&[("b", "")])))],
        ),
        (
            "twice",
            vec![made(), of_another(event(2, 3, 2, keyed(&[("a", "")])))],
        ),
        // The first call is made when the history begins, at the time zero.
        (
            "lost",
            vec![
                event(0, 1, 0, keyed(&[("a", "")])),
                event(0, 2, 0, used(false, None)),
            ],
        ),
        (
            "was over",
            vec![
                made(),
                event(
                    2,
                    3,
                    2,
                    What::Released {
                        id: "a".into(),
                        known: true,
                    },
                ),
                of_another(event(4, 5, 3, used(true, None))),
            ],
        ),
    ];
    assert_told(cases, None);
}

fn assert_told(cases: Vec<(&str, Vec<Event>)>, rules: Option<&Rules>) {
    for (expected, history) in cases {
        let found = faults(&history, rules);
        match expected {
            "" => assert!(found.is_empty(), "{found:?} of {history:?}"),
            part => assert!(
                found.iter().any(|text| text.contains(part)),
                "{part}: {found:?}"
            ),
        }
    }
}
