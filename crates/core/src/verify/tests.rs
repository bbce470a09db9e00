//! Every kind of drift is found.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{compare, verify};
use crate::matching::Path;
use crate::proto::{count, v1};
use crate::snapshot::{Batch, Deadline, Limits, Offer, Registry, Snapshot, Stopped, Unobserved};
use crate::spread::{Filter, NodeChecks, Question};

/// A registry whose snapshot `default` has two zones, two pods and live views.
pub(crate) fn registry() -> Arc<Registry> {
    let registry = Registry::new(Limits::default(), Arc::new(Unobserved));
    let changes = json!([
        {"node": {"metadata": {"name": "n1", "labels": {"zone": "a"}}}},
        {"node": {"metadata": {"name": "n2", "labels": {"zone": "b"}}}},
        {"pod": {"metadata": {"name": "p1", "labels": {"app": "web"}}, "spec": {"nodeName": "n1"}}},
        {"pod": {"metadata": {"name": "p2", "labels": {"app": "web"}}, "spec": {"nodeName": "n2"}}},
    ]);
    update(&registry, changes);
    let snapshot = registry.get("default").expect("it exists");
    ask(&snapshot, spread_by_zone());
    Arc::new(registry)
}

/// Asks Filter about a pod, and returns the counts of its first constraint by domain.
fn ask(snapshot: &Snapshot, pod: Value) -> Vec<(String, i64)> {
    let pod: v1::Pod = serde_json::from_value(pod).expect("a pod");
    let question = Question::compile(Some(&pod), &Limits::default(), Path::root("pod"));
    let question = question.expect("a valid pod");
    let read = snapshot.read("default", Batch::default(), |read_view| {
        let constraints = question.constraints_on(&read_view)?;
        let filter = Filter::of(&question, &constraints, NodeChecks::All, &read_view)?;
        let reports = filter.reports(usize::MAX)?;
        let domains = reports[0].domains.iter();
        let domains = domains.map(|d| (d.tally.value.to_owned(), d.tally.matching_pods));
        Ok(domains.collect())
    });
    read.expect("nobody gives it up")
}

fn verified(snapshot: &Snapshot) -> v1::VerifySnapshotResponse {
    verify(&snapshot.state(), &|| false).expect("it is not cancelled")
}

fn spread_by_zone() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"topologySpreadConstraints": [{
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]},
    })
}

pub(crate) fn update(registry: &Registry, changes: Value) {
    update_of(registry, "default", changes);
}

fn update_of(registry: &Registry, snapshot: &str, changes: Value) {
    let changes: Vec<v1::Change> = serde_json::from_value(changes).expect("changes");
    let batch = Batch::check(changes, &Limits::default(), Path::root("changes"));
    let offer = Offer::of(Arc::new(batch.expect("valid")), registry.now().steady);
    let updated = registry.update(snapshot, offer);
    updated.expect("it is applied");
}

#[test]
fn what_agrees_is_said_to_agree() {
    let snapshot = registry().get("default").expect("it exists");
    let report = verified(&snapshot);
    assert_eq!(report.mismatches, []);
    assert_eq!(
        (report.node_count, report.pod_count, report.label_set_count),
        (2, 2, 1)
    );
    // The zones of the constraint and the nodes that pass the other checks.
    assert_eq!((report.view_count, report.partition_count), (1, 2));
}

/// A state is compared with one in which a change came, of which it knows nothing.
#[test]
fn each_difference_is_found() {
    let pod = json!({"pod": {
        "metadata": {"name": "p3", "labels": {"app": "web"}}, "spec": {"nodeName": "n1"},
    }});
    let other = json!({"pod": {
        "metadata": {"name": "p3", "labels": {"app": "web", "tier": "a"}}, "spec": {"nodeName": "n1"},
    }});
    let moved = json!({"node": {"metadata": {"name": "n1"}}});
    let cases = [
        (&pod, "count of domain \"a\"", "1", "2"),
        (
            &other,
            "whether it matches [(\"app\", \"web\"), (\"tier\", \"a\")]",
            "none",
            "true",
        ),
        (
            &pod,
            "pods (\"{\\\"app\\\":\\\"web\\\"}\", Some(\"n1\"))",
            "1",
            "2",
        ),
        (
            &moved,
            "domain of node \"n1\"",
            "(Some(\"a\"), true)",
            "(None, false)",
        ),
        (&pod, "number of \"pods\"", "2", "3"),
    ];
    for (change, aspect, kept, recounted) in cases {
        let [state, changed] = [json!([]), json!([change])].map(|changes| {
            let registry = registry();
            update(&registry, changes);
            registry.get("default").expect("it exists").state()
        });
        let report = compare(&state, &changed, &Deadline::endless()).expect("it goes on");
        let mut found = report.mismatches.iter();
        let found = found.find(|found| found.aspect == aspect);
        let found = found.unwrap_or_else(|| panic!("{aspect}: {:?}", report.mismatches));
        assert_eq!(
            (&*found.kept, &*found.recounted),
            (kept, recounted),
            "{aspect}"
        );
        assert!(report.mismatch_count >= count(report.mismatches.len()));
    }
}

#[test]
fn a_cancelled_verification_ends() {
    let snapshot = registry().get("default").expect("it exists");
    assert_eq!(verify(&snapshot.state(), &|| true), Err(Stopped::GivenUp));
}

#[test]
fn views_that_missed_a_move_are_not_asked() {
    let registry = registry();
    let snapshot = registry.get("default").expect("it exists");
    update(
        &registry,
        json!([{"node": {"metadata": {"name": "n1", "labels": {"zone": "b"}}}}]),
    );
    let live_views = || {
        let report = verified(&snapshot);
        assert_eq!(report.mismatches, []);
        report.view_count
    };
    assert_eq!(live_views(), 0);
    assert_eq!(ask(&snapshot, spread_by_zone()), [("b".to_owned(), 2)]);
    assert_eq!(live_views(), 1);
}
