//! Bad fields that a decision refuses in the rest of its pod: node affinity, node selector and
//! tolerations.

use evenkeel::proto::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinityTerm,
    PreferredSchedulingTerm, Toleration,
};

use super::verdict::{decisions, refused, server};
use support::build::{
    hard, labelled, node_requirement, pairs, pod, pod_term, requiring_terms, selecting, spread,
    with_affinity,
};

/// A pod with a required node affinity of two terms, the second of which is `term`.
fn affine(term: NodeSelectorTerm) -> Pod {
    requiring_terms(pod("", &[]), vec![NodeSelectorTerm::default(), term])
}

#[tokio::test]
async fn node_affinity() {
    const REQUIRED: &str =
        "pod.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let expressions: [(&str, &str, &[&str], &str); 8] = [
        ("not a key", "In", &["v"], "key"),
        ("", "Exists", &[], "key"),
        ("k", "Equals", &["v"], "operator"),
        ("k", "", &["v"], "operator"),
        ("k", "In", &[], "values"),
        ("k", "DoesNotExist", &["v"], "values"),
        ("k", "Gt", &["1", "2"], "values"),
        ("k", "Lt", &[], "values"),
    ];
    let fields: [(&str, &str, &[&str], &str); 5] = [
        ("metadata.uid", "In", &["n0"], "key"),
        ("metadata.name", "Exists", &[], "operator"),
        ("metadata.name", "Gt", &["1"], "operator"),
        ("metadata.name", "In", &[], "values"),
        ("metadata.name", "NotIn", &["n0", "n1"], "values"),
    ];
    let mut rows = Vec::new();
    for (key, operator, values, field) in expressions {
        let requirement = node_requirement(key, operator, values);
        let pod = affine(NodeSelectorTerm {
            match_expressions: vec![requirement],
            match_fields: Vec::new(),
        });
        let path = format!("{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].{field}");
        let name = format!("{key} {operator} {values:?}");
        rows.extend(decisions(&name, &pod, &[path]));
    }
    for (key, operator, values, field) in fields {
        let pod = affine(NodeSelectorTerm {
            match_expressions: Vec::new(),
            match_fields: vec![node_requirement(key, operator, values)],
        });
        let path = format!("{REQUIRED}.nodeSelectorTerms[1].matchFields[0].{field}");
        let name = format!("{key} {operator} {values:?}");
        rows.extend(decisions(&name, &pod, &[path]));
    }
    let no_terms = requiring_terms(pod("", &[]), Vec::new());
    let path = format!("{REQUIRED}.nodeSelectorTerms");
    rows.extend(decisions("no terms", &no_terms, &[path]));
    let selecting = selecting(pod("", &[]), &[("k", "a b")]);
    let path = ["pod.spec.nodeSelector"];
    rows.extend(decisions("node selector", &selecting, &path));
    refused(&server().await, rows).await;
}

#[tokio::test]
async fn affinity_to_other_pods() {
    let term = || pod_term("zone", &[("app", "web")]);
    let bad = |change: fn(&mut PodAffinityTerm), field: &'static str| {
        let mut term = term();
        change(&mut term);
        (term, field)
    };
    let cases = [
        bad(|term| term.topology_key.clear(), "topologyKey"),
        bad(|term| term.topology_key = "a b".into(), "topologyKey"),
        bad(|term| term.namespaces = vec!["A".into()], "namespaces[0]"),
        bad(|term| term.namespaces = vec!["".into()], "namespaces[0]"),
        bad(
            |term| term.namespace_selector = Some(labelled(&[("a b", "")])),
            "namespaceSelector.matchLabels",
        ),
        bad(
            |term| term.label_selector = Some(labelled(&[("k", "a b")])),
            "labelSelector.matchLabels",
        ),
        bad(
            |term| term.match_label_keys = vec!["a b".into()],
            "matchLabelKeys[0]",
        ),
        bad(
            |term| term.match_label_keys = vec!["app".into()],
            "matchLabelKeys[0]",
        ),
        bad(
            |term| {
                term.match_label_keys = vec!["k".into()];
                term.mismatch_label_keys = vec!["k".into()];
            },
            "matchLabelKeys[0]",
        ),
        bad(
            |term| {
                term.label_selector = None;
                term.mismatch_label_keys = vec!["k".into()];
            },
            "mismatchLabelKeys",
        ),
    ];
    let mut rows = Vec::new();
    for (bad, field) in cases {
        let list = "requiredDuringSchedulingIgnoredDuringExecution[1]";
        let web = || pod("", &[("app", "web"), ("k", "v")]);
        let terms = [term(), bad];
        let near = with_affinity(web(), &terms, &[]);
        let apart = with_affinity(web(), &[], &terms);
        for (rules, pod) in [("podAffinity", near), ("podAntiAffinity", apart)] {
            let path = format!("pod.spec.affinity.{rules}.{list}.{field}");
            rows.extend(decisions(&format!("{rules} {field}"), &pod, &[path]));
        }
    }
    refused(&server().await, rows).await;
}

#[tokio::test]
async fn preferred_node_affinity() {
    let mut rows = Vec::new();
    for (weight, operator, field) in [
        (0, "Exists", "weight"),
        (101, "Exists", "weight"),
        (1, "exists", "preference.matchExpressions[0].operator"),
    ] {
        let mut pod = pod("", &[]);
        let preferred = PreferredSchedulingTerm {
            weight,
            preference: Some(NodeSelectorTerm {
                match_expressions: vec![node_requirement("k", operator, &[])],
                match_fields: Vec::new(),
            }),
        };
        pod.spec.get_or_insert_default().affinity = Some(Affinity {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: None::<NodeSelector>,
                preferred_during_scheduling_ignored_during_execution: vec![preferred],
            }),
            ..Affinity::default()
        });
        let path = format!(
            "pod.spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].{field}"
        );
        rows.extend(decisions(&format!("{weight} {operator}"), &pod, &[path]));
    }
    refused(&server().await, rows).await;
}

/// Key, operator, value, effect and seconds, and the field at fault.
type TolerationRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<i64>,
    &'static str,
);

#[tokio::test]
async fn tolerations() {
    let rows: [TolerationRow; 8] = [
        ("not a key", "Exists", "", "", None, "key"),
        ("", "Equal", "", "", None, "operator"),
        ("", "", "", "", None, "operator"),
        ("k", "In", "v", "", None, "operator"),
        ("k", "Exists", "v", "", None, "operator"),
        ("k", "Equal", "a b", "", None, "operator"),
        ("k", "Exists", "", "noSchedule", None, "effect"),
        ("k", "Exists", "", "NoSchedule", Some(300), "effect"),
    ];
    let mut table = Vec::new();
    for (key, operator, value, effect, toleration_seconds, field) in rows {
        let mut pod = pod("", &[]);
        let spec = pod.spec.get_or_insert_default();
        let fine = Toleration {
            operator: "Exists".into(),
            ..Toleration::default()
        };
        let bad = Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
            toleration_seconds,
        };
        spec.tolerations = vec![fine, bad.clone()];
        let path = format!("pod.spec.tolerations[1].{field}");
        table.extend(decisions(&format!("{bad:?}"), &pod, &[path]));
    }
    refused(&server().await, table).await;
}

/// Faults of different parts of a pod come back together.
#[tokio::test]
async fn all_faults_of_a_pod_at_once() {
    let mut bad = spread(pod("Not_A_Name", &[("k", "a b")]), vec![hard(0, "", &[])]);
    let spec = bad.spec.get_or_insert_default();
    spec.node_selector = pairs(&[("not a key", "v")]);
    spec.tolerations.push(Toleration {
        key: "k".into(),
        operator: "In".into(),
        ..Toleration::default()
    });
    let fields = [
        "pod.metadata.name",
        "pod.metadata.labels",
        "pod.spec.nodeSelector",
        "pod.spec.tolerations[0].operator",
        "pod.spec.topologySpreadConstraints[0].maxSkew",
        "pod.spec.topologySpreadConstraints[0].topologyKey",
    ];
    refused(&server().await, decisions("all", &bad, &fields).into()).await;
}
