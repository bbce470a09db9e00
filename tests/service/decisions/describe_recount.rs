//! DescribeSpread compared with a recount by brute force: numbers, order and pages.

use std::collections::{BTreeMap, BTreeSet};
use support::{generate, model};

use crate::decisions::describe_spread::{about, all_pages};
use evenkeel::proto::v1::{
    DescribeSpreadRequest, LabelSelector, Node, Pod, TopologySpread, TopologySpreadConstraint,
    UpdateSnapshotRequest, WorkloadSpread,
};
use proptest::prelude::*;
use support::build::update_of;
use support::history::cases;
use support::recount::{
    Cluster, LabelMap, ResolvedConstraint, is_of_each_node, labels, name, namespace,
    node_affinity_matches, node_counted_on, selector_matches, taints_tolerated,
};
use support::server::Server;

/// The workload of pods: namespace, kind, name and labels.
type Key = (String, String, String, LabelMap);

/// The numbers of one constraint: its index, key, action and whether it is a default; domain count,
/// minimum, whether minDomains is unmet, skew, excess; pods and nodes by domain.
type Numbers = (
    (i32, String, String, bool),
    (i64, i64, bool, i64, i64),
    BTreeMap<String, (i64, i64)>,
);

fn key_of(cluster: &Cluster, pod: &Pod) -> Key {
    let metadata = pod.metadata.clone().unwrap_or_default();
    let namespace = namespace(pod.metadata.as_ref()).to_owned();
    let mut owners = metadata.owner_references.iter();
    let owner = owners.find(|owner| owner.controller == Some(true));
    let owner = owner.map(|owner| (owner.kind.clone(), owner.name.clone()));
    match owner.or_else(|| cluster.adopter(pod)) {
        None => (namespace, String::new(), String::new(), metadata.labels),
        Some((kind, name)) => (namespace, kind, name, LabelMap::new()),
    }
}

/// Returns whether the pod may run where it is and nowhere else.
fn is_pinned(pod: &Pod) -> bool {
    let spec = pod.spec.clone().unwrap_or_default();
    let affinity = spec.affinity.and_then(|a| a.node_affinity);
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    let terms = required.unwrap_or_default().node_selector_terms;
    let here = |values: &[String]| !spec.node_name.is_empty() && values == [spec.node_name.clone()];
    !terms.is_empty()
        && terms.iter().all(|term| {
            term.match_fields.len() == 1
                && term.match_fields[0].operator == "In"
                && here(&term.match_fields[0].values)
        })
}

/// A pod of a DaemonSet without the affinity to its node, if that is all the affinity it has.
fn untied(pod: &Pod) -> Pod {
    let mut untied = pod.clone();
    let spec = untied.spec.get_or_insert_default();
    spec.node_name.clear();
    let affinity = spec
        .affinity
        .as_mut()
        .and_then(|it| it.node_affinity.as_mut());
    if let Some(affinity) = affinity
        && let Some(required) = &affinity.required_during_scheduling_ignored_during_execution
        && let [only] = &*required.node_selector_terms
        && let ([], [field]) = (&*only.match_expressions, &*only.match_fields)
        && (&*field.operator, field.values.len()) == ("In", 1)
    {
        affinity.required_during_scheduling_ignored_during_execution = None;
    }
    untied
}

/// Returns whether a constraint does nothing, because each pod of a DaemonSet counts its own node.
fn counts_own_node(pod: &Pod, spec: &TopologySpreadConstraint) -> bool {
    is_of_each_node(pod)
        && spec.when_unsatisfiable == "DoNotSchedule"
        && spec.node_affinity_policy.as_deref() != Some("Ignore")
        && spec.min_domains.unwrap_or(1) <= 1
}

/// Counts one constraint of a pod, node by node and pod by pod.
fn recount(
    cluster: &Cluster,
    of: &Pod,
    constraint: &ResolvedConstraint,
    alike: &[ResolvedConstraint],
) -> Numbers {
    let spec = &constraint.spec;
    let system = constraint.from_defaults && cluster.defaults.system;
    let has_keys = |node: &Node| {
        let labels = labels(node.metadata.as_ref());
        let others = alike.iter().filter(|_| !system);
        labels.contains_key(&spec.topology_key)
            && others
                .into_iter()
                .all(|other| labels.contains_key(&other.spec.topology_key))
    };
    let eligible = |node: &Node| {
        let affinity = spec.node_affinity_policy.as_deref() == Some("Ignore");
        let taints = spec.node_taints_policy.as_deref() == Some("Ignore");
        (affinity || node_affinity_matches(of, node)) && (taints || taints_tolerated(of, node))
    };
    let counts = |node: &Node, pod: &&Pod| {
        node_counted_on(pod) == Some(name(node.metadata.as_ref()))
            && namespace(pod.metadata.as_ref()) == namespace(of.metadata.as_ref())
            && spec.label_selector != Some(LabelSelector::default())
            && selector_matches(spec.label_selector.as_ref(), &labels(pod.metadata.as_ref()))
    };
    let mut domains: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for node in cluster.nodes.iter().filter(|n| has_keys(n) && eligible(n)) {
        let value = labels(node.metadata.as_ref())[&spec.topology_key].clone();
        let domain = domains.entry(value).or_default();
        domain.0 += cluster.pods.iter().filter(|pod| counts(node, pod)).count() as i64;
        domain.1 += 1;
    }
    let unmet = (domains.len() as i32) < spec.min_domains.unwrap_or(1);
    let smallest = domains.values().map(|d| d.0).min().unwrap_or(0);
    let largest = domains.values().map(|d| d.0).max().unwrap_or(0);
    let minimum = if unmet { 0 } else { smallest };
    let skew = largest - minimum;
    let excess = match counts_own_node(of, spec) {
        true => 0,
        false => (skew - i64::from(spec.max_skew)).max(0),
    };
    (
        (
            constraint.index,
            spec.topology_key.clone(),
            spec.when_unsatisfiable.clone(),
            constraint.from_defaults,
        ),
        (domains.len() as i64, minimum, unmet, skew, excess),
        domains,
    )
}

/// Every workload with the number of its pods and the numbers of its constraints.
fn recount_all(cluster: &Cluster) -> BTreeMap<Key, (i64, BTreeSet<Numbers>)> {
    let mut all: BTreeMap<Key, (i64, BTreeSet<Numbers>)> = BTreeMap::new();
    for pod in &cluster.pods {
        let terminating = pod
            .metadata
            .as_ref()
            .is_some_and(|m| m.deletion_timestamp.is_some());
        let phase = pod.status.clone().unwrap_or_default().phase;
        if terminating || ["Succeeded", "Failed"].contains(&phase.as_str()) {
            continue;
        }
        let key = key_of(cluster, pod);
        let pinned = is_pinned(pod);
        let pod = &match &*key.1 {
            "DaemonSet" => untied(pod),
            _ => pod.clone(),
        };
        let workload = all.entry(key).or_default();
        workload.0 += 1;
        for action in ["DoNotSchedule", "ScheduleAnyway"] {
            let alike = cluster.constraints(pod, action);
            let told = alike
                .iter()
                .filter(|one| !pinned || counts_own_node(pod, &one.spec));
            let numbers = told.map(|one| recount(cluster, pod, one, &alike));
            workload.1.extend(numbers);
        }
    }
    all
}

fn key_answered(spread: &WorkloadSpread) -> Key {
    (
        spread.namespace.clone(),
        spread.kind.clone(),
        spread.name.clone(),
        spread.labels.clone(),
    )
}

fn answered(topology: &TopologySpread) -> Numbers {
    let constraint = topology.constraint.clone().expect("it is about one");
    assert_eq!(constraint.topology_key, topology.topology_key);
    for domain in &topology.domains {
        assert_eq!(domain.skew, domain.matching_pods - topology.global_minimum);
    }
    let order: Vec<_> = topology
        .domains
        .iter()
        .map(|domain| (-domain.matching_pods, domain.value.clone()))
        .collect();
    assert!(order.is_sorted(), "most pods first: {order:?}");
    let domains = topology.domains.iter();
    let domains = domains.map(|d| (d.value.clone(), (d.matching_pods, d.eligible_nodes)));
    (
        (
            topology.constraint_index,
            topology.topology_key.clone(),
            constraint.when_unsatisfiable,
            topology.from_defaults,
        ),
        (
            topology.domain_count,
            topology.global_minimum,
            topology.min_domains_unmet,
            topology.skew,
            topology.excess,
        ),
        domains.collect(),
    )
}

/// The sort key that puts the worst workload first: excess of hard, of soft constraints, skew.
fn rank(numbers: &BTreeSet<Numbers>, key: &Key) -> (i64, i64, i64, Key) {
    let excess = |action: &str| {
        let alike = numbers.iter().filter(|n| n.0.2 == action);
        -alike.map(|n| n.1.4).max().unwrap_or(0)
    };
    let skew = numbers.iter().map(|n| n.1.3).max().unwrap_or(0);
    let (hard, soft) = (excess("DoNotSchedule"), excess("ScheduleAnyway"));
    (hard, soft, -skew, key.clone())
}

proptest! {
    #![proptest_config(cases(64))]

    /// The violators, in order and over pages, are those of a recount, and so
    /// are the numbers of every workload.
    #[test]
    fn violations_are_those_of_a_recount(
        first in generate::batch(40),
        second in generate::batch(20),
        defaults in generate::defaults(),
        page_size in 1..4,
    ) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let all = first.iter().chain(&second);
            let cluster = Cluster { defaults: defaults.clone(), ..model::cluster(all) };
            let server = Server::start().await;
            for changes in [first, second] {
                server.send(UpdateSnapshotRequest {
                    default_constraints: Some(defaults.clone()),
                    ..update_of(changes)
                }).await;
            }
            let recounted = recount_all(&cluster);
            let request = DescribeSpreadRequest {
                max_domains: Some(0),
                page_size,
                ..DescribeSpreadRequest::default()
            };
            let whole = server.describe_spread(request.clone()).await;
            let violates = |numbers: &BTreeSet<Numbers>| numbers.iter().any(|n| n.1.4 > 0);
            let mut violators: Vec<_> = recounted.iter().filter(|(_, w)| violates(&w.1)).collect();
            violators.sort_by_key(|(key, w)| rank(&w.1, key));
            prop_assert_eq!(whole.workload_count, recounted.len() as i64);
            let hard = violators.iter().filter(|(key, w)| rank(&w.1, key).0 < 0).count() as i64;
            prop_assert_eq!(whole.violating_count, hard);
            prop_assert_eq!(whole.violating_count + whole.exceeding_count, violators.len() as i64);
            prop_assert_eq!(whole.faulty_count, 0);
            let listed = all_pages(&server, request.clone()).await;
            prop_assert_eq!(listed.len(), violators.len());
            for (spread, (key, (pods, numbers))) in listed.iter().zip(violators) {
                prop_assert_eq!(&key_answered(spread), key);
                prop_assert_eq!(spread.pod_count, *pods);
                let got: BTreeSet<_> = spread.topologies.iter().map(answered).collect();
                prop_assert_eq!(&got, numbers);
            }
            for (key, (pods, numbers)) in recounted.iter().filter(|(key, _)| !key.1.is_empty()) {
                let answer = server.describe_spread(DescribeSpreadRequest {
                    namespace: key.0.clone(),
                    max_domains: Some(0),
                    ..about(&key.1, &key.2)
                }).await;
                let spread = &answer.workloads[0];
                prop_assert_eq!(spread.pod_count, *pods);
                if !numbers.is_empty() {
                    let got: BTreeSet<_> = spread.topologies.iter().map(answered).collect();
                    prop_assert_eq!(&got, numbers);
                }
            }
            Ok(())
        })?;
    }
}
