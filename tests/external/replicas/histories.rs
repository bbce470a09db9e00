//! The checker of histories: it accepts what a single server may answer, and reports each kind of
//! fault.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::linearizable::{Event, Rules, What, faults};

/// Histories in which reservations keep the constraints of [`rules`], each after a part of the fault that
/// is told.
const KEPT: [&str; 15] = [
    "right | 0-1 1 reserve a:x1; 2-3 1 use known; 4-5 2 release known",
    "right | 0-1 1 reserve a:x1; 2-3 2 release known; 4-5 2 release unknown",
    // The first try of the release was applied.
    "right | 0-1 1 reserve a:x1; 2-9 4 release unknown again; 3-4 3 reserve b:x1",
    "right | 0-1 1 reserve a:x1; 2-3 1 use known; 4-5 2 bind; 6-7 3 delete; 8-9 4 reserve b:x1",
    "two | 0-1 1 reserve a:x1; 0-1 1 reserve b:y1",
    "twice | 0-1 1 reserve a:x1; 2-3 2 reserve a:y1",
    "was told before | 0-1 5 feed; 2-3 4 read",
    "lost | 0-1 1 reserve a:x1; 2-3 1 release unknown",
    "lost | 0-1 1 reserve a:x1; 2-3 1 use unknown",
    "not there then | 0-1 1 reserve a:x1; 2-3 2 release known; 4-5 2 use known",
    "had ended before | 0-1 1 reserve a:x1; 2-3 2 release known; 4-5 3 release known",
    "skew 2 | 0-1 1 reserve a:x1; 2-3 2 reserve b:x1",
    "skew 2 | 0-1 1 reserve a:x1; 2-3 1 use known; 4-5 2 bind; 6-7 3 reserve b:x1",
    "no room | 0-1 1 reserve a:x1; 2-3 2 reserve b:y1; 4-5 3 reserve c:x1; 6-7 4 reserve d:y1; \
     8-9 5 reserve e:x1",
    "nobody reserved | 0-1 1 release known",
];

/// Histories of reservations that expire, of requests that are repeated, and of other epochs.
const TIMED: [&str; 14] = [
    "right | 0-1 1 request a:; 100-101 1 use unknown",
    "lost | 0-1 1 request a:; 98-99 1 use unknown",
    "lost | 0-1 1 request a:; 50-51 1 use known 150; 120-121 1 use unknown",
    "right | 0-1 1 request a:; 2-2 0 release unanswered; 98-99 2 use unknown",
    "right | 0-1 1 request a:; 2-3 1 told a",
    "two answers | 0-1 1 request a:; 2-3 1 told b",
    "reserved twice | 0-1 1 request a:; 2-3 2 request b:",
    "reserved twice | 0-1 1 request a:; 2-3 1 request",
    "right | 0-1 1 request a:; 100-101 2 request b:",
    "right | 0-1 1 request a:; 2-3 0 use unknown elsewhere",
    "right | 0-1 1 request a:; 2-3 2 request b: elsewhere",
    "twice | 0-1 1 request a:; 2-3 2 request a: elsewhere",
    // The first call is made when the history begins, at the time zero.
    "lost | 0-1 0 request a:; 0-2 0 use unknown",
    "was over | 0-1 1 request a:; 2-3 2 release known; 4-5 3 use known elsewhere",
];

fn rules() -> Rules {
    let zones = [("x1", "x"), ("y1", "y")];
    Rules {
        zones: zones.map(|(node, zone)| (node.into(), zone.into())).into(),
        room: 2,
        max_skew: 1,
    }
}

fn seconds(after: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(after)
}

/// An event of a text: the moments of the call and of its answer, the revision, what was done and its
/// outcome. A request has a key. Reservations are held for 100 seconds.
fn event(text: &str) -> Event {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut is = |last: &str| words.pop_if(|word| *word == last).is_some();
    let (is_elsewhere, retried) = (is("elsewhere"), is("again"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (called, answered) = words[0].split_once('-').expect("two moments");
    let id = || "a".to_owned();
    let is_known = words.get(3) == Some(&"known");
    let what = match (words[2], &words[3..]) {
        (made @ ("reserve" | "request"), picks) => What::Reserved {
            picks: picks
                .iter()
                .filter_map(|pick| pick.split_once(':'))
                .map(|(id, node)| (id.into(), node.into()))
                .collect(),
            key: (made == "request").then_some(1),
            until: seconds(100),
        },
        ("told", ids) => What::ReservedBefore {
            key: 1,
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        },
        ("use", outcome) => What::Used {
            id: id(),
            known: is_known,
            until: outcome.get(1).map(|until| seconds(number(until))),
        },
        ("release", ["unanswered"]) => What::ReleaseUnanswered { id: id() },
        ("release", _) => What::Released {
            id: id(),
            known: is_known,
        },
        ("bind", _) => What::Bound {
            id: id(),
            pod: "p".into(),
        },
        ("delete", _) => What::Deleted { pod: "p".into() },
        ("feed", _) => What::Fed,
        ("read", _) => What::Read,
        (other, _) => panic!("nobody does {other}"),
    };
    Event {
        called: number(called),
        answered: number(answered),
        at: seconds(number(answered)),
        retried,
        epoch: if is_elsewhere { "second" } else { "first" }.into(),
        revision: number(words[1]).cast_signed(),
        what,
    }
}

#[test]
fn a_history_of_several_servers_is_told_from_that_of_one() {
    let kept = KEPT.map(|case| (case, Some(rules())));
    let timed = TIMED.map(|case| (case, None));
    for (case, rules) in kept.into_iter().chain(timed) {
        let (expected, text) = case.split_once(" | ").expect("two parts");
        let history: Vec<Event> = text.split(';').map(event).collect();
        let found = faults(&history, rules.as_ref());
        match expected {
            "right" => assert!(found.is_empty(), "{found:?} of {text}"),
            part => assert!(
                found.iter().any(|text| text.contains(part)),
                "{part}: {found:?} of {text}"
            ),
        }
    }
}
