//! What kube-scheduler 1.37 answered about pods with affinity to other pods, asked of a
//! real server and of the oracle.

use std::collections::BTreeMap;
use std::env;

use super::room_conformance::{Case, Verdict, load, load_any};
use crate::support::server::Server;
use crate::support::{model, reasons};
use evenkeel::proto::v1::{FilterRequest, NodeChecks, NodeVerdict, PlaceRequest, View};
use evenkeel::recount::NodeRecount;
use evenkeel::snapshot::Limits;
use serde::Deserialize;

const CASES: usize = 670;

type AffinityCase = Case<Want>;

#[derive(Deserialize)]
struct Want {
    nodes: BTreeMap<String, Verdict>,
}

/// A part of the recorded cases, or all cases of a file.
fn cases() -> Vec<AffinityCase> {
    match env::var("AFFINITY_CASES") {
        Ok(file) => load_any(&file),
        Err(_) => load("affinity.jsonl.gz", CASES),
    }
}

#[tokio::test]
async fn server_judges_affinity_between_pods_like_kube_scheduler() {
    let cases = cases();
    let server = Server::with_limits(Limits {
        max_snapshots: cases.len(),
        ..Limits::default()
    })
    .await;
    for case in cases {
        let snapshot = case.name.replace('/', "-");
        let changes = model::changes(&case.cluster());
        server.update(&snapshot, changes).await;
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
            field.ends_with(".namespaceSelector") && case.cluster().namespaces.is_empty()
        };
        assert!(answer.unchecked.iter().all(is_due), "{}", case.name);
        let judged = |verdict: &NodeVerdict| (verdict.node.clone(), Verdict::of_node(verdict));
        let passed = answer.feasible.iter();
        let passed = passed.map(|name| (name.clone(), Verdict::of(None, Vec::new())));
        let refused = answer.infeasible.iter().map(judged);
        let got: BTreeMap<String, Verdict> = passed.chain(refused).collect();
        assert_eq!(got, case.want.nodes, "{}", case.name);
        // Counted without a list of nodes, and by candidates out of order.
        let tallied = server.filter(request(View::Domains)).await;
        assert_eq!(tallied.reasons, answer.reasons, "{}", case.name);
        assert_eq!(tallied.feasible_count, answer.feasible_count);

        // As many picks, on the same nodes, as one after the other would have.
        let replicas = 5;
        let request = PlaceRequest {
            snapshot: snapshot.clone(),
            pod: Some(case.pod.clone()),
            replicas,
            ..PlaceRequest::default()
        };
        let expected = case.cluster().place(&request);
        let placed = server.client().place(request).await;
        let placed = placed.expect("it is placed").into_inner();
        let nodes = placed.placements.iter().map(|pick| &pick.node);
        let wanted = expected.iter().map(|pick| &pick.node);
        assert!(nodes.eq(wanted), "{}: {placed:?} {expected:?}", case.name);
        assert_eq!(placed.unplaced, replicas - expected.len() as i32);
    }
}

/// The oracle, which judges the service elsewhere, is right itself.
#[test]
fn oracle_judges_affinity_between_pods_like_kube_scheduler() {
    for case in cases() {
        let answer = case
            .cluster()
            .filter(&case.pod, None, NodeChecks::Unspecified);
        let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
        let got: BTreeMap<String, Verdict> = answer.verdicts.into_iter().map(verdict).collect();
        assert_eq!(got, case.want.nodes, "{}", case.name);
    }
}
