//! The checker of histories: what a single server may answer passes, and each kind of
//! fault is told.

use std::time::Duration;

use crate::history::{Event, Rules, What, faults};

fn event(called: u64, answered: u64, revision: i64, what: What) -> Event {
    Event {
        called: Duration::from_secs(called),
        answered: Duration::from_secs(answered),
        repeated: false,
        revision,
        what,
    }
}

#[test]
fn a_history_of_several_servers_is_told_from_that_of_one() {
    let reserved = |id: &str, node: &str| What::Reserved(vec![(id.into(), node.into())]);
    let released = |known| What::Released {
        id: "a".into(),
        known,
    };
    let confirmed = |known| What::Confirmed {
        id: "a".into(),
        known,
    };
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
    let repeated = |event: Event| Event {
        repeated: true,
        ..event
    };
    let made = || event(0, 1, 1, reserved("a", "x1"));
    let second = |called, revision, node| event(called, called + 1, revision, reserved("b", node));
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
        // Its first try was applied.
        (
            "",
            vec![
                made(),
                repeated(event(2, 9, 4, released(false))),
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
        ("two", vec![made(), event(0, 1, 1, reserved("b", "y1"))]),
        ("twice", vec![made(), event(2, 3, 2, reserved("a", "y1"))]),
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
                event(4, 5, 3, reserved("c", "x1")),
                event(6, 7, 4, reserved("d", "y1")),
                event(8, 9, 5, reserved("e", "x1")),
            ],
        ),
        ("nobody reserved", vec![event(0, 1, 1, released(true))]),
    ];
    for (expected, history) in cases {
        let found = faults(&history, &rules);
        match expected {
            "" => assert!(found.is_empty(), "{found:?} of {history:?}"),
            part => assert!(
                found.iter().any(|text| text.contains(part)),
                "{part}: {found:?}"
            ),
        }
    }
}
