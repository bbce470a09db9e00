//! Tests of the text of answers, also with strings that would control a terminal.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::cli::output::{Format, json as as_json};
use crate::visible;

fn head() -> Head<'static> {
    Head {
        pod: "Deployment shop/web",
        source: Source {
            title: "snapshot \"default\"".to_owned(),
            ..Source::default()
        },
        all: false,
        taken_out: false,
        selected: 0,
    }
}

pub(super) fn answer<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the fixture is an answer")
}

fn plain(page: &Page) -> String {
    anstream::adapter::strip_str(&page.text()).to_string()
}

fn zone_constraint() -> Value {
    json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}, "minDomains": 1,
        "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"})
}

#[test]
fn a_constraint_says_what_it_counts_and_what_holds_the_minimum() {
    let domain = |value: &str, pods: i64| json!({"value": value, "matchingPods": pods});
    let empty =
        |values: &[&str]| -> Vec<Value> { values.iter().map(|value| domain(value, 0)).collect() };
    let with = |mut report: Value| {
        report["constraint"] = zone_constraint();
        report
    };
    let saying = |field: &str, value: Option<Value>| {
        let mut constraint = zone_constraint();
        let fields = constraint.as_object_mut().expect("it is a map");
        fields.remove(field);
        fields.extend(value.map(|value| (field.to_owned(), value)));
        json!({"constraint": constraint})
    };
    let cases = [
        (
            with(json!({"domainCount": 0})),
            "  minimum     0: no node is eligible, so there is no domain",
        ),
        (
            with(json!({"domainCount": 1, "minDomainsUnmet": true, "domains": [domain("a", 4)]})),
            "  minimum     0: only 1 domain, minDomains wants 1",
        ),
        (
            with(json!({"domainCount": 2, "globalMinimum": 1,
                "domains": [domain("", 1), domain("b", 2)]})),
            "  minimum     1, held by \"\"",
        ),
        (
            with(json!({"domainCount": 5, "domains": empty(&["a", "b", "c", "d", "e"])})),
            "  minimum     0, held by a, b, c and 2 more",
        ),
        (
            with(json!({"domainCount": 9, "domains": empty(&["a", "b"])})),
            "  minimum     0, held by a and b, and perhaps by others",
        ),
        (
            saying("labelSelector", None),
            "  counts      no pods (there is no selector)",
        ),
        (
            saying("labelSelector", Some(json!({}))),
            "  counts      no pods (kube-scheduler counts none for an empty selector)",
        ),
        (
            saying("minDomains", Some(json!(3))),
            "  with        minDomains 3",
        ),
        (
            saying("nodeAffinityPolicy", Some(json!("Ignore"))),
            "  with        node affinity ignored",
        ),
        (
            saying("nodeTaintsPolicy", Some(json!("Honor"))),
            "  with        taints honored",
        ),
        (
            saying("matchLabelKeys", Some(json!(["a", "b"]))),
            "  with        matchLabelKeys a, b",
        ),
    ];
    for (report, expected) in cases {
        let constraints = json!({"constraints": [report], "feasibleCount": 1});
        let text = plain(&filter(&head(), &answer(constraints)));
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[test]
fn long_lists_are_cut_unless_all_is_asked_for() {
    let names: Vec<String> = (0..1_050).map(|number| format!("n{number}")).collect();
    let answer = answer(json!({"feasible": names, "feasibleCount": 1_050, "nodeCount": 1_050}));
    let cut = plain(&filter(&head(), &answer));
    assert!(cut.contains("\nn49 "), "{cut}");
    assert!(!cut.contains("\nn50 "), "{cut}");
    assert!(
        cut.contains("\n... and 1,000 more nodes (--all lists them)\n"),
        "{cut}"
    );
    let all = plain(&filter(
        &Head {
            all: true,
            ..head()
        },
        &answer,
    ));
    assert!(all.contains("\nn1049 "), "{all}");
}

const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;t\u{7}\nFORGED\r\t\u{9b}1m\u{202e}b\u{2028}\u{7f}";

/// An answer in which every string is this one.
fn hostile_answer(kind: &str, string: &str) -> Value {
    let s = string;
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
    let hostile: T = answer(hostile_answer(kind, HOSTILE));
    let seen = visible::text(HOSTILE);
    let text = page(&hostile).text();
    assert!(text.contains(&*seen) && is_quiet(&text), "{kind}: {text:?}");
    let html = page(&hostile).html();
    assert!(is_quiet(&html), "{kind}: {html:?}");
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
fn nothing_from_outside_moves_the_terminal() {
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
