//! Tests of the text of answers.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

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
fn a_filter_answer_shows_verdicts_and_numbers() {
    let spread = "node(s) didn't match pod topology spread constraints";
    let answer = answer(json!({
        "revision": 7, "feasibleCount": 1, "nodeCount": 4, "feasible": ["c1"],
        "infeasible": [
            {"node": "a1", "code": "CODE_UNSCHEDULABLE", "reason": spread, "skew": 3},
            {"node": "a2", "code": "CODE_UNSCHEDULABLE_AND_UNRESOLVABLE",
             "reason": "node(s) were unschedulable", "constraintIndex": -1},
            {"node": "x1", "code": "CODE_UNSCHEDULABLE_AND_UNRESOLVABLE",
             "reason": format!("{spread} (missing required label)")},
        ],
        "reasons": [{"reason": spread, "count": 1}],
        "constraints": [{"constraint": zone_constraint(), "domainCount": 3, "selfMatch": 1,
            "domains": [
                {"value": "b", "skew": 1, "feasible": true, "eligibleNodes": 1},
                {"value": "c", "skew": 1, "feasible": true, "eligibleNodes": 1, "feasibleNodes": 1},
                {"value": "a", "matchingPods": 2, "skew": 3, "eligibleNodes": 2},
            ]}],
    }));
    let expected = "\
Deployment shop/web
snapshot \"default\", revision 7, default constraints: none
feasible: 1 of 4 nodes
  1 node(s) didn't match pod topology spread constraints

NODE  VERDICT        REASON
c1    feasible
a1    unschedulable  node(s) didn't match pod topology spread constraints; zone: skew 3 > 1
a2    unresolvable   node(s) were unschedulable
x1    unresolvable   node(s) didn't match pod topology spread constraints (missing required label); has no zone

constraint 0: zone, max skew 1, DoNotSchedule
  counts      pods with app=web
  self match  yes: the pod counts for itself
  minimum     0, held by b, c
  DOMAIN  PODS  SKEW  NODES  VERDICT
  b       0     1     1      no feasible node
  c       0     1     1      skew 1 <= 1
  a       2     3     2      skew 3 > 1
";
    assert_eq!(plain(&filter(&head(), &answer)), expected);
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
            "  minimum     0, held by a, b and perhaps more",
        ),
        (
            with(json!({"domainCount": 9, "domains": empty(&["a", "b", "c", "d"])})),
            "  minimum     0, held by a, b, c and at least 1 more",
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
fn a_score_answer_shows_scores_and_weights() {
    let answer = answer(json!({
        "revision": 7,
        "scores": [
            {"node": "b1", "score": 100, "raw": 2},
            {"node": "x1", "ignored": true},
        ],
        "constraints": [{"constraint": zone_constraint(), "fromDefaults": true, "domainCount": 1,
            "weight": 1.098612, "domains": [{"value": "b", "matchingPods": 1, "eligibleNodes": 1}]}],
    }));
    let expected = "\
Deployment shop/web
snapshot \"default\", revision 7, default constraints: none

NODE  SCORE  RAW  NOTE
b1    100    2
x1    0      0    ignored: lacks a topology key

default constraint 0: zone, max skew 1, DoNotSchedule
  counts      pods with app=web, deduced from services and the pod's owner
  self match  no: the pod does not count for itself
  weight      1.0986 per pod: ln(1 + 2), for 1 domain
  DOMAIN  PODS  NODES
  b       1     1
";
    assert_eq!(plain(&score(&head(), &answer)), expected);
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

#[test]
fn snapshots_are_listed_in_columns() {
    let snapshots: crate::proto::v1::ListSnapshotsResponse = answer(json!({"snapshots": [
        {"name": "default", "revision": 12, "synced": true, "nodeCount": 3, "podCount": 5800,
         "updateTime": "2026-08-01T10:00:00Z"},
        {"name": "expected"},
    ]}));
    let expected = "\
NAME      REVISION  SYNCED  NODES  PODS   UPDATED
default   12        yes     3      5,800  2026-08-01T10:00:00Z
expected  0         no      0      0      -
";
    assert_eq!(plain(&super::snapshots(&snapshots.snapshots)), expected);
    assert_eq!(plain(&super::snapshots(&[])), "no snapshots\n");
}
