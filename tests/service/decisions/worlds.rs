//! Small random worlds, in which all orders and all choices can be tried.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{Change, Node, NodeCapacity, Pod, TopologySpreadConstraint};
use fastrand::Rng;
use support::build::{HOSTNAME, ZONE, hard, node, on, owned_by, pod, soft, spread};
use support::model::Stored;

pub(crate) const RACK: &str = "example.com/rack";
pub(crate) const WEB: [(&str, &str); 1] = [("app", "web")];

/// Keys that contain one another, and two that cross.
pub(crate) const KEYS: [&[&str]; 6] = [
    &[ZONE],
    &[HOSTNAME],
    &[ZONE, HOSTNAME],
    &[ZONE, RACK],
    &[RACK, HOSTNAME],
    &[ZONE, RACK, HOSTNAME],
];

/// Returns the number of random cases to try.
pub(crate) fn cases() -> u64 {
    let said = std::env::var("CASES").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(600)
}

/// A constraint, without the pods that it counts.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    pub(crate) key: &'static str,
    pub(crate) max_skew: i32,
    pub(crate) is_hard: bool,
}

impl Constraint {
    /// Hard constraints over these keys.
    pub(crate) fn hard(rng: &mut Rng, keys: &[&'static str]) -> Vec<Self> {
        let constraint = |key: &&'static str| Self {
            key,
            max_skew: rng.i32(1..3),
            is_hard: true,
        };
        keys.iter().map(constraint).collect()
    }

    /// The constraint on the pods with these labels.
    pub(crate) fn counting(&self, labels: &[(&str, &str)]) -> TopologySpreadConstraint {
        match self.is_hard {
            true => hard(self.max_skew, self.key, labels),
            false => soft(self.max_skew, self.key, labels),
        }
    }
}

/// The name of a node.
pub(crate) fn name(index: usize) -> String {
    format!("n{index}")
}

/// A pod with these constraints.
pub(crate) fn web(constraints: &[Constraint]) -> Pod {
    let constraints = constraints.iter().map(|it| it.counting(&WEB));
    spread(pod("web", &WEB), constraints.collect())
}

/// The number of a node or a pod, which has a name of one letter and this number.
pub(crate) fn number(name: &str) -> usize {
    name[1..].parse().expect("a number")
}

/// The pod of a ReplicaSet that runs on a node.
pub(crate) fn running(name_of: &str, workload: &str, index: usize) -> Pod {
    let pod = pod(name_of, &[("app", workload)]);
    let mut pod = on(owned_by(pod, "ReplicaSet", workload), &name(index));
    pod.status.get_or_insert_default().phase = "Running".into();
    pod
}

/// How many more pods each node takes.
pub(crate) fn capacities(room: &[usize]) -> Vec<NodeCapacity> {
    let capacity = |(index, room): (usize, &usize)| NodeCapacity {
        node: name(index),
        replicas: *room as i32,
    };
    room.iter().enumerate().map(capacity).collect()
}

/// The labels of nodes, which are called `n0`, `n1` and so on.
#[derive(Debug, Clone)]
pub(crate) struct Nodes(pub(crate) Vec<BTreeMap<&'static str, String>>);

impl Nodes {
    /// Fewer nodes than `most`, with a hostname, and mostly with a zone and a rack.
    pub(crate) fn random(rng: &mut Rng, most: usize) -> Self {
        let nodes = rng.usize(2..most);
        let (zones, racks) = (rng.usize(2..4), rng.usize(2..4));
        let labels = |index: usize| {
            let mut labels = BTreeMap::from([(HOSTNAME, name(index))]);
            for (key, values) in [(ZONE, zones), (RACK, racks)] {
                if rng.usize(..15) > 0 {
                    labels.insert(key, format!("v{}", rng.usize(..values)));
                }
            }
            labels
        };
        Self((0..nodes).map(labels).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// As many nodes as there are pods, each any node.
    pub(crate) fn draw(&self, rng: &mut Rng, pods: usize) -> Vec<usize> {
        (0..pods).map(|_| rng.usize(..self.count())).collect()
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Node> {
        self.0.iter().enumerate().map(|(index, labels)| {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
            node(&name(index), &labels)
        })
    }

    /// The nodes, and pods that are counted on some of them.
    pub(crate) fn with_pods(&self, pods: &[usize]) -> Vec<Change> {
        let pods = pods.iter().enumerate();
        let pods = pods.map(|(i, at)| on(pod(&format!("other{i}"), &WEB), &name(*at)).change());
        self.objects().map(Stored::change).chain(pods).collect()
    }

    /// The domain of a node under one of some constraints. A node that lacks a key of an alike
    /// constraint is in none.
    pub(crate) fn domain(&self, all: &[Constraint], of: usize, node: usize) -> Option<&String> {
        let labels = &self.0[node];
        let mut alike = all.iter().filter(|it| it.is_hard == all[of].is_hard);
        let has_all = alike.all(|it| labels.contains_key(it.key));
        labels.get(all[of].key).filter(|_| has_all)
    }

    /// Pods by domain under one of some constraints, for this many pods on each node.
    pub(crate) fn counts(
        &self,
        all: &[Constraint],
        of: usize,
        pods: &[usize],
    ) -> BTreeMap<&String, i64> {
        let mut counts = BTreeMap::new();
        for (node, pods) in pods.iter().enumerate() {
            if let Some(domain) = self.domain(all, of, node) {
                *counts.entry(domain).or_default() += *pods as i64;
            }
        }
        counts
    }

    /// The skew under one of some constraints.
    pub(crate) fn skew(&self, all: &[Constraint], of: usize, pods: &[usize]) -> i64 {
        let counts = self.counts(all, of, pods);
        let most = counts.values().max().unwrap_or(&0);
        most - counts.values().min().unwrap_or(&0)
    }

    /// Returns whether hard constraints let one more pod onto a node.
    pub(crate) fn admits(&self, all: &[Constraint], pods: &[usize], node: usize) -> bool {
        (0..all.len()).all(|of| {
            let counts = self.counts(all, of, pods);
            self.domain(all, of, node).is_some_and(|domain| {
                let least = counts.values().min().expect("the node's own");
                counts[domain] + 1 - least <= i64::from(all[of].max_skew)
            })
        })
    }
}

/// The number of pods on each of some nodes.
pub(crate) fn by_node(nodes: usize, pods: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; nodes];
    pods.into_iter().for_each(|node| counts[node] += 1);
    counts
}
