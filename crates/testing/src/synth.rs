//! Synthetic clusters: shaped like real ones, and equal for the same shape and
//! seed. For benchmarks, load tests and experiments.
//!
//! Nodes are of several sizes and a few of them are nearly empty; workloads are
//! many small ones and few large ones; a zone has more or fewer nodes than its
//! share. So domains have different counts, as in practice.

mod resources;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufWriter, Write};

use clap::Parser;
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use fastrand::Rng;
use serde_json::{Value, json};
use uuid::Uuid;

/// Label of a node's name.
pub const HOSTNAME_KEY: &str = "kubernetes.io/hostname";
/// Label of a node's zone.
pub const ZONE_KEY: &str = "topology.kubernetes.io/zone";
/// Label of a node's rack.
pub const RACK_KEY: &str = "topology.example.com/rack";
/// Label of a node's size.
pub const INSTANCE_TYPE_KEY: &str = "node.kubernetes.io/instance-type";
/// Key of the taint that some nodes have; its value is `batch`.
pub const TAINT_KEY: &str = "dedicated";

/// Nodes in a rack.
const RACK_NODES: usize = 40;
/// Instance types, with the number of pods that they take relative to each other.
const INSTANCE_TYPES: [(&str, u32); 4] = [
    ("m7.large", 3),
    ("m7.xlarge", 5),
    ("m7.2xlarge", 8),
    ("m7.4xlarge", 12),
];
/// One node in this many joined lately and is nearly empty.
const NEW_NODE_EVERY: usize = 31;
/// One workload in this many is in a rollout: its pods have two hashes.
const ROLLOUT_EVERY: usize = 8;
/// Flattens the sizes of workloads: the first one is some 50 times the last
/// one of 1,000.
const FLATNESS: u64 = 20;
const TIERS: [&str; 4] = ["frontend", "backend", "cache", "batch"];
/// The letters of Kubernetes' random names: no vowels, nothing alike.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The size of a synthetic cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Nodes.
    pub nodes: usize,
    /// Pods, all of them on a node and running; none without nodes.
    pub pods: usize,
    /// Zones, at least one.
    pub zones: usize,
    /// Workloads, at least one: pods of one share their `app` label.
    pub workloads: usize,
    /// Namespaces, at least one, over which the workloads are dealt out.
    pub namespaces: usize,
    /// One node in this many has the taint `dedicated=batch:NoSchedule`; 0 =
    /// none.
    pub taint_every: usize,
    /// The seed of the cluster's random numbers.
    pub seed: u64,
}

/// Writes a synthetic cluster to standard output, as a file that `evenkeel load` takes
///
/// The same flags make the same cluster. Nodes have the labels kubernetes.io/hostname,
/// topology.kubernetes.io/zone, topology.example.com/rack and node.kubernetes.io/instance-type; pods
/// have app, app.kubernetes.io/part-of, pod-template-hash and tier.
#[derive(Debug, Parser)]
pub struct Flags {
    /// Nodes
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    nodes: usize,

    /// Pods, all of them running
    #[arg(long, value_name = "COUNT", default_value_t = 3_000)]
    pods: usize,

    /// Zones
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    zones: usize,

    /// Workloads: pods of one have the same `app` label
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    workloads: usize,

    /// Namespaces that share the workloads
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    namespaces: usize,

    /// Taint one in COUNT nodes with dedicated=batch:NoSchedule; 0 taints none
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    taint_every: usize,

    /// Give nodes allocatable cpu, memory, ephemeral-storage and pods, and let pods request cpu and
    /// memory, so that decisions check for room
    #[arg(long)]
    resources: bool,

    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

impl Flags {
    /// The cluster that the flags ask for.
    pub fn cluster(self) -> SyntheticCluster {
        let cluster = SyntheticCluster::new(Shape {
            nodes: self.nodes,
            pods: self.pods,
            zones: self.zones,
            workloads: self.workloads,
            namespaces: self.namespaces,
            taint_every: self.taint_every,
            seed: self.seed,
        });
        match self.resources {
            true => cluster.with_resources(),
            false => cluster,
        }
    }
}

/// A synthetic cluster. Objects are made when they are needed.
#[derive(Debug, Clone)]
pub struct SyntheticCluster {
    shape: Shape,
    /// Each node, repeated in proportion to the pods that it takes. A pod draws one entry.
    tickets: Vec<u32>,
    /// `starts[i]..starts[i + 1]` are the pods of workload i.
    starts: Vec<usize>,
    /// True if nodes report resources, and pods have requests.
    has_resources: bool,
}

/// One workload of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct SyntheticWorkload<'a> {
    cluster: &'a SyntheticCluster,
    index: usize,
}

impl SyntheticCluster {
    /// The cluster of a shape.
    pub fn new(shape: Shape) -> Self {
        let shape = Shape {
            zones: shape.zones.max(1),
            workloads: shape.workloads.max(1),
            namespaces: shape.namespaces.max(1),
            pods: if shape.nodes == 0 { 0 } else { shape.pods },
            ..shape
        };
        Self {
            tickets: tickets(shape.nodes),
            starts: starts(shape.pods, shape.workloads),
            shape,
            has_resources: false,
        }
    }

    /// The same cluster with resources: nodes have cpu, memory, ephemeral-storage and pods by their
    /// size, and all pods of a workload request the same cpu and memory. The pods stay where they
    /// are, so with many pods per node some nodes have too little for their pods.
    #[must_use]
    pub fn with_resources(self) -> Self {
        Self {
            has_resources: true,
            ..self
        }
    }

    /// The cluster's shape; zones, workloads and namespaces are at least one.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// A node by number.
    pub fn node(&self, index: usize) -> v1::Node {
        let name = node_name(index);
        let size = instance_type(index);
        let labels = [
            (HOSTNAME_KEY, name.clone()),
            (ZONE_KEY, format!("zone-{:03}", self.zone(index))),
            (RACK_KEY, format!("rack-{:04}", index / RACK_NODES)),
            (INSTANCE_TYPE_KEY, INSTANCE_TYPES[size].0.to_owned()),
        ];
        // No number of nodes is a multiple of 0.
        let is_tainted = (index + 1).is_multiple_of(self.shape.taint_every);
        let taint = is_tainted.then(|| v1::Taint {
            key: TAINT_KEY.to_owned(),
            value: "batch".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..v1::Taint::default()
        });
        v1::Node {
            metadata: Some(v1::ObjectMeta {
                name,
                labels: labels.map(|(k, v)| (k.to_owned(), v)).into(),
                ..Default::default()
            }),
            spec: Some(v1::NodeSpec {
                taints: taint.into_iter().collect(),
                ..Default::default()
            }),
            status: self.has_resources.then(|| resources::allocatable(size)),
        }
    }

    /// The zone of a node. Each zone gets one of the first nodes; the zones of the other nodes are
    /// drawn.
    fn zone(&self, index: usize) -> usize {
        if index < self.shape.zones {
            return index;
        }
        rng(self.shape.seed, index).usize(..self.shape.zones)
    }

    /// All nodes, ascending by name.
    pub fn nodes(&self) -> impl Iterator<Item = v1::Node> {
        (0..self.shape.nodes).map(|index| self.node(index))
    }

    /// A workload by number; the first is the largest.
    pub fn workload(&self, index: usize) -> SyntheticWorkload<'_> {
        SyntheticWorkload {
            cluster: self,
            index,
        }
    }

    /// All workloads, the largest first.
    pub fn workloads(&self) -> impl Iterator<Item = SyntheticWorkload<'_>> {
        (0..self.shape.workloads).map(|index| self.workload(index))
    }

    /// All pods, workload by workload.
    pub fn pods(&self) -> impl Iterator<Item = v1::Pod> {
        self.workloads().flat_map(SyntheticWorkload::pods)
    }

    /// Writes all objects as a Kubernetes list, one object a line.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write_list(&self, output: impl Write) -> io::Result<()> {
        let mut output = BufWriter::new(output);
        write!(output, r#"{{"apiVersion":"v1","kind":"List","items":["#)?;
        let nodes = self
            .nodes()
            .map(|node| ("Node", serde_json::to_value(node)));
        let pods = self.pods().map(|pod| ("Pod", serde_json::to_value(pod)));
        for (index, (kind, object)) in nodes.chain(pods).enumerate() {
            let mut item = json!({ "apiVersion": "v1", "kind": kind });
            if let (Value::Object(item), Value::Object(fields)) = (&mut item, object?) {
                item.extend(fields);
            }
            let separator = if index == 0 { "" } else { "," };
            write!(output, "{separator}\n{item}")?;
        }
        writeln!(output, "\n]}}")?;
        output.flush()
    }

    /// All objects as changes of a snapshot, in batches of at most `size`
    /// (at least 1): nodes, then pods.
    pub fn into_batches(self, size: usize) -> impl Iterator<Item = Vec<v1::Change>> + Send {
        let size = size.max(1);
        let mut nodes = 0..self.shape.nodes;
        let mut workloads = 0..self.shape.workloads;
        let mut waiting = VecDeque::new();
        std::iter::from_fn(move || {
            while waiting.len() < size {
                if let Some(index) = nodes.next() {
                    waiting.push_back(Object::Node(self.node(index)));
                } else if let Some(index) = workloads.next() {
                    waiting.extend(self.workload(index).pods().map(Object::Pod));
                } else {
                    break;
                }
            }
            let batch = waiting.drain(..size.min(waiting.len())).map(Some);
            let batch: Vec<_> = batch.map(|object| v1::Change { object }).collect();
            (!batch.is_empty()).then_some(batch)
        })
    }
}

impl<'a> SyntheticWorkload<'a> {
    /// The workload's name, the value of the label `app`.
    pub fn name(self) -> String {
        format!("app-{:05}", self.index)
    }

    /// The workload's namespace.
    pub fn namespace(self) -> String {
        format!("team-{:03}", self.index % self.cluster.shape.namespaces)
    }

    /// Returns the number of the workload's pods.
    pub fn replicas(self) -> usize {
        self.cluster.starts[self.index + 1] - self.cluster.starts[self.index]
    }

    /// The workload's pods.
    pub fn pods(self) -> impl Iterator<Item = v1::Pod> + use<'a> {
        let SyntheticCluster { shape, tickets, .. } = self.cluster;
        let requests = self.cluster.has_resources;
        let container = requests.then(|| resources::container(self.index));
        // Every workload has its own random numbers, so that it can be generated alone.
        let mut rng = rng(shape.seed.rotate_left(32), self.index);
        let hashes = [rng.u32(..), rng.u32(..)].map(|hash| format!("{hash:08x}"));
        let names = NameSuffixes::new(&mut rng, self.replicas());
        let (name, namespace) = (self.name(), self.namespace());
        names.enumerate().map(move |(replica, suffix)| {
            let node = tickets[rng.usize(..tickets.len())] as usize;
            let rolled = self.index.is_multiple_of(ROLLOUT_EVERY) && replica.is_multiple_of(4);
            let hash = &hashes[usize::from(rolled)];
            v1::Pod {
                metadata: Some(v1::ObjectMeta {
                    name: format!("{name}-{hash}-{suffix}"),
                    namespace: namespace.clone(),
                    uid: Uuid::from_u128(rng.u128(..)).to_string(),
                    labels: self.labels(hash),
                    ..Default::default()
                }),
                spec: Some(v1::PodSpec {
                    node_name: node_name(node),
                    containers: container.iter().cloned().collect(),
                    ..Default::default()
                }),
                status: Some(v1::PodStatus {
                    phase: "Running".to_owned(),
                    ..Default::default()
                }),
            }
        })
    }

    /// The labels of the workload's pods that have one template hash.
    fn labels(self, hash: &str) -> BTreeMap<String, String> {
        let labels = [
            ("app", self.name()),
            (
                "app.kubernetes.io/part-of",
                format!("product-{:03}", self.index / 10),
            ),
            ("pod-template-hash", hash.to_owned()),
            ("tier", TIERS[self.index % TIERS.len()].to_owned()),
        ];
        labels.map(|(k, v)| (k.to_owned(), v)).into()
    }
}

/// The random ends of pod names, all different: a walk through all words of
/// a length in steps that have no factor in common with their number.
pub struct NameSuffixes {
    next: u64,
    step: u64,
    words: u64,
    left: usize,
}

impl NameSuffixes {
    const BASE: u64 = NAME_LETTERS.len() as u64;

    /// This many names.
    pub fn new(rng: &mut Rng, count: usize) -> Self {
        let mut words = Self::BASE.pow(5);
        while words < count as u64 {
            words *= Self::BASE;
        }
        Self {
            next: rng.u64(..words),
            // The base is a power of three, so such a step has no factor in common with it.
            step: rng.u64(..words / 3) * 3 + 1,
            words,
            left: count,
        }
    }
}

impl Iterator for NameSuffixes {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let word = self.next;
        self.next = (self.next + self.step) % self.words;
        let letter = |place: u32| {
            let digit = word / Self::BASE.pow(place) % Self::BASE;
            char::from(NAME_LETTERS[digit as usize])
        };
        Some((0..self.words.ilog(Self::BASE)).map(letter).collect())
    }
}

fn node_name(index: usize) -> String {
    // Names are as long as those of cloud providers.
    format!("node-{index:06}.eu-west-1.compute.internal")
}

/// The index of a node's type among the instance types.
fn instance_type(index: usize) -> usize {
    // All nodes of a rack have the same type.
    index / RACK_NODES % INSTANCE_TYPES.len()
}

fn tickets(nodes: usize) -> Vec<u32> {
    let count = |index: usize| match (index + 1).is_multiple_of(NEW_NODE_EVERY) {
        true => 1,
        false => INSTANCE_TYPES[instance_type(index)].1,
    };
    let number = |index| u32::try_from(index).expect("fewer than 2^32 nodes");
    (0..nodes)
        .flat_map(|index| (0..count(index)).map(move |_| number(index)))
        .collect()
}

/// The start of each workload's pods, and the end of the last one's: sizes fall like 1 / (rank +
/// [`FLATNESS`]).
fn starts(pods: usize, workloads: usize) -> Vec<usize> {
    const SCALE: u64 = 1 << 32;
    let shares = (0..workloads as u64).map(|rank| SCALE / (rank + FLATNESS));
    let total: u64 = shares.clone().sum();
    let mut starts = vec![0];
    let mut sum = 0;
    for share in shares {
        sum += share;
        let start = u128::from(sum) * pods as u128 / u128::from(total);
        starts.push(usize::try_from(start).expect("at most all pods"));
    }
    starts
}

/// The random numbers for one object of a cluster.
fn rng(seed: u64, index: usize) -> Rng {
    // Nearby seeds must not give similar numbers.
    Rng::with_seed(
        Rng::with_seed(seed).u64(..) ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    )
}
