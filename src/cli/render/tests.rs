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
