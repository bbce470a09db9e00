//! What kube-scheduler 1.37 answered about the claims and disks of pods, asked of a
//! real server and of the oracle.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use super::room_conformance::{Case, Verdict, load};
use crate::support::server::Server;
use crate::support::{model, reasons, vectors};
use evenkeel::proto::v1::{FilterRequest, NodeChecks, NodeVerdict, PlaceRequest, View};
use evenkeel::recount::NodeRecount;
use evenkeel::snapshot::Limits;
use serde::Deserialize;

const CASES: usize = 600;

type VolumeCase = Case<Want>;

#[derive(Deserialize)]
struct Want {
    nodes: BTreeMap<String, Verdict>,
}

/// The recorded cases, or those of a file.
fn cases() -> Vec<VolumeCase> {
    match env::var("VOLUME_CASES") {
        Ok(file) => {
            let lines = vectors::lines_of(Path::new(&file));
            lines
                .map(|line| serde_json::from_str(&line).expect("a case"))
                .collect()
        }
        Err(_) => load("volumes.jsonl.gz", CASES),
    }
}

/// Returns what is answered where kube-scheduler fails, because of a class that no API server
/// keeps: it has no binding mode.
fn wanted(case: &VolumeCase) -> BTreeMap<String, Verdict> {
    let mut wanted = case.want.nodes.clone();
    wanted.values_mut().for_each(Verdict::fail_as_unresolvable);
    wanted
}

#[tokio::test]
async fn server_judges_volumes_like_kube_scheduler() {
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
        // Volumes that are made or that drivers provide may be limited.
        let is_due = |field: &String| field.starts_with("spec.volumes (");
        assert!(answer.unchecked.iter().all(is_due), "{}", case.name);
        let judged = |verdict: &NodeVerdict| (verdict.node.clone(), Verdict::of_node(verdict));
        let passed = answer.feasible.iter();
        let passed = passed.map(|name| (name.clone(), Verdict::of(None, Vec::new())));
        let refused = answer.infeasible.iter().map(judged);
        let got: BTreeMap<String, Verdict> = passed.chain(refused).collect();
        assert_eq!(got, wanted(&case), "{}", case.name);
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
        let due = expected.iter().map(|pick| &pick.node);
        assert!(nodes.eq(due), "{}: {placed:?} {expected:?}", case.name);
        assert_eq!(placed.unplaced, replicas - expected.len() as i32);
    }
}

/// The oracle, which judges the service elsewhere, is right itself.
#[test]
fn oracle_judges_volumes_like_kube_scheduler() {
    for case in cases() {
        let answer = case
            .cluster()
            .filter(&case.pod, None, NodeChecks::Unspecified);
        let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
        let got: BTreeMap<String, Verdict> = answer.verdicts.into_iter().map(verdict).collect();
        assert_eq!(got, wanted(&case), "{}", case.name);
    }
}
