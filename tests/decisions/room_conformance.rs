//! What kube-scheduler 1.35 answered in 399 cases of whether there is room,
//! asked of a real server and of the oracle.

use std::collections::BTreeMap;

use crate::support::server::Server;
use crate::support::{model, reasons, vectors};
use evenkeel::proto::v1::{Code, FilterRequest, Node, NodeChecks, NodeVerdict, Pod, PodSpec, View};
use evenkeel::recount::{Cluster, NodeRecount, Rejection};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use serde::de::DeserializeOwned;

const CASES: usize = 399;

/// A case of kube-scheduler's Filter.
#[derive(Deserialize)]
pub(super) struct Case<W> {
    pub(super) name: String,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    pub(super) pod: Pod,
    pub(super) want: W,
}

#[derive(Deserialize)]
struct Want {
    gated: bool,
    nodes: BTreeMap<String, Verdict>,
}

/// What kube-scheduler says of a node.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Verdict {
    code: String,
    reasons: Vec<String>,
}

impl Verdict {
    pub(super) fn of(code: Option<Code>, reasons: Vec<String>) -> Self {
        let code = match code {
            None => "Success",
            Some(Code::Unschedulable) => "Unschedulable",
            Some(_) => "UnschedulableAndUnresolvable",
        };
        Self {
            code: code.into(),
            reasons,
        }
    }

    /// Of a node that is refused.
    pub(super) fn of_node(verdict: &NodeVerdict) -> Self {
        let reasons = verdict.reason.split(", ").map(str::to_owned).collect();
        Self::of(Some(verdict.code()), reasons)
    }

    /// Of what the oracle says.
    pub(super) fn of_refusal(refusal: Option<Rejection>) -> Self {
        match refusal {
            None => Self::of(None, Vec::new()),
            Some(refusal) => Self::of(Some(refusal.code), refusal.reasons),
        }
    }
}

/// The `count` cases of a file.
pub(super) fn load<W: DeserializeOwned>(file: &str, count: usize) -> Vec<Case<W>> {
    let cases: Vec<Case<W>> = vectors::lines(file)
        .map(|line| serde_json::from_str(&line).expect("a case"))
        .collect();
    assert_eq!(cases.len(), count);
    cases
}

fn cases() -> Vec<Case<Want>> {
    load("room.jsonl.gz", CASES)
}

impl<W> Case<W> {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            ..Cluster::default()
        }
    }

    /// The incoming pod without its gates, which the plugins of Filter do not
    /// look at.
    fn ungated(&self) -> Pod {
        let spec = self.pod.spec.clone().unwrap_or_default();
        Pod {
            spec: Some(PodSpec {
                scheduling_gates: Vec::new(),
                ..spec
            }),
            ..self.pod.clone()
        }
    }
}

#[tokio::test]
async fn server_finds_room_like_kube_scheduler() {
    let server = Server::with_limits(Limits {
        max_snapshots: CASES,
        ..Limits::default()
    })
    .await;
    for case in cases() {
        let snapshot = case.name.replace(['/', '_'], "-");
        let changes = model::changes(&case.cluster());
        server.update(&snapshot, changes).await;
        let ask = async |pod: Pod, node_checks: NodeChecks| {
            let request = FilterRequest {
                snapshot: snapshot.clone(),
                pod: Some(pod),
                view: View::Full as i32,
                node_checks: node_checks as i32,
                ..FilterRequest::default()
            };
            server.filter(request).await
        };
        let answer = ask(case.ungated(), NodeChecks::Unspecified).await;
        reasons::check(&answer.infeasible, &answer.reasons);
        let passed = answer
            .feasible
            .iter()
            .map(|name| (name.clone(), Verdict::of(None, Vec::new())));
        let refused = answer.infeasible.iter();
        let refused = refused.map(|verdict| (verdict.node.clone(), Verdict::of_node(verdict)));
        let got: BTreeMap<String, Verdict> = passed.chain(refused).collect();
        assert_eq!(got, case.want.nodes, "{}", case.name);

        let whole = ask(case.pod.clone(), NodeChecks::Unspecified).await;
        reasons::check(&whole.infeasible, &whole.reasons);
        let gated = whole
            .reasons
            .iter()
            .any(|r| r.reason.starts_with("waiting for scheduling gates"));
        assert_eq!(gated, case.want.gated, "{}", case.name);
        if gated {
            assert_eq!(
                whole.reasons[0].count as usize,
                case.nodes.len(),
                "{}",
                case.name
            );
        }
        let spread = ask(case.pod.clone(), NodeChecks::SpreadOnly).await;
        assert_eq!(
            spread.feasible_count as usize,
            case.nodes.len(),
            "{}",
            case.name
        );
    }
}

/// The oracle, which judges the service elsewhere, is right itself.
#[test]
fn oracle_finds_room_like_kube_scheduler() {
    for case in cases() {
        let answer = case
            .cluster()
            .filter(&case.ungated(), None, NodeChecks::Unspecified);
        let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
        let got: BTreeMap<String, Verdict> = answer.verdicts.into_iter().map(verdict).collect();
        assert_eq!(got, case.want.nodes, "{}", case.name);
    }
}
