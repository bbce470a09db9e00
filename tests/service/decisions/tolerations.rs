//! Tolerations that compare numbers: a setting enables them, as a feature gate does in Kubernetes.

use crate::decisions::room::{changes, pod};
use evenkeel::proto::v1::{FilterRequest, Node, NodeChecks};
use evenkeel::snapshot::Limits;
use serde_json::json;
use support::recount::Cluster;
use support::server::Server;

/// A taint's value, an operator and a toleration's value, and whether the taint is tolerated where
/// tolerations compare numbers.
const CASES: [(&str, &str, &str, bool); 14] = [
    ("5", "Gt", "4", true),
    ("5", "Gt", "5", false),
    ("5", "Gt", "-6", true),
    ("5", "Lt", "6", true),
    ("5", "Lt", "5", false),
    ("0", "Gt", "-1", true),
    ("5", "Lt", "-6", false),
    ("9223372036854775807", "Gt", "9223372036854775806", true),
    ("9223372036854775808", "Gt", "1", false),
    ("05", "Gt", "4", false),
    ("five", "Gt", "4", false),
    ("", "Lt", "4", false),
    ("5", "Equal", "5", true),
    ("5", "Exists", "", true),
];

#[tokio::test]
async fn tolerations_compare_numbers_where_a_setting_says_so() {
    for toleration_comparisons in [false, true] {
        let server = Server::with_limits(Limits {
            toleration_comparisons,
            ..Limits::default()
        })
        .await;
        for (taint, operator, value, compares) in CASES {
            let node = json!({
                "metadata": {"name": "a"},
                "spec": {"taints": [{"key": "k", "value": taint, "effect": "NoSchedule"}]},
            });
            server
                .update("", changes(json!([{"node": node.clone()}])))
                .await;
            let other = json!({"key": "k", "operator": "Equal", "value": "else"});
            let toleration = json!({"key": "k", "operator": operator, "value": value});
            let pod = pod(json!({"tolerations": [other, toleration]}));
            let request = FilterRequest {
                pod: pod.clone(),
                ..FilterRequest::default()
            };
            let is_tolerated = server.filter(request).await.feasible_count == 1;
            let is_on = toleration_comparisons || !["Gt", "Lt"].contains(&operator);
            let case = format!("{taint:?} {operator} {value:?} {toleration_comparisons}");
            assert_eq!(is_tolerated, compares && is_on, "{case}");
            let node: Node = serde_json::from_value(node).expect("a node");
            let oracle = Cluster {
                nodes: vec![node],
                toleration_comparisons,
                ..Cluster::default()
            };
            let pod = pod.expect("a pod");
            let told = oracle.filter(&pod, None, NodeChecks::Unspecified);
            assert_eq!(!told.feasible().is_empty(), is_tolerated, "{case}");
        }
    }
}

#[tokio::test]
async fn a_comparison_needs_an_integer_where_it_is_one() {
    for (toleration_comparisons, value, is_refused) in [
        (true, "4.5", true),
        (true, "+4", true),
        (true, "-4", false),
        (false, "4.5", false),
    ] {
        let server = Server::with_limits(Limits {
            toleration_comparisons,
            ..Limits::default()
        })
        .await;
        server
            .update("", changes(json!([{"node": {"metadata": {"name": "a"}}}])))
            .await;
        let toleration = json!({"key": "k", "operator": "Gt", "value": value});
        let request = FilterRequest {
            pod: pod(json!({"tolerations": [toleration]})),
            ..FilterRequest::default()
        };
        let answer = server.client().filter(request).await;
        assert_eq!(answer.is_err(), is_refused, "{value}");
    }
}
