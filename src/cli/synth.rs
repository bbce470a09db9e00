//! `evenkeel admin synth`: generates a cluster, and writes it to a file or sends it to a server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::args;
use super::exit::Exit;
use super::feed::{self, BATCH_CHANGES, FeedTarget};
use super::input::LoadOutcome;
use super::output;
use crate::explain::{number, plural};
use crate::manifest::ListFile;
use crate::proto::v1::UpdateSnapshotRequest;
use crate::synth::{Shape, SyntheticCluster};

/// Flags of `evenkeel admin synth`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file has the format of `snapshot save`: a JSON list, one object per line. The same flags make
the same cluster. Nodes have the labels kubernetes.io/hostname, topology.kubernetes.io/zone,
topology.example.com/rack and node.kubernetes.io/instance-type; pods have app,
app.kubernetes.io/part-of, pod-template-hash and tier. With --resources, nodes say what they have
and pods what they request, so that decisions check for room.

Examples:
  evenkeel admin synth cluster.json --nodes 5000 --pods 150000 --zones 3 --workloads 1000
  evenkeel admin synth - --nodes 10 --pods 100 | evenkeel filter -f pod.yaml --load -
  evenkeel admin synth rooms.json --nodes 100 --pods 3000 --resources
  evenkeel admin synth --into --nodes 5000 --pods 150000 --snapshot large")]
pub(crate) struct Synth {
    /// File to write, or - for standard output
    #[arg(
        value_name = "FILE",
        required_unless_present = "into",
        conflicts_with = "into"
    )]
    file: Option<PathBuf>,

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
    /// memory
    #[arg(long)]
    resources: bool,

    /// Seed of the random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Replace a snapshot of the server with the cluster
    #[arg(long)]
    into: bool,

    #[command(flatten)]
    target: args::ServedSnapshot,
}

impl Synth {
    /// Generates the cluster, and writes or sends it.
    pub(crate) async fn run(self) -> Result<Exit> {
        let cluster = self.cluster();
        match &self.file {
            Some(file) => {
                let mut list = ListFile::create(file)?;
                for changes in cluster.into_batches(BATCH_CHANGES) {
                    list.add(&UpdateSnapshotRequest {
                        changes,
                        ..Default::default()
                    })?;
                }
                let (objects, is_file) = list.finish()?;
                if is_file {
                    let objects = plural(objects, "object");
                    let file = file.display();
                    output::print(&format!("{objects} written to {file}\n"))?;
                }
            }
            None => self.send(cluster).await?,
        }
        Ok(Exit::Success)
    }

    fn cluster(&self) -> SyntheticCluster {
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

    async fn send(&self, cluster: SyntheticCluster) -> Result<()> {
        let client = self.target.server.client().await?;
        let Shape { nodes, pods, .. } = *cluster.shape();
        let target = FeedTarget {
            snapshot: self.target.name.snapshot.clone(),
            replace: true,
            ..FeedTarget::default()
        };
        let batches = cluster.into_batches(BATCH_CHANGES);
        let answer = feed::send(&client, batches, nodes + pods, |_| Vec::new(), &target).await?;
        let loaded = format!("{} Node, {} Pod", number(nodes), number(pods));
        let sent = LoadOutcome {
            answer,
            left_out: Vec::new(),
        };
        output::print(&sent.summary(&target.snapshot, &loaded, ""))
    }
}
