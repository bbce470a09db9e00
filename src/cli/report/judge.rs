//! Judges a cluster by the spread of its workloads.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use super::room::RequestedShare;
use crate::cli::render::{self, PodNotJudged};
use crate::cli::waiting::{self, WaitingPods};
use crate::explain::joined;
use crate::proto::v1::{DescribeSpreadResponse, FilterResponse, Snapshot, WorkloadSpread};

/// The kind whose pods run once on each node, so that they cannot be spread.
const DAEMON_SET: &str = "DaemonSet";

/// The spread of a whole cluster.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterReport {
    /// The revision of the report.
    pub(crate) revision: i64,
    /// The number of nodes.
    pub(crate) node_count: i64,
    /// The number of pods.
    pub(crate) pod_count: i64,
    /// The topology key by which workloads are compared; empty if no key of nodes has several
    /// values.
    pub(crate) by: String,
    /// The workloads with waiting pods that no node can take, most such pods first.
    pub(crate) stuck: Vec<Stuck>,
    /// The waiting pods that cannot be judged.
    pub(crate) not_judged: Vec<PodNotJudged>,
    /// The load of each domain of `by`, most pods first; empty if there are too many domains.
    pub(crate) load: Vec<DomainLoad>,
    /// The spread by constraints, with the workloads that violate constraints.
    pub(crate) constraints: DescribeSpreadResponse,
    /// The workloads whose pods are all in one place, most pods first.
    pub(crate) risks: Vec<Risk>,
    /// The workloads that could be more even, the least even first.
    pub(crate) unbalanced: Vec<Unbalanced>,
}

/// A workload with waiting pods that no node can take.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stuck {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of its pods that no node can take.
    pub(crate) pods: i64,
    /// The reason for one of these pods.
    pub(crate) reason: String,
}

/// The load of a domain.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DomainLoad {
    pub(crate) domain: String,
    /// The number of pods in the domain.
    pub(crate) pods: i64,
    /// The requested shares of its nodes' resources.
    pub(crate) shares: Vec<RequestedShare>,
}

/// A workload whose pods are all in one place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Risk {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of its pods.
    pub(crate) pods: i64,
    /// The place of the pods, in words.
    pub(crate) risk: String,
}

/// A workload that could be more even.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unbalanced {
    /// KIND/NAMESPACE/NAME.
    pub(crate) workload: String,
    /// The number of the workload's pods that are in domains.
    pub(crate) pods: i64,
    /// The domain with the most of these pods.
    pub(crate) fullest: String,
    /// The number of pods in the fullest domain.
    pub(crate) most: i64,
    /// The number of pods that the fullest domain would have if the pods were even.
    pub(crate) even: i64,
}

/// Judges a cluster by its constraints, and by the spread of its workloads over the label key `by`
/// and over nodes.
pub(super) fn report(
    snapshot: &Snapshot,
    constraints: DescribeSpreadResponse,
    by: String,
    ranked: &[WorkloadSpread],
    by_node: &[WorkloadSpread],
) -> ClusterReport {
    let mut unbalanced: Vec<Unbalanced> = ranked.iter().filter_map(unbalanced_by).collect();
    unbalanced.retain(|one| one.even < one.most);
    unbalanced.sort_by(|a, b| {
        let ties = (-a.pods, &a.workload).cmp(&(-b.pods, &b.workload));
        // The least part of what the fullest domain has comes first.
        (a.even * b.most).cmp(&(b.even * a.most)).then(ties)
    });
    ClusterReport {
        revision: constraints.revision,
        node_count: snapshot.node_count,
        pod_count: snapshot.pod_count,
        load: load(ranked),
        stuck: Vec::new(),
        not_judged: Vec::new(),
        by,
        risks: risks(ranked, by_node),
        constraints,
        unbalanced,
    }
}

/// The workloads with waiting pods that no node can take, most such pods first.
pub(super) fn stuck(waiting: &WaitingPods) -> Vec<Stuck> {
    let all = waiting.workloads.iter();
    let stuck = all.filter_map(|((namespace, id), groups)| {
        let (_, pods) = waiting::count(groups);
        let answers = groups.iter().map(|alike| &alike.answer);
        let last = answers.filter(|it| it.feasible_count == 0).last()?;
        Some(Stuck {
            workload: render::name_of_workload(namespace, &id.kind, &id.name, &id.labels),
            pods: i64::try_from(pods).unwrap_or(i64::MAX),
            reason: why(last),
        })
    });
    let mut stuck: Vec<Stuck> = stuck.collect();
    stuck.sort_by_key(|it| -it.pods);
    stuck
}

/// The reasons why no node takes a pod, each with its number of nodes.
fn why(answer: &FilterResponse) -> String {
    let reasons = answer.reasons.iter();
    let reasons = reasons.map(|it| format!("{} {}", it.count, it.reason));
    match reasons.collect::<Vec<_>>() {
        none if none.is_empty() => "there is no node".to_owned(),
        all => joined(&all),
    }
}

/// Returns the number of pods of all workloads in each domain. Empty if a workload does not list
/// all its domains.
fn load(ranked: &[WorkloadSpread]) -> Vec<DomainLoad> {
    let mut pods: BTreeMap<&str, i64> = BTreeMap::new();
    for topology in ranked.iter().filter_map(|spread| spread.topologies.first()) {
        if topology.domain_count > topology.domains.len() as i64 {
            return Vec::new();
        }
        for domain in &topology.domains {
            *pods.entry(&domain.value).or_default() += domain.matching_pods;
        }
    }
    let all = pods.into_iter().map(|(domain, pods)| DomainLoad {
        domain: domain.to_owned(),
        pods,
        shares: Vec::new(),
    });
    let mut all: Vec<DomainLoad> = all.collect();
    all.sort_by_key(|it| -it.pods);
    all
}

/// Returns how uneven a workload is; `None` if the workload cannot be spread.
fn unbalanced_by(spread: &WorkloadSpread) -> Option<Unbalanced> {
    let topology = spread.topologies.first()?;
    let fullest = topology.domains.first()?;
    let pods = spread.pod_count - spread.pending_count - topology.outside_pods;
    let domains = topology.domain_count;
    if spread.kind == DAEMON_SET || pods < 2 || domains < 2 || fullest.matching_pods < 1 {
        return None;
    }
    let even = (pods + domains - 1) / domains;
    Some(Unbalanced {
        workload: render::full_name(spread),
        pods,
        fullest: fullest.value.clone(),
        most: fullest.matching_pods,
        even,
    })
}

/// The workloads whose pods are all in one domain, or on one node.
fn risks(ranked: &[WorkloadSpread], by_node: &[WorkloadSpread]) -> Vec<Risk> {
    let mut named = HashSet::new();
    let mut risks = Vec::new();
    // Pods on one node are in one zone, too. Only the worse risk is reported.
    for spread in by_node.iter().chain(ranked) {
        let all_in_one = unbalanced_by(spread).filter(|one| one.most == one.pods);
        let Some(one) = all_in_one.filter(|one| named.insert(one.workload.clone())) else {
            continue;
        };
        let key = spread.topologies.first().map_or("", |it| &*it.topology_key);
        risks.push(Risk {
            risk: format!("all {} in {key} {}", one.pods, one.fullest),
            workload: one.workload,
            pods: one.pods,
        });
    }
    risks.sort_by(|a, b| (-a.pods, &a.workload).cmp(&(-b.pods, &b.workload)));
    risks
}
