//! Yardsticks for the figures: the same answers, got the plain way.
//!
//! - **Plain recount** is what kube-scheduler's plugin does for every pod that
//!   it schedules: for every node, for every constraint, look at every pod of
//!   the node and match the selector on its string labels. One thread.
//! - **Scan** is the best that keeping no counts can do: one pass over packed
//!   pods, `[node, label set]`, with a table that says which label sets match.
//!   Filling the table is not timed.
//!
//! Both are checked against the library before they are timed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use evenkeel::proto::v1;
use support::synth::{HOSTNAME_KEY, SyntheticCluster};

type Labels = BTreeMap<String, String>;

/// A cluster as an informer's cache holds it: nodes, each with its pods.
pub struct Plain {
    nodes: Vec<Node>,
}

struct Node {
    labels: Labels,
    taints: Vec<v1::Taint>,
    pods: Vec<Pod>,
}

struct Pod {
    namespace: String,
    labels: Labels,
}

/// The constraints of the incoming pod, and the fields of the pod that choose nodes.
pub struct Asked {
    namespace: String,
    node_selector: Labels,
    tolerates_all: bool,
    constraints: Vec<v1::TopologySpreadConstraint>,
    self_match: i64,
}

/// Matching pods by the value of the topology key, for each constraint.
pub type Counts = Vec<BTreeMap<String, i64>>;

impl Asked {
    /// The question of an incoming pod that each of its constraints selects.
    pub fn of(pod: &v1::Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let metadata = pod.metadata.clone().unwrap_or_default();
        Self {
            namespace: metadata.namespace,
            node_selector: spec.node_selector,
            tolerates_all: !spec.tolerations.is_empty(),
            constraints: spec.topology_spread_constraints,
            self_match: 1,
        }
    }

    fn selects(&self, constraint: &v1::TopologySpreadConstraint, pod: &Pod) -> bool {
        let selector = constraint.label_selector.as_ref();
        let pairs = selector.map(|selector| &selector.match_labels);
        pod.namespace == self.namespace
            && pairs.is_some_and(|pairs| {
                let mut pairs = pairs.iter();
                pairs.all(|(key, value)| pod.labels.get(key) == Some(value))
            })
    }

    fn matches(&self, node: &Node) -> bool {
        let mut wanted = self.node_selector.iter();
        wanted.all(|(key, value)| node.labels.get(key) == Some(value))
    }

    fn may_go_to(&self, node: &Node) -> bool {
        self.matches(node) && (self.tolerates_all || node.taints.is_empty())
    }

    fn is_eligible(&self, constraint: &v1::TopologySpreadConstraint, node: &Node) -> bool {
        let honors_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
        self.matches(node) && (!honors_taints || self.tolerates_all || node.taints.is_empty())
    }

    fn has_keys(&self, node: &Node) -> bool {
        let mut constraints = self.constraints.iter();
        constraints.all(|c| node.labels.contains_key(&c.topology_key))
    }
}

impl Plain {
    /// The objects of a cluster, pods with their nodes.
    pub fn of(cluster: &SyntheticCluster) -> Self {
        let mut plain = Self { nodes: Vec::new() };
        let mut by_name = HashMap::new();
        for (index, node) in cluster.nodes().enumerate() {
            let metadata = node.metadata.unwrap_or_default();
            by_name.insert(metadata.name, index);
            plain.nodes.push(Node {
                labels: metadata.labels,
                taints: node.spec.unwrap_or_default().taints,
                pods: Vec::new(),
            });
        }
        for pod in cluster.pods() {
            let metadata = pod.metadata.unwrap_or_default();
            let node = by_name[&pod.spec.unwrap_or_default().node_name];
            plain.nodes[node].pods.push(Pod {
                namespace: metadata.namespace,
                labels: metadata.labels,
            });
        }
        plain
    }

    /// Gives the nodes the labels that they have in another cluster of the
    /// same nodes.
    pub fn relabel(&mut self, cluster: &SyntheticCluster) {
        for (node, wire) in self.nodes.iter_mut().zip(cluster.nodes()) {
            node.labels = wire.metadata.unwrap_or_default().labels;
        }
    }

    /// Counts by recounting everything.
    pub fn count(&self, asked: &Asked) -> Counts {
        let mut counts: Counts = vec![BTreeMap::new(); asked.constraints.len()];
        for node in self.nodes.iter().filter(|node| asked.has_keys(node)) {
            for (constraint, counts) in asked.constraints.iter().zip(&mut counts) {
                if !asked.is_eligible(constraint, node) {
                    continue;
                }
                let pods = node.pods.iter();
                let matching = pods.filter(|pod| asked.selects(constraint, pod)).count();
                let value = &node.labels[&constraint.topology_key];
                match counts.get_mut(value) {
                    Some(count) => *count += matching as i64,
                    None => drop(counts.insert(value.clone(), matching as i64)),
                }
            }
        }
        counts
    }

    /// Filter: how many nodes satisfy every constraint.
    pub fn filter(&self, asked: &Asked) -> usize {
        let counts = self.count(asked);
        let minimum = |counts: &BTreeMap<String, i64>| counts.values().min().copied().unwrap_or(0);
        let minimums: Vec<i64> = counts.iter().map(minimum).collect();
        let passes = |node: &&Node| {
            let mut all = asked.constraints.iter().zip(counts.iter().zip(&minimums));
            all.all(|(constraint, (counts, minimum))| {
                node.labels
                    .get(&constraint.topology_key)
                    .is_some_and(|value| {
                        let count = counts.get(value).copied().unwrap_or(0);
                        count + asked.self_match - minimum <= i64::from(constraint.max_skew)
                    })
            })
        };
        self.nodes.iter().filter(passes).count()
    }

    /// Score: a score for every node that the pod may go to, all of them
    /// having every key.
    pub fn score(&self, asked: &Asked) -> Vec<u8> {
        let counts = self.count(asked);
        let candidates: Vec<&Node> = self.nodes.iter().filter(|n| asked.may_go_to(n)).collect();
        let weight = |constraint: &v1::TopologySpreadConstraint| {
            let key = &constraint.topology_key;
            let size = if key == HOSTNAME_KEY {
                candidates.len()
            } else {
                let values = candidates.iter().map(|node| &node.labels[key]);
                values.collect::<BTreeSet<_>>().len()
            };
            (size as f64 + 2.0).ln()
        };
        let weights: Vec<f64> = asked.constraints.iter().map(weight).collect();
        let raw = |node: &&Node| {
            let mut sum = 0.0;
            for (i, constraint) in asked.constraints.iter().enumerate() {
                let count = counts[i].get(&node.labels[&constraint.topology_key]);
                let offset = f64::from(constraint.max_skew - 1);
                sum += count.copied().unwrap_or(0) as f64 * weights[i] + offset;
            }
            sum.round() as i64
        };
        let raws: Vec<i64> = candidates.iter().map(raw).collect();
        let max = raws.iter().copied().fold(0, i64::max);
        let min = raws.iter().copied().min().unwrap_or(0);
        let score = |raw: i64| {
            if max == 0 {
                100
            } else {
                100 * (max + min - raw) / max
            }
        };
        raws.into_iter().map(|raw| score(raw) as u8).collect()
    }
}

/// A cluster with packed pods.
pub struct Packed {
    pods: Vec<[u32; 2]>,
    sets: Vec<Pod>,
}

/// The part of a question that a scan needs.
pub struct Prepared {
    /// By label set: whether the first constraint's selector matches; the
    /// others have the same.
    table: Vec<u8>,
    /// Per constraint, by node: its domain, or [`NO_DOMAIN`].
    domains: Vec<Vec<u32>>,
    values: Vec<Vec<String>>,
}

const NO_DOMAIN: u32 = u32::MAX;

impl Packed {
    /// Packs the pods of a cluster, node by node.
    pub fn of(plain: &Plain) -> Self {
        let mut packed = Self {
            pods: Vec::new(),
            sets: Vec::new(),
        };
        let mut known: HashMap<(&str, &Labels), u32> = HashMap::new();
        for (node, pods) in (0..).zip(plain.nodes.iter().map(|node| &node.pods)) {
            for pod in pods {
                let next = packed.sets.len() as u32;
                let set = *known.entry((&pod.namespace, &pod.labels)).or_insert(next);
                if set == next {
                    packed.sets.push(Pod {
                        namespace: pod.namespace.clone(),
                        labels: pod.labels.clone(),
                    });
                }
                packed.pods.push([node, set]);
            }
        }
        packed
    }

    /// Returns the parts of a question that need no look at the pods.
    pub fn prepare(&self, plain: &Plain, asked: &Asked) -> Prepared {
        let sets = self.sets.iter();
        let table = sets.map(|set| u8::from(asked.selects(&asked.constraints[0], set)));
        let mut prepared = Prepared {
            table: table.collect(),
            domains: Vec::new(),
            values: Vec::new(),
        };
        for constraint in &asked.constraints {
            let mut numbers = HashMap::new();
            let mut values = Vec::new();
            let domain = |node: &Node| {
                if !asked.has_keys(node) || !asked.is_eligible(constraint, node) {
                    return NO_DOMAIN;
                }
                let value = &node.labels[&constraint.topology_key];
                *numbers.entry(value.clone()).or_insert_with(|| {
                    values.push(value.clone());
                    values.len() as u32 - 1
                })
            };
            prepared
                .domains
                .push(plain.nodes.iter().map(domain).collect());
            prepared.values.push(values);
        }
        prepared
    }

    /// Counts in one pass over the pods, and finds the minimums.
    pub fn scan(&self, prepared: &Prepared) -> (Vec<Vec<u32>>, Vec<u32>) {
        let values = prepared.values.iter();
        let mut counts: Vec<Vec<u32>> = values.map(|values| vec![0; values.len()]).collect();
        for [node, set] in &self.pods {
            if prepared.table[*set as usize] != 0 {
                for (counts, domains) in counts.iter_mut().zip(&prepared.domains) {
                    let domain = domains[*node as usize];
                    if domain != NO_DOMAIN {
                        counts[domain as usize] += 1;
                    }
                }
            }
        }
        let minimum = |counts: &Vec<u32>| counts.iter().copied().min().unwrap_or(0);
        let minimums = counts.iter().map(minimum).collect();
        (counts, minimums)
    }

    /// Counts as [`Plain::count`] does.
    pub fn count(&self, prepared: &Prepared) -> Counts {
        let (counts, _) = self.scan(prepared);
        let named = |(counts, values): (&Vec<u32>, &Vec<String>)| {
            let counts = counts.iter().map(|count| i64::from(*count));
            values.iter().cloned().zip(counts).collect()
        };
        counts.iter().zip(&prepared.values).map(named).collect()
    }
}
