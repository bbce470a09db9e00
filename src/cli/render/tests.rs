//! Tests of answers with strings that would control a terminal, or end an element of a page.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::cli::output::{Format, json as as_json};
use crate::visible;

const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;t\u{7}\nFORGED\r\t\u{9b}1m\u{202e}b\u{2028}\u{7f}\
    </title></style><script>alert('1')</script><img src=x onerror='a()'>&";

/// What lets a page load or run anything.
const FROM_ELSEWHERE: [&str; 7] = [
    "src=", "href=", "url(", "@import", "<link", "<script", "http:",
];

/// An answer in which every string is this one.
fn hostile_answer(kind: &str) -> Value {
    let s = HOSTILE;
    let constraint = json!({"maxSkew": 1, "topologyKey": s, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {s: s},
            "matchExpressions": [{"key": s, "operator": "In", "values": [s]}]},
        "matchLabelKeys": [s], "minDomains": 1});
    let report = json!({"constraint": constraint, "domainCount": 1,
        "domains": [{"value": s, "matchingPods": 2, "skew": 3, "eligibleNodes": 2}]});
    let reasons = json!([{"reason": s, "count": 1}]);
    match kind {
        "filter" => json!({"nodeCount": 2, "feasible": [s], "feasibleCount": 1, "reasons": reasons,
            "infeasible": [{"node": s, "code": "CODE_UNSCHEDULABLE", "reason": s}],
            "constraints": [report]}),
        "explain" => json!({"nodeCount": 2, "feasible": [s], "summary": s, "reasons": reasons,
            "constraints": [report],
            "insights": [{"minimum": "MINIMUM_BY_DOMAINS", "minimumDomains": [s],
                "minimumDomainCount": 1, "leftOut": [{"nodeCount": 1, "nodes": [s]}]}],
            "hints": [{"message": s, "domain": s}]}),
        "spread" => json!({"workloadCount": 1, "workloads": [
            {"namespace": s, "kind": s, "name": s, "labels": {s: s}, "podCount": 1, "topologies": [
                {"topologyKey": s, "domainCount": 1, "constraint": constraint,
                 "domains": [{"value": s, "matchingPods": 1}]}]},
            {"namespace": s, "labels": {s: s}, "podCount": 1, "fault": s}]}),
        _ => unreachable!("{kind}"),
    }
}

fn is_quiet(text: &str) -> bool {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.lines().all(|line| visible::text(line) == line)
}

/// Checks an answer in all formats.
fn check<T: Serialize + for<'de> Deserialize<'de>>(kind: &str, page: impl Fn(&T) -> Page) {
    let hostile: T = serde_json::from_value(hostile_answer(kind)).expect("an answer");
    let seen = visible::text(HOSTILE);
    let text = page(&hostile).text();
    assert!(text.contains(&*seen) && is_quiet(&text), "{kind}: {text:?}");
    let html = page(&hostile).html();
    assert!(is_quiet(&html), "{kind}: {html:?}");
    let escaped = maud::html! { (seen) }.into_string();
    assert!(html.contains(&escaped), "{kind}: {html}");
    let rest = html.replace(&escaped, "");
    for part in FROM_ELSEWHERE {
        assert!(!rest.contains(part), "{kind}: {part} in {rest}");
    }
    assert!(rest.contains("default-src 'none'"), "{kind}: {rest}");
    let names = || vec![HOSTILE.to_owned()];
    let names = Format::Name.text(&hostile, || page(&hostile), names);
    assert!(is_quiet(&names.expect("names")), "{kind}");
    let json = as_json(&hostile).expect("it is written");
    assert!(is_quiet(&json), "{kind}: {json:?}");
    let again: Value = serde_json::from_str(&json).expect("JSON stays JSON");
    assert_eq!(
        again,
        serde_json::to_value(&hostile).expect("it is written")
    );
}

#[test]
fn nothing_from_outside_moves_the_terminal_or_is_markup() {
    let head = Head {
        pod: HOSTILE,
        source: Source::default(),
        all: false,
        taken_out: true,
        selected: 0,
    };
    check("filter", |answer| filter(&head, answer));
    check("explain", |answer| explain(&head, answer));
    for bars in [false, true] {
        let about = SpreadOf {
            source: &Source::default(),
            by: None,
            selector: None,
            all: true,
            bars,
            loaded: true,
        };
        check("spread", |answer| spread(&about, answer));
    }
}
