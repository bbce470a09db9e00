//! What kube-scheduler answered in 399 cases of whether there is room, in each version
//! that answers some of them otherwise, asked of a real server and of the oracle.
//!
//! `ROOM=DIRECTORY` has all cases of each version read there: `room-1.36.jsonl.gz` and
//! `room-1.37.jsonl.gz`, of which the vectors have those that differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::support::server::Server;
use crate::support::{model, reasons, vectors};
use evenkeel::proto::v1::{
    Code, FilterRequest, Namespace, Node, NodeChecks, NodeVerdict, PersistentVolume,
    PersistentVolumeClaim, Pod, PodSpec, StorageClass, UpdateSnapshotRequest, View,
};
use evenkeel::recount::{Cluster, NodeRecount, Rejection};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The versions, their files, and how many cases those have.
const FILES: [(&str, &str, usize); 3] = [
    ("1.35", "room.jsonl.gz", 399),
    ("1.36", "room-1.36.jsonl.gz", 10),
    ("1.37", "room-1.37.jsonl.gz", 105),
];

/// A case of kube-scheduler's Filter.
#[derive(Clone, Deserialize)]
pub(super) struct Case<W> {
    pub(super) name: String,
    pub(super) nodes: Vec<Node>,
    pub(super) pods: Vec<Pod>,
    #[serde(default)]
    pub(super) namespaces: Vec<Namespace>,
    #[serde(default, rename = "persistentVolumeClaims")]
    pub(super) claims: Vec<PersistentVolumeClaim>,
    #[serde(default, rename = "persistentVolumes")]
    pub(super) volumes: Vec<PersistentVolume>,
    #[serde(default, rename = "storageClasses")]
    pub(super) classes: Vec<StorageClass>,
    pub(super) pod: Pod,
    pub(super) want: W,
}

#[derive(Clone, Deserialize)]
struct Want {
    gated: bool,
    nodes: BTreeMap<String, Verdict>,
}

/// What kube-scheduler says of a node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
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

    /// Takes that kube-scheduler fails for a refusal.
    pub(super) fn fail_as_unresolvable(&mut self) {
        if self.code == "Error" {
            self.code = "UnschedulableAndUnresolvable".into();
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
    let lines = vectors::lines(file);
    let cases: Vec<_> = lines
        .map(|line| serde_json::from_str(&line).expect("a case"))
        .collect();
    assert_eq!(cases.len(), count);
    cases
}

/// A case that 1.37 answers by an empty list in a status, which counts as nothing there
/// where an absent one counts as what is wanted. JSON alone tells the two apart: in
/// protobuf, in which schedulers get pods, both are nothing.
const EMPTY_LIST: (&str, &str) = ("1.37", "random/1-0291");

/// The cases of each version: those that another version answers like this one are in the
/// file of the first, so that each version answers all of them.
fn cases() -> Vec<(&'static str, Vec<Case<Want>>)> {
    let whole = std::env::var_os("ROOM").map(PathBuf::from);
    let files = FILES
        .into_iter()
        .map(|(version, file, count)| match &whole {
            Some(directory) => {
                let lines = vectors::lines_of(&directory.join(file));
                let cases = lines.map(|line| serde_json::from_str(&line).expect("a case"));
                (version, cases.collect())
            }
            None => (version, load(file, count)),
        });
    let mut versions: Vec<(&str, Vec<Case<Want>>)> = files.collect();
    for at in 1..versions.len() {
        let (before, from) = versions.split_at_mut(at);
        let known: BTreeSet<String> = from[0].1.iter().map(|case| case.name.clone()).collect();
        let alike = before[0]
            .1
            .iter()
            .filter(|case| !known.contains(&case.name));
        from[0].1.extend(alike.cloned());
    }
    versions
}

/// Each case with each version.
fn each_case() -> impl Iterator<Item = (&'static str, Case<Want>)> {
    let versions = cases().into_iter();
    let all = versions.flat_map(|(version, cases)| cases.into_iter().map(move |it| (version, it)));
    all.filter(|(version, case)| (*version, &*case.name) != EMPTY_LIST)
}

impl<W> Case<W> {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            namespaces: self.namespaces.clone(),
            persistent_volume_claims: self.claims.clone(),
            persistent_volumes: self.volumes.clone(),
            storage_classes: self.classes.clone(),
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
        max_snapshots: 3 * 399,
        ..Limits::default()
    })
    .await;
    for (version, case) in each_case() {
        let snapshot = format!("{version}-{}", case.name.replace(['/', '_'], "-"));
        let request = UpdateSnapshotRequest {
            snapshot: snapshot.clone(),
            changes: model::changes(&case.cluster()),
            kubernetes_version: version.into(),
            ..UpdateSnapshotRequest::default()
        };
        server.send(request).await;
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
        assert_eq!(got, case.want.nodes, "{version}: {}", case.name);

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
    for (version, case) in each_case() {
        let cluster = Cluster {
            kubernetes_version: version.into(),
            ..case.cluster()
        };
        let answer = cluster.filter(&case.ungated(), None, NodeChecks::Unspecified);
        let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
        let got: BTreeMap<String, Verdict> = answer.verdicts.into_iter().map(verdict).collect();
        assert_eq!(got, case.want.nodes, "{version}: {}", case.name);
    }
}
