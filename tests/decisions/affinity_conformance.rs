//! What kube-scheduler 1.36 and 1.37 answered about pods with affinity to other pods, and
//! about pods that need features of their nodes, asked of a real server and of the oracle.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use super::room_conformance::{Case, Verdict};
use crate::support::server::Server;
use crate::support::{model, reasons, vectors};
use evenkeel::proto::v1::{
    FilterRequest, NodeChecks, NodeVerdict, PlaceRequest, UpdateSnapshotRequest, View,
};
use evenkeel::recount::{Cluster, NodeRecount};
use evenkeel::snapshot::Limits;
use serde::Deserialize;

/// The files and how many cases they have.
const FILES: [(&str, usize); 2] = [("affinity.jsonl.gz", 670), ("features.jsonl.gz", 141)];

type AffinityCase = Case<Want>;

#[derive(Clone, Deserialize)]
struct Want {
    nodes: BTreeMap<String, Verdict>,
}

#[derive(Deserialize)]
struct Recorded {
    #[serde(flatten)]
    case: AffinityCase,
    #[serde(rename = "wantUntil1.36")]
    until_1_36: Option<Want>,
}

/// A part of the recorded cases, or all cases of a file, each with both versions.
fn cases() -> Vec<(&'static str, AffinityCase)> {
    let lines: Vec<String> = match env::var("AFFINITY_CASES") {
        Ok(file) => vectors::lines_of(Path::new(&file)).collect(),
        Err(_) => {
            let files = FILES.iter().flat_map(|(file, count)| {
                let lines: Vec<String> = vectors::lines(file).collect();
                assert_eq!(lines.len(), *count, "{file}");
                lines
            });
            files.collect()
        }
    };
    let recorded = lines.iter().map(|line| serde_json::from_str(line));
    let each = recorded.flat_map(|recorded| {
        let Recorded { case, until_1_36 } = recorded.expect("a case");
        let want = until_1_36.unwrap_or_else(|| case.want.clone());
        [
            (
                "1.36",
                Case {
                    want,
                    ..case.clone()
                },
            ),
            ("1.37", case),
        ]
    });
    each.collect()
}

fn cluster(version: &str, case: &AffinityCase) -> Cluster {
    Cluster {
        kubernetes_version: version.to_owned(),
        ..case.cluster()
    }
}

#[tokio::test]
async fn server_judges_affinity_and_features_like_kube_scheduler() {
    let cases = cases();
    let server = Server::with_limits(Limits {
        max_snapshots: cases.len(),
        ..Limits::default()
    })
    .await;
    for (version, case) in cases {
        let snapshot = format!("{version}-{}", case.name.replace('/', "-"));
        let cluster = cluster(version, &case);
        let request = UpdateSnapshotRequest {
            snapshot: snapshot.clone(),
            changes: model::changes(&cluster),
            kubernetes_version: version.to_owned(),
            ..UpdateSnapshotRequest::default()
        };
        server.send(request).await;
        let request = |view: View| FilterRequest {
            snapshot: snapshot.clone(),
            pod: Some(case.pod.clone()),
            view: view as i32,
            ..FilterRequest::default()
        };
        let answer = server.filter(request(View::Full)).await;
        reasons::check(&answer.infeasible, &answer.reasons);
        // No cluster is without namespaces: nobody told of them.
        let is_due = |field: &String| {
            field.ends_with(".namespaceSelector") && cluster.namespaces.is_empty()
                || case.name.ends_with("deferred-resize")
        };
        assert!(
            answer.unchecked.iter().all(is_due),
            "{version} {}",
            case.name
        );
        let judged = |verdict: &NodeVerdict| (verdict.node.clone(), Verdict::of_node(verdict));
        let passed = answer.feasible.iter();
        let passed = passed.map(|name| (name.clone(), Verdict::of(None, Vec::new())));
        let refused = answer.infeasible.iter().map(judged);
        let got: BTreeMap<String, Verdict> = passed.chain(refused).collect();
        assert_eq!(got, case.want.nodes, "{version} {}", case.name);
        // Counted without a list of nodes, and by candidates out of order.
        let tallied = server.filter(request(View::Domains)).await;
        assert_eq!(tallied.reasons, answer.reasons, "{version} {}", case.name);
        assert_eq!(tallied.feasible_count, answer.feasible_count);

        // As many picks, on the same nodes, as one after the other would have.
        let replicas = 5;
        let request = PlaceRequest {
            snapshot: snapshot.clone(),
            pod: Some(case.pod.clone()),
            replicas,
            ..PlaceRequest::default()
        };
        let expected = cluster.place(&request);
        let placed = server.client().place(request).await;
        let placed = placed.expect("it is placed").into_inner();
        let nodes = placed.placements.iter().map(|pick| &pick.node);
        let wanted = expected.iter().map(|pick| &pick.node);
        assert!(
            nodes.eq(wanted),
            "{version} {}: {placed:?} {expected:?}",
            case.name
        );
        assert_eq!(placed.unplaced, replicas - expected.len() as i32);
    }
}

/// The oracle, which judges the service elsewhere, is right itself.
#[test]
fn oracle_judges_affinity_and_features_like_kube_scheduler() {
    for (version, case) in cases() {
        let cluster = cluster(version, &case);
        let answer = cluster.filter(&case.pod, None, NodeChecks::Unspecified);
        let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
        let got: BTreeMap<String, Verdict> = answer.verdicts.into_iter().map(verdict).collect();
        assert_eq!(got, case.want.nodes, "{version} {}", case.name);
    }
}
