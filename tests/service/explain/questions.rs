//! Random states and questions about them, most of which find no node.

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{Change, DefaultConstraints, NodeChecks, Pod, TopologySpreadConstraint};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use support::recount::Cluster;

use support::build::{
    HOSTNAME, ZONE, cordoned, hard, node as node_named, nominated, on, pod as pod_named, selecting,
    spread, tainted, terminating,
};
use support::model::Stored;
use support::{generate, model};

/// A state and a question about it.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) changes: Vec<Change>,
    pub(super) defaults: DefaultConstraints,
    pub(super) pod: Pod,
    pub(super) candidates: Option<Vec<String>>,
    pub(super) checks: NodeChecks,
}

impl Asked {
    pub(super) fn cluster(&self) -> Cluster {
        Cluster {
            defaults: self.defaults.clone(),
            ..model::cluster(&self.changes)
        }
    }

    /// Returns how many nodes the oracle admits.
    pub(super) fn admitted(&self, cluster: &Cluster, pod: &Pod) -> i64 {
        let candidates = self.candidates.as_deref();
        cluster
            .filter(pod, candidates, self.checks)
            .feasible()
            .len() as i64
    }
}

/// Any state and any pod: most of these fit somewhere.
fn anything() -> impl Strategy<Value = (Vec<Change>, Pod)> {
    let changes = generate::batch(30).prop_map(|mut changes| {
        changes.retain(|change| !model::is_deletion(change));
        changes
    });
    (changes, generate::incoming::pod())
}

/// Like `anything`, but without affinity between pods. With it, few nodes refuse a pod for their
/// room alone.
fn anything_alone() -> impl Strategy<Value = (Vec<Change>, Pod)> {
    anything().prop_map(|(mut changes, mut pod)| {
        let pods = changes
            .iter_mut()
            .filter_map(|change| match &mut change.object {
                Some(Object::Pod(pod)) => Some(pod),
                _ => None,
            });
        for pod in pods.chain([&mut pod]) {
            let spec = pod.spec.as_mut();
            if let Some(affinity) = spec.and_then(|spec| spec.affinity.as_mut()) {
                affinity.pod_affinity = None;
                affinity.pod_anti_affinity = None;
            }
        }
        (changes, pod)
    })
}

/// Few domains, many pods of the same kind and tight constraints: most of
/// these fit nowhere.
fn crowd() -> impl Strategy<Value = (Vec<Change>, Pod)> {
    let node = (
        select(vec!["a", "a", "b", "c", ""]),
        select(vec!["r", "s"]),
        0..10u8,
        0..8u8,
    );
    let pod = (
        0..6usize,
        select(vec!["a", "a", "a", "b"]),
        select(vec!["old", "new"]),
        0..12u8,
    );
    let keys = subsequence(vec![ZONE, HOSTNAME, "rack"], 1..=2);
    let incoming = (
        keys,
        1..3i32,
        weighted(0.2, 2..4i32),
        0..8u8,
        select(vec![None, Some("r")]),
    );
    (vec(node, 6), vec(pod, 4..16), incoming).prop_map(|(nodes, pods, incoming)| {
        let nodes = nodes.into_iter().enumerate();
        let mut changes: Vec<Change> = nodes.map(|(i, drawn)| crowded_node(i, drawn)).collect();
        for (index, (node, app, hash, odd)) in pods.into_iter().enumerate() {
            let labels = [("app", app), ("pod-template-hash", hash)];
            let (pod, node) = (pod_named(&format!("p{index}"), &labels), format!("n{node}"));
            let pod = match odd {
                0 => terminating(on(pod, &node)),
                1..3 => nominated(pod, &node, 0),
                _ => on(pod, &node),
            };
            changes.push(pod.change());
        }
        let (keys, max_skew, min_domains, odd, rack) = incoming;
        let constraint = |key: &&str| TopologySpreadConstraint {
            min_domains,
            node_affinity_policy: (odd == 1).then(|| "Ignore".into()),
            node_taints_policy: (odd == 2).then(|| "Honor".into()),
            ..hard(max_skew, key, &[("app", "a")])
        };
        let labels = [
            ("app", if odd == 3 { "b" } else { "a" }),
            ("pod-template-hash", "new"),
        ];
        let mut pod = pod_named("next", &labels);
        if let Some(rack) = rack.filter(|_| odd < 4) {
            pod = selecting(pod, &[("rack", rack)]);
        }
        (changes, spread(pod, keys.iter().map(constraint).collect()))
    })
}

fn crowded_node(index: usize, (zone, rack, taint, odd): (&str, &str, u8, u8)) -> Change {
    let name = format!("n{index}");
    let mut node = node_named(&name, &[(ZONE, zone), ("rack", rack)]);
    if odd == 0 {
        let metadata = node.metadata.get_or_insert_default();
        metadata.labels.remove(ZONE);
    }
    match taint {
        0..3 => tainted(node, "gpu", "", "NoSchedule").change(),
        3 => cordoned(node).change(),
        _ => node.change(),
    }
}

pub(super) fn asked() -> impl Strategy<Value = Asked> {
    let nodes: Vec<String> = (0..6).map(|i| format!("n{i}")).collect();
    let candidates = weighted(0.2, subsequence(nodes, 1..=6));
    let all = NodeChecks::Unspecified;
    let checks = select(vec![all, all, NodeChecks::SpreadOnly]);
    let defaults = weighted(0.3, generate::defaults()).prop_map(Option::unwrap_or_default);
    let about = prop_oneof![
        1 => anything().boxed(),
        1 => anything_alone().boxed(),
        2 => crowd().boxed(),
    ];
    (about, defaults, candidates, checks).prop_map(
        |((changes, pod), defaults, candidates, checks)| Asked {
            changes,
            defaults,
            pod,
            candidates,
            checks,
        },
    )
}
