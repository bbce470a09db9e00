//! Explanations: they report nodes and constraints as Filter does, in as much detail as was asked
//! for.

use evenkeel::proto::v1::{
    ExplainRequest, FilterRequest, NodeNames, TopologySpreadConstraint, View, left_out,
};

use support::build::{
    ZONE, cordoned, explain_of, filter_of, hard, node, on, pod, selecting, soft, spread, tainted,
};
use support::model::Stored;
use support::server::Server;

const WEB: [(&str, &str); 1] = [("app", "web")];

/// Zones a and b, a node without a zone, and two nodes that the pod cannot use.
async fn server() -> Server {
    let server = Server::start().await;
    let nodes = [
        node("a1", &[(ZONE, "a"), ("disk", "ssd")]),
        node("b1", &[(ZONE, "b"), ("disk", "ssd")]),
        tainted(
            node("b2", &[(ZONE, "b"), ("disk", "ssd")]),
            "gpu",
            "",
            "NoSchedule",
        ),
        cordoned(node("c1", &[(ZONE, "c"), ("disk", "hdd")])),
        node("x1", &[("disk", "ssd")]),
    ];
    let mut changes: Vec<_> = nodes.into_iter().map(Stored::change).collect();
    for (name, on_node) in [("w1", "a1"), ("w2", "a1"), ("w3", "x1")] {
        changes.push(on(pod(name, &WEB), on_node).change());
    }
    server.update("", changes).await;
    server
}

fn asking() -> evenkeel::proto::v1::Pod {
    let constraint = TopologySpreadConstraint {
        node_taints_policy: Some("Honor".into()),
        ..hard(1, ZONE, &WEB)
    };
    let constraints = vec![constraint, soft(1, ZONE, &WEB)];
    selecting(spread(pod("next", &WEB), constraints), &[("disk", "ssd")])
}

#[tokio::test]
async fn verdicts_and_hard_reports_are_those_of_filter() {
    let server = server().await;
    let candidates = Some(NodeNames {
        names: vec!["x1".into(), "b1".into(), "stranger".into(), "a1".into()],
    });
    for (candidates, node_checks) in [(None, 0), (None, 1), (candidates, 0)] {
        let filter = FilterRequest {
            candidates: candidates.clone(),
            node_checks,
            view: View::Full as i32,
            ..filter_of(asking())
        };
        let explained = ExplainRequest {
            candidates,
            node_checks,
            ..explain_of(asking())
        };
        let mut want = server.filter(filter).await;
        // Explain counts usable nodes in its insights instead.
        for domain in &mut want.constraints[0].domains {
            domain.feasible_nodes = 0;
        }
        let got = server.explain(explained).await;
        assert_eq!(got.constraints[0], want.constraints[0]);
        assert_eq!(got.constraints[1].constraint_index, 1, "the soft one, too");
        assert_eq!(
            (
                got.revision,
                got.epoch,
                got.feasible,
                got.infeasible,
                got.reasons
            ),
            (
                want.revision,
                want.epoch,
                want.feasible,
                want.infeasible,
                want.reasons
            ),
        );
        assert_eq!(
            (got.feasible_count, got.node_count, got.unknown_candidates),
            (
                want.feasible_count,
                want.node_count,
                want.unknown_candidates
            ),
        );
    }
}

#[tokio::test]
async fn insights_say_who_was_left_out_and_what_the_limit_is() {
    let server = server().await;
    let answer = server.explain(explain_of(asking())).await;
    let insight = &answer.insights[0];
    let left_out: Vec<_> = insight
        .left_out
        .iter()
        .map(|l| (l.cause(), l.nodes.join(","), l.matching_pods))
        .collect();
    let expected = [
        (left_out::Cause::MissingKey, "x1".to_owned(), 1),
        (left_out::Cause::NodeAffinity, "c1".to_owned(), 0),
        (left_out::Cause::Taints, "b2".to_owned(), 0),
    ];
    assert_eq!(left_out, expected);
    // b has none, so a domain may have 1 with the pod and 0 before.
    assert_eq!(insight.limit, 0);
    assert_eq!(insight.minimum_domains, ["b"]);
    assert_eq!(
        insight.admitted_node_count, 3,
        "b1, b2 and the value c, which is no domain"
    );
    let domains: Vec<_> = insight
        .domains
        .iter()
        .map(|d| (&*d.value, d.matching_pods_after, d.usable_node_count))
        .collect();
    assert_eq!(domains, [("b", 1, 1), ("a", 3, 1)]);
    let summary = "1 of 5 nodes satisfies what was checked (topology.kubernetes.io/zone=b): 1 node would \
                   exceed maxSkew 1 of topology.kubernetes.io/zone (b has no pod), 1 node is cordoned, 1 \
                   node is tainted with gpu:NoSchedule and 1 node lacks the label \
                   topology.kubernetes.io/zone.";
    assert_eq!(answer.summary, summary);
}

#[tokio::test]
async fn a_view_says_which_nodes_are_named() {
    let server = server().await;
    let cases = [
        (View::Unspecified, true, true),
        (View::Full, true, true),
        (View::Basic, true, false),
        (View::Domains, false, false),
        (View::Bitmap, false, false),
    ];
    for (view, feasible, infeasible) in cases {
        let request = ExplainRequest {
            view: view as i32,
            ..explain_of(asking())
        };
        let answer = server.explain(request).await;
        assert_eq!(!answer.feasible.is_empty(), feasible, "{view:?}");
        assert_eq!(!answer.infeasible.is_empty(), infeasible, "{view:?}");
        assert_eq!(answer.feasible_count, 1, "{view:?}");
        assert!(!answer.summary.is_empty(), "{view:?}");
    }
}
