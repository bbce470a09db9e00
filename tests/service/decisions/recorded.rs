//! Recorded cases of kube-scheduler's Filter, and functions that ask a server and the oracle about
//! a case.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    Code, FilterRequest, FilterResponse, Namespace, Node, NodeChecks, NodeVerdict,
    PersistentVolume, PersistentVolumeClaim, PlaceRequest, Pod, StorageClass,
    UpdateSnapshotRequest, View,
};
use evenkeel::snapshot::Limits;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use support::build::place_of;
use support::recount::{Cluster, NodeRecount, Rejection};
use support::server::Server;
use support::{model, reasons, vectors};

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

    /// The cluster, of a version of Kubernetes.
    pub(super) fn cluster_of(&self, version: &str) -> Cluster {
        Cluster {
            kubernetes_version: version.to_owned(),
            ..self.cluster()
        }
    }
}

/// The verdict of kube-scheduler on a node.
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

    /// Treats an error of kube-scheduler as a refusal.
    pub(super) fn fail_as_unresolvable(&mut self) {
        if self.code == "Error" {
            self.code = "UnschedulableAndUnresolvable".into();
        }
    }

    /// The verdict on a refused node.
    pub(super) fn of_node(verdict: &NodeVerdict) -> Self {
        let reasons = verdict.reason.split(", ").map(str::to_owned).collect();
        Self::of(Some(verdict.code()), reasons)
    }

    /// The verdict of the oracle on a node.
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

/// A server with room for a snapshot of each case.
pub(super) async fn server_of(cases: usize) -> Server {
    Server::with_limits(Limits {
        max_snapshots: cases,
        ..Limits::default()
    })
    .await
}

/// Feeds a cluster into a snapshot of its own, with its version of Kubernetes.
pub(super) async fn feed(server: &Server, snapshot: &str, cluster: &Cluster) {
    let request = UpdateSnapshotRequest {
        snapshot: snapshot.to_owned(),
        changes: model::changes(cluster),
        kubernetes_version: cluster.kubernetes_version.clone(),
        ..UpdateSnapshotRequest::default()
    };
    server.send(request).await;
}

/// The answer about a pod with the verdict of each node. Checks that the view of domains, which
/// does not look at each node, gives the same reasons and counts.
pub(super) async fn filter(server: &Server, snapshot: &str, pod: &Pod) -> FilterResponse {
    let request = |view: View| FilterRequest {
        snapshot: snapshot.to_owned(),
        pod: Some(pod.clone()),
        view: view as i32,
        ..FilterRequest::default()
    };
    let answer = server.filter(request(View::Full)).await;
    reasons::check(&answer.infeasible, &answer.reasons);
    let tallied = server.filter(request(View::Domains)).await;
    assert_eq!(tallied.reasons, answer.reasons, "{snapshot}");
    assert_eq!(tallied.feasible_count, answer.feasible_count, "{snapshot}");
    answer
}

/// The verdicts of an answer by node.
pub(super) fn verdicts(answer: &FilterResponse) -> BTreeMap<String, Verdict> {
    let passed = answer.feasible.iter();
    let passed = passed.map(|name| (name.clone(), Verdict::of(None, Vec::new())));
    let refused = answer.infeasible.iter();
    let refused = refused.map(|verdict| (verdict.node.clone(), Verdict::of_node(verdict)));
    passed.chain(refused).collect()
}

/// The verdicts of the oracle by node.
pub(super) fn recounted(cluster: &Cluster, pod: &Pod) -> BTreeMap<String, Verdict> {
    let answer = cluster.filter(pod, None, NodeChecks::Unspecified);
    let verdict = |verdict: NodeRecount| (verdict.node, Verdict::of_refusal(verdict.refusal));
    answer.verdicts.into_iter().map(verdict).collect()
}

/// Checks that Place picks the same nodes as the oracle, which picks one after the other.
pub(super) async fn check_place(server: &Server, snapshot: &str, cluster: &Cluster, pod: &Pod) {
    let replicas = 5;
    let request = PlaceRequest {
        snapshot: snapshot.to_owned(),
        ..place_of(pod.clone(), replicas)
    };
    let expected = cluster.place(&request);
    let placed = server.client().place(request).await;
    let placed = placed.expect("it is placed").into_inner();
    let nodes = placed.placements.iter().map(|pick| &pick.node);
    let wanted = expected.iter().map(|pick| &pick.node);
    assert!(nodes.eq(wanted), "{snapshot}: {placed:?} {expected:?}");
    assert_eq!(placed.unplaced, replicas - expected.len() as i32);
}
