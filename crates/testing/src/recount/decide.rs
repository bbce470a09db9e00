//! Filter and Score, node by node and pod by pod.

use std::collections::{BTreeMap, BTreeSet};

use super::answers::{
    ConstraintRecount, DomainRecount, FilterRecount, NodeRecount, Rejection, ScoreRecount,
    ScoredNode,
};
use super::cluster::Cluster;
use super::constraints::{HOSTNAME, ResolvedConstraint, own_constraints};
use super::features;
use super::left_out;
use super::room;
use super::rules::{
    kept_off_by_cordon, labels, name, namespace, node_affinity_matches, selector_matches,
    taints_tolerated,
};
use evenkeel::proto::v1::{LabelSelector, Node, NodeChecks, Pod, TopologySpreadConstraint};

const MISSING_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";
const SKEW: &str = "node(s) didn't match pod topology spread constraints";
const CORDONED: &str = "node(s) were unschedulable";
const OTHER_NODE: &str = "node(s) didn't match the requested node name";
const TAINTED: &str = "node(s) had untolerated taint(s)";
const AFFINITY: &str = "node(s) didn't match Pod's node affinity/selector";

impl Cluster {
    /// Filter: a verdict for each known candidate in their order, or for every
    /// node in ascending order of the name.
    pub(super) fn filter_as_is(
        &self,
        pod: &Pod,
        candidates: Option<&[String]>,
        checks: NodeChecks,
    ) -> FilterRecount {
        let pod = &self.as_read(pod);
        let hard = self.constraints(pod, "DoNotSchedule");
        let reports = self.hard_reports(pod, &hard, None);
        let judge = |node: &Node| {
            let without = self.refusal(pod, node, checks, &reports, &[]);
            let nominated = self.nominated_to(node, pod);
            if nominated.is_empty() {
                return without;
            }
            // The node is judged with the nominated pods and without: both must pass.
            let there = self.hard_reports(pod, &hard, Some((node, &nominated)));
            match self.refusal(pod, node, checks, &there, &nominated) {
                Some(with) => Some(Rejection {
                    nominated_pods: match without {
                        None => nominated.len() as i64,
                        Some(_) => 0,
                    },
                    ..with
                }),
                None => without,
            }
        };
        let verdicts = self.candidates(candidates).into_iter();
        let verdicts = verdicts.map(|node| NodeRecount {
            node: name(node.metadata.as_ref()).into(),
            refusal: judge(node),
        });
        FilterRecount {
            verdicts: verdicts.collect(),
            reports,
        }
    }

    /// The reason why a node does not take a pod, with other pods nominated to it.
    fn refusal(
        &self,
        pod: &Pod,
        node: &Node,
        checks: NodeChecks,
        reports: &[ConstraintRecount],
        coming: &[&Pod],
    ) -> Option<Rejection> {
        let mut reports = reports.iter();
        let mut by_spread = || reports.find_map(|report| spread_refusal(report, node));
        match checks {
            NodeChecks::SpreadOnly => by_spread(),
            NodeChecks::Unspecified => self
                .storage_not_ready(pod)
                .or_else(|| self.node_refusal(pod, node, coming))
                .or_else(|| self.storage_refusal(pod, node, coming))
                .or_else(by_spread)
                .or_else(|| self.pod_affinity_refusal(pod, node, coming))
                .or_else(|| features::refusal(pod, node, self.minor())),
        }
    }

    /// Score of the known candidates, by default of the nodes that pass Filter.
    pub(super) fn score_as_is(
        &self,
        pod: &Pod,
        candidates: Option<&[String]>,
        checks: NodeChecks,
    ) -> ScoreRecount {
        let pod = &self.as_read(pod);
        let feasible = self.filter_as_is(pod, None, checks).feasible();
        let candidates = self.candidates(Some(candidates.unwrap_or(&feasible)));
        let soft = self.constraints(pod, "ScheduleAnyway");
        if soft.is_empty() || self.nodes.is_empty() {
            return skipped(&candidates);
        }
        let all_keys = !(own_constraints(pod).is_empty() && self.defaults.system);
        let ignored = |node: &Node| all_keys && !has_keys(node, &soft);
        let scored: Vec<&Node> = candidates.iter().copied().filter(|n| !ignored(n)).collect();
        let reports: Vec<ConstraintRecount> = soft
            .iter()
            .map(|constraint| self.soft_report(pod, constraint, &soft, &scored, all_keys))
            .collect();
        let raws: Vec<i64> = scored.iter().map(|node| raw(&reports, node)).collect();
        let max = raws.iter().copied().max().unwrap_or(0).max(0);
        let min = raws.iter().copied().min().unwrap_or(0);
        let scores = candidates
            .iter()
            .map(|node| {
                let ignored = ignored(node);
                let raw = if ignored { 0 } else { raw(&reports, node) };
                ScoredNode {
                    node: name(node.metadata.as_ref()).into(),
                    raw,
                    score: match (ignored, max) {
                        (true, _) => 0,
                        (false, 0) => 100,
                        (false, _) => 100 * (max + min - raw) / max,
                    },
                    ignored,
                }
            })
            .collect();
        ScoreRecount {
            skipped: false,
            scores,
            reports,
        }
    }

    /// The named nodes that exist, in the given order, or all nodes by name.
    fn candidates(&self, names: Option<&[String]>) -> Vec<&Node> {
        let by_name: BTreeMap<&str, &Node> = self
            .nodes
            .iter()
            .map(|node| (name(node.metadata.as_ref()), node))
            .collect();
        match names {
            None => by_name.into_values().collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| by_name.get(name.as_str()).copied())
                .collect(),
        }
    }

    /// Returns the counts of all hard constraints, with the pods that are nominated to one of the
    /// nodes. Domains are the values among the eligible nodes that have all keys.
    fn hard_reports(
        &self,
        pod: &Pod,
        hard: &[ResolvedConstraint],
        coming: Option<(&Node, &[&Pod])>,
    ) -> Vec<ConstraintRecount> {
        let report_of = |constraint: &ResolvedConstraint| {
            let mut domains: BTreeMap<String, DomainRecount> = BTreeMap::new();
            for node in &self.nodes {
                if has_keys(node, hard) && eligible(pod, node, &constraint.spec) {
                    let value = value(node, constraint).expect("the node has every key");
                    let domain = domains.entry(value).or_default();
                    domain.nodes += 1;
                    domain.matching_pods += self.count(pod, node, &constraint.spec);
                    if let Some((to, coming)) = coming
                        && to.metadata == node.metadata
                    {
                        domain.matching_pods += count_coming(coming, pod, &constraint.spec);
                    }
                }
            }
            report(pod, constraint, domains, 0.0)
        };
        hard.iter().map(report_of).collect()
    }

    /// The report on a soft constraint. Domains are the values among the scored candidates; their
    /// pods are counted on all nodes of the snapshot. Hostname counts node by node.
    fn soft_report(
        &self,
        pod: &Pod,
        constraint: &ResolvedConstraint,
        soft: &[ResolvedConstraint],
        scored: &[&Node],
        all_keys: bool,
    ) -> ConstraintRecount {
        let mut domains: BTreeMap<String, DomainRecount> = BTreeMap::new();
        for node in scored {
            domains
                .entry(soft_domain(node, constraint))
                .or_default()
                .nodes += 1;
        }
        for node in &self.nodes {
            let hostname = constraint.spec.topology_key == HOSTNAME;
            let counted =
                eligible(pod, node, &constraint.spec) && (!all_keys || has_keys(node, soft));
            if let Some(domain) = domains.get_mut(&soft_domain(node, constraint))
                && (hostname || counted)
            {
                domain.matching_pods += self.count(pod, node, &constraint.spec);
            }
        }
        let weight = ((domains.len() + 2) as f64).ln();
        report(pod, constraint, domains, weight)
    }

    /// Pods on the node that the constraint counts for the incoming pod.
    pub(super) fn count(
        &self,
        incoming: &Pod,
        node: &Node,
        spec: &TopologySpreadConstraint,
    ) -> i64 {
        if spec.label_selector == Some(LabelSelector::default()) {
            return 0;
        }
        let counted = self.pods.iter().filter(|pod| {
            let metadata = pod.metadata.as_ref();
            node_counted_on(pod) == Some(name(node.metadata.as_ref()))
                && namespace(metadata) == namespace(incoming.metadata.as_ref())
                && selector_matches(spec.label_selector.as_ref(), &labels(metadata))
        });
        counted.count() as i64
    }
}

/// The number of pods nominated to a node that the constraint counts for the incoming pod. An empty
/// selector counts them, too, and terminating pods count.
fn count_coming(coming: &[&Pod], incoming: &Pod, spec: &TopologySpreadConstraint) -> i64 {
    let counted = coming.iter().filter(|pod| {
        let metadata = pod.metadata.as_ref();
        namespace(metadata) == namespace(incoming.metadata.as_ref())
            && selector_matches(spec.label_selector.as_ref(), &labels(metadata))
    });
    counted.count() as i64
}

/// The name of the node that the pod counts on, if it counts: it is on a node, is not terminating
/// and has not finished.
pub fn node_counted_on(pod: &Pod) -> Option<&str> {
    let terminating = pod
        .metadata
        .as_ref()
        .is_some_and(|m| m.deletion_timestamp.is_some());
    room::node_taken(pod).filter(|_| !terminating)
}

fn value(node: &Node, constraint: &ResolvedConstraint) -> Option<String> {
    labels(node.metadata.as_ref())
        .get(&constraint.spec.topology_key)
        .cloned()
}

/// With `kubernetes.io/hostname` every node is a domain of its own. A missing
/// key counts as the value "".
fn soft_domain(node: &Node, constraint: &ResolvedConstraint) -> String {
    if constraint.spec.topology_key == HOSTNAME {
        return name(node.metadata.as_ref()).into();
    }
    value(node, constraint).unwrap_or_default()
}

fn has_keys(node: &Node, constraints: &[ResolvedConstraint]) -> bool {
    let keys: BTreeSet<&String> = constraints.iter().map(|c| &c.spec.topology_key).collect();
    let labels = labels(node.metadata.as_ref());
    keys.into_iter().all(|key| labels.contains_key(key))
}

fn eligible(pod: &Pod, node: &Node, spec: &TopologySpreadConstraint) -> bool {
    (spec.node_affinity_policy.as_deref() == Some("Ignore") || node_affinity_matches(pod, node))
        && (spec.node_taints_policy.as_deref() == Some("Ignore") || taints_tolerated(pod, node))
}

fn report(
    pod: &Pod,
    constraint: &ResolvedConstraint,
    domains: BTreeMap<String, DomainRecount>,
    weight: f64,
) -> ConstraintRecount {
    let pod_labels = labels(pod.metadata.as_ref());
    let own = selector_matches(constraint.spec.label_selector.as_ref(), &pod_labels);
    let size = domains.len() as i64;
    let few = size < i64::from(constraint.spec.min_domains.unwrap_or(1));
    let smallest = domains.values().map(|d| d.matching_pods).min();
    let spec = &constraint.spec;
    ConstraintRecount {
        counts_own_node: is_of_each_node(pod)
            && spec.when_unsatisfiable == "DoNotSchedule"
            && spec.node_affinity_policy.as_deref() != Some("Ignore")
            && spec.min_domains.unwrap_or(1) <= 1,
        constraint: constraint.clone(),
        self_match: i64::from(own),
        minimum: if few { 0 } else { smallest.unwrap_or(0) },
        domains,
        size,
        weight,
    }
}

/// kube-scheduler's other filters, in its order.
impl Cluster {
    fn node_refusal(&self, pod: &Pod, node: &Node, coming: &[&Pod]) -> Option<Rejection> {
        let gates = room::gates(pod);
        if !gates.is_empty() {
            let reason = format!("waiting for scheduling gates: [{}]", gates.join(" "));
            return Some(Rejection::unresolvable(&reason));
        }
        if let Some(reason) = left_out::reason(pod, node, self.minor()) {
            return Some(Rejection::unresolvable(reason));
        }
        let checks = [
            (kept_off_by_cordon(pod, node), CORDONED),
            (room::names_another(pod, node), OTHER_NODE),
            (!taints_tolerated(pod, node), TAINTED),
            (!node_affinity_matches(pod, node), AFFINITY),
        ];
        let failed = checks.into_iter().find(|(refused, _)| *refused);
        match failed {
            Some((_, reason)) => Some(Rejection::unresolvable(reason)),
            None => room::refusal(self, pod, node, coming),
        }
    }
}

/// Returns whether a pod stands for those of a DaemonSet, each of which is tied to a node: no term of
/// it names one.
pub fn is_of_each_node(pod: &Pod) -> bool {
    let owners = pod.metadata.iter().flat_map(|m| &m.owner_references);
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    let is_daemon_set = controllers
        .next()
        .is_some_and(|it| (&*it.api_version, &*it.kind) == ("apps/v1", "DaemonSet"));
    let spec = pod.spec.clone().unwrap_or_default();
    let affinity = spec.affinity.and_then(|it| it.node_affinity);
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution);
    let terms = required
        .map(|it| it.node_selector_terms)
        .unwrap_or_default();
    let names = |term: &evenkeel::proto::v1::NodeSelectorTerm| {
        let mut fields = term.match_fields.iter();
        fields.any(|field| field.key == "metadata.name" && field.operator == "In")
    };
    let is_tied = !terms.is_empty() && terms.iter().all(names);
    is_daemon_set && spec.node_name.is_empty() && !is_tied
}

fn spread_refusal(report: &ConstraintRecount, node: &Node) -> Option<Rejection> {
    let constraint_index = report.constraint.index;
    let Some(value) = value(node, &report.constraint) else {
        return Some(Rejection {
            constraint_index,
            ..Rejection::unresolvable(MISSING_LABEL)
        });
    };
    if report.counts_own_node {
        return None;
    }
    let matching_pods = report.domains.get(&value).map_or(0, |d| d.matching_pods);
    let skew = matching_pods + report.self_match - report.minimum;
    (skew > i64::from(report.constraint.spec.max_skew)).then(|| Rejection {
        constraint_index,
        matching_pods,
        skew,
        ..Rejection::resolvable(SKEW)
    })
}

fn skipped(candidates: &[&Node]) -> ScoreRecount {
    let zero = |node: &&Node| ScoredNode {
        node: name(node.metadata.as_ref()).into(),
        ..ScoredNode::default()
    };
    ScoreRecount {
        skipped: true,
        scores: candidates.iter().map(zero).collect(),
        reports: Vec::new(),
    }
}

/// The sum over the constraints, in order, whose key the node has.
fn raw(reports: &[ConstraintRecount], node: &Node) -> i64 {
    let mut sum = 0.0;
    for report in reports {
        if value(node, &report.constraint).is_some() {
            let domain = &report.domains[&soft_domain(node, &report.constraint)];
            let slack = f64::from(report.constraint.spec.max_skew - 1);
            sum += domain.matching_pods as f64 * report.weight + slack;
        }
    }
    sum.round() as i64
}
