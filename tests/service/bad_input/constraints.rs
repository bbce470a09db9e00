//! Bad spread constraints that a decision refuses in its pod, and an update in default constraints.

use evenkeel::proto::v1::{
    DefaultConstraints, LabelSelector, TopologySpreadConstraint, UpdateSnapshotRequest,
};

use super::verdict::{Call, decisions, invalid, refused, send, server};
use support::build::{HOSTNAME, ZONE, defaults_of, hard, pod, requirement, soft, spread};

/// A name for the row, the damage to a valid constraint, and the paths of the violations within the
/// constraint.
type ConstraintRow = (
    &'static str,
    fn(&mut TopologySpreadConstraint),
    &'static [&'static str],
);

fn selector(c: &mut TopologySpreadConstraint) -> &mut LabelSelector {
    c.label_selector.get_or_insert_default()
}

/// Adds an expression to the selector.
fn selects(c: &mut TopologySpreadConstraint, key: &str, operator: &str, values: &[&str]) {
    let expression = requirement(key, operator, values);
    selector(c).match_expressions.push(expression);
}

/// Rules that hold for default constraints too.
const CONSTRAINT: &[ConstraintRow] = &[
    ("maxSkew 0", |c| c.max_skew = 0, &["maxSkew"]),
    ("maxSkew -1", |c| c.max_skew = -1, &["maxSkew"]),
    (
        "no topologyKey",
        |c| c.topology_key.clear(),
        &["topologyKey"],
    ),
    (
        "topologyKey with a space",
        |c| c.topology_key = "a zone".into(),
        &["topologyKey"],
    ),
    (
        "topologyKey with two slashes",
        |c| c.topology_key = "a/b/c".into(),
        &["topologyKey"],
    ),
    (
        "topologyKey too long",
        |c| c.topology_key = "k".repeat(64),
        &["topologyKey"],
    ),
    (
        "no whenUnsatisfiable",
        |c| c.when_unsatisfiable.clear(),
        &["whenUnsatisfiable"],
    ),
    (
        "unknown whenUnsatisfiable",
        |c| c.when_unsatisfiable = "doNotSchedule".into(),
        &["whenUnsatisfiable"],
    ),
    ("minDomains 0", |c| c.min_domains = Some(0), &["minDomains"]),
    (
        "minDomains -1",
        |c| c.min_domains = Some(-1),
        &["minDomains"],
    ),
    (
        "minDomains of a soft constraint",
        |c| {
            c.when_unsatisfiable = "ScheduleAnyway".into();
            c.min_domains = Some(2);
        },
        &["minDomains"],
    ),
    (
        "unknown nodeAffinityPolicy",
        |c| c.node_affinity_policy = Some("honor".into()),
        &["nodeAffinityPolicy"],
    ),
    (
        "empty nodeTaintsPolicy",
        |c| c.node_taints_policy = Some(String::new()),
        &["nodeTaintsPolicy"],
    ),
    (
        "everything at once",
        |c| {
            c.max_skew = 0;
            c.topology_key.clear();
            c.when_unsatisfiable = "Perhaps".into();
            c.node_affinity_policy = Some("?".into());
            c.node_taints_policy = Some("?".into());
        },
        &[
            "maxSkew",
            "topologyKey",
            "whenUnsatisfiable",
            "nodeAffinityPolicy",
            "nodeTaintsPolicy",
        ],
    ),
];

/// Rules about the selector, which default constraints must not have.
const SELECTOR: &[ConstraintRow] = &[
    (
        "matchLabelKeys without a selector",
        |c| {
            c.label_selector = None;
            c.match_label_keys = vec!["hash".into()];
        },
        &["matchLabelKeys"],
    ),
    (
        "matchLabelKeys with a bad key",
        |c| c.match_label_keys = vec!["ok".into(), "not ok".into()],
        &["matchLabelKeys[1]"],
    ),
    (
        "matchLabelKeys of matchLabels",
        |c| c.match_label_keys = vec!["app".into()],
        &["matchLabelKeys[0]"],
    ),
    (
        "matchLabelKeys of another expression",
        |c| {
            selects(c, "tier", "NotIn", &["x"]);
            c.match_label_keys = vec!["tier".into()];
        },
        &["matchLabelKeys[0]"],
    ),
    (
        "matchLabelKeys that are merged into a selector with the key",
        |c| {
            selects(c, "app", "In", &["web"]);
            c.match_label_keys = vec!["app".into()];
        },
        &["matchLabelKeys[0]"],
    ),
    (
        "bad key in matchLabels",
        |c| drop(selector(c).match_labels.insert("-k".into(), String::new())),
        &["labelSelector.matchLabels"],
    ),
    (
        "bad value in matchLabels",
        |c| drop(selector(c).match_labels.insert("k".into(), "a b".into())),
        &["labelSelector.matchLabels"],
    ),
    (
        "long value in matchLabels",
        |c| drop(selector(c).match_labels.insert("k".into(), "v".repeat(300))),
        &["labelSelector.matchLabels"],
    ),
    (
        "expression without a key",
        |c| selects(c, "", "Exists", &[]),
        &["labelSelector.matchExpressions[0].key"],
    ),
    (
        "unknown operator",
        |c| selects(c, "k", "in", &["v"]),
        &["labelSelector.matchExpressions[0].operator"],
    ),
    (
        "a node's operator",
        |c| selects(c, "k", "Gt", &["1"]),
        &["labelSelector.matchExpressions[0].operator"],
    ),
    (
        "In without values",
        |c| selects(c, "k", "In", &[]),
        &["labelSelector.matchExpressions[0].values"],
    ),
    (
        "NotIn without values",
        |c| selects(c, "k", "NotIn", &[]),
        &["labelSelector.matchExpressions[0].values"],
    ),
    (
        "Exists with values",
        |c| selects(c, "k", "Exists", &["v"]),
        &["labelSelector.matchExpressions[0].values"],
    ),
    (
        "DoesNotExist with values",
        |c| selects(c, "k", "DoesNotExist", &["v"]),
        &["labelSelector.matchExpressions[0].values"],
    ),
    (
        "bad value in an expression",
        |c| selects(c, "k", "In", &["v", "a b"]),
        &["labelSelector.matchExpressions[0].values[1]"],
    ),
];

/// Sends each bad constraint to Filter and Score, as the second constraint of the pod.
#[tokio::test]
async fn constraints_of_a_pod() {
    let mut rows = Vec::new();
    for (name, damage, fields) in CONSTRAINT.iter().chain(SELECTOR) {
        let mut bad = hard(1, ZONE, &[("app", "web")]);
        damage(&mut bad);
        let at = |f: &&str| format!("pod.spec.topologySpreadConstraints[1].{f}");
        let fields: Vec<String> = fields.iter().map(at).collect();
        let labels = [("app", "web"), ("tier", "front")];
        let pod = spread(
            pod("", &labels),
            vec![soft(1, "rack", &[("app", "web")]), bad],
        );
        rows.extend(decisions(name, &pod, &fields));
    }
    refused(&server().await, rows).await;
}

#[tokio::test]
async fn constraints_with_the_same_key_and_action() {
    let pod = spread(
        pod("", &[]),
        vec![
            hard(1, ZONE, &[]),
            soft(1, ZONE, &[]),
            hard(1, HOSTNAME, &[]),
            hard(2, ZONE, &[("app", "web")]),
        ],
    );
    let fields = ["pod.spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}"];
    refused(&server().await, decisions("same", &pod, &fields).into()).await;
}

/// The API server admits these, and kube-scheduler binds them: it merges the keys of labels that the
/// pod has at its creation, and the labels may change later.
#[tokio::test]
async fn match_label_keys_that_the_api_server_admits() {
    type Shape = (
        &'static str,
        &'static [(&'static str, &'static str)],
        fn(&mut TopologySpreadConstraint),
    );
    let merged = |c: &mut TopologySpreadConstraint| selects(c, "hash", "In", &["new"]);
    let shapes: [Shape; 5] = [
        (
            "as it was created",
            &[("app", "web"), ("hash", "new")],
            merged,
        ),
        (
            "the label changed later",
            &[("app", "web"), ("hash", "old")],
            merged,
        ),
        ("the label was removed later", &[("app", "web")], merged),
        (
            "no label, and the selector forbids it",
            &[("app", "web")],
            |c| selects(c, "hash", "DoesNotExist", &[]),
        ),
        (
            "no label, and matchLabels name it",
            &[("app", "web")],
            |c| {
                drop(selector(c).match_labels.insert("hash".into(), "new".into()));
            },
        ),
    ];
    let server = server().await;
    for (shape, labels, change) in shapes {
        let mut constraint = hard(1, ZONE, &[("app", "web")]);
        change(&mut constraint);
        constraint.match_label_keys = vec!["hash".into()];
        let pod = spread(pod("", labels), vec![constraint]);
        for (name, call, _) in decisions(shape, &pod, &[""]) {
            send(&server, call).await.expect(&name);
        }
    }
}

#[tokio::test]
async fn default_constraints() {
    let update = |defaults: DefaultConstraints| {
        Call::Update(UpdateSnapshotRequest {
            default_constraints: Some(defaults),
            ..UpdateSnapshotRequest::default()
        })
    };
    let with_selector: &[ConstraintRow] = &[(
        "a selector",
        |c| c.label_selector = Some(LabelSelector::default()),
        &["labelSelector"],
    )];
    let mut rows = Vec::new();
    for (name, damage, fields) in CONSTRAINT.iter().chain(with_selector) {
        let mut bad = hard(1, ZONE, &[]);
        bad.label_selector = None;
        damage(&mut bad);
        let at = |f: &&str| format!("defaultConstraints.constraints[0].{f}");
        let fields: Vec<String> = fields.iter().map(at).collect();
        let defaults = DefaultConstraints {
            constraints: vec![bad],
            system: false,
        };
        rows.push(invalid(*name, update(defaults), &fields));
    }
    let system = DefaultConstraints {
        system: true,
        ..defaults_of(vec![hard(1, ZONE, &[])])
    };
    let fields = ["defaultConstraints.system"];
    rows.push(invalid("system and a list", update(system), &fields));
    refused(&server().await, rows).await;
}
