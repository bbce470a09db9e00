//! Tests of answers with strings that would control a terminal.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::cli::output::{Format, json as as_json};
use crate::cli::stored::PodsThere;
use crate::proto::v1::{ListReservationsResponse, ListSnapshotsResponse};
use crate::visible;

const HOSTILE: &str = "a\u{1b}[2J\u{1b}]0;t\u{7}\nFORGED\r\t\u{9b}1m\u{202e}b\u{2028}\u{7f}";

/// An answer in which every string is this one.
fn answer(kind: &str, string: &str) -> Value {
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
        "score" => json!({"scores": [{"node": s, "score": 1}], "unknownCandidates": [s],
            "constraints": [report]}),
        "explain" => json!({"nodeCount": 2, "feasible": [s], "summary": s, "reasons": reasons,
            "constraints": [report],
            "insights": [{"minimum": "MINIMUM_BY_DOMAINS", "minimumDomains": [s],
                "minimumDomainCount": 1, "leftOut": [{"nodeCount": 1, "nodes": [s]}]}],
            "hints": [{"message": s, "domain": s}]}),
        "place" => json!({"placements": [{"node": s, "score": 1, "reservationId": s}],
            "unplaced": 1, "reasons": reasons, "constraintsBefore": [report],
            "constraints": [report], "removed": [s]}),
        "reservations" => json!({"reservations": [
            {"id": s, "owner": s, "namespace": s, "node": s, "pod": {"name": s}},
            {"id": s, "owner": s, "namespace": s, "node": s, "pod": {"uid": s}}]}),
        "snapshots" => json!({"snapshots": [{"name": s, "epoch": s}]}),
        "snapshot" => json!({"name": s, "epoch": s, "defaultConstraints":
            {"constraints": [constraint]}}),
        "spread" => json!({"workloadCount": 1, "workloads": [
            {"namespace": s, "kind": s, "name": s, "labels": {s: s}, "podCount": 1, "topologies": [
                {"topologyKey": s, "domainCount": 1, "constraint": constraint,
                 "domains": [{"value": s, "matchingPods": 1}]}]},
            {"namespace": s, "labels": {s: s}, "podCount": 1, "fault": s}]}),
        "verified" => json!({"mismatchCount": 1, "mismatches": [
            {"namespace": s, "subject": s, "aspect": s, "kept": s, "recounted": s}]}),
        _ => unreachable!("{kind}"),
    }
}

fn is_quiet(text: &str) -> bool {
    let plain = anstream::adapter::strip_str(text).to_string();
    plain.lines().all(|line| visible::text(line) == line)
}

/// Checks an answer in all formats.
fn check<T: Serialize + for<'de> Deserialize<'de>>(kind: &str, page: impl Fn(&T) -> Page) {
    let hostile: T = super::tests::answer(answer(kind, HOSTILE));
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
    check("score", |answer| score(&head, answer));
    check("explain", |answer| explain(&head, answer));
    let there = PodsThere {
        waiting: vec![HOSTILE.to_owned()],
        ..PodsThere::default()
    };
    check("place", |answer| place(&head, answer, &there));
    check("reservations", |all: &ListReservationsResponse| {
        reservations(&all.reservations)
    });
    check("snapshots", |all: &ListSnapshotsResponse| {
        snapshots(&all.snapshots)
    });
    check("snapshot", snapshot);
    check("verified", |answer| verified("default", answer));
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
