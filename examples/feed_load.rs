//! A load of pod changes for a server: pods of a synthetic cluster move to one of two other nodes
//! and back, so that every change makes a difference. The nodes are drawn anew in each run.
//!
//! The server must hold the cluster of `cargo run -p evenkeel-testing --bin synth` with the same
//! numbers. Writes one line: changes, seconds, changes per second.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use support::synth::{Shape, SyntheticCluster};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;

/// The number of batches under way at once.
const UNDER_WAY: usize = 4;

#[derive(Parser)]
struct Args {
    /// Address of the server
    #[arg(long, default_value = "http://127.0.0.1:50051")]
    server: String,

    /// Nodes of the cluster
    #[arg(long, default_value_t = 100)]
    nodes: usize,

    /// Pods of the cluster
    #[arg(long, default_value_t = 3_000)]
    pods: usize,

    /// Workloads of the cluster
    #[arg(long, default_value_t = 100)]
    workloads: usize,

    /// Seed of the cluster
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Changes in a batch
    #[arg(long, default_value_t = 1_000)]
    batch: usize,

    /// Changes per second; 0 = as many as the server takes
    #[arg(long, default_value_t = 0)]
    rate: usize,

    /// How long to feed
    #[arg(long, default_value_t = 10)]
    seconds: u64,

    /// Pods that move, spread over all workloads
    #[arg(long, default_value_t = 50_000)]
    moving: usize,

    /// Move them in any order, instead of one workload after another
    #[arg(long)]
    shuffled: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut client = SpreadServiceClient::connect(args.server.clone()).await?;
    let requests = requests(&args);
    let (sender, receiver) = mpsc::channel(UNDER_WAY);
    let answers = client.stream_snapshot(ReceiverStream::new(receiver)).await;
    let mut answers = answers?.into_inner();

    let start = Instant::now();
    let end = start + Duration::from_secs(args.seconds);
    tokio::spawn(async move {
        let period = match args.rate {
            0 => Duration::from_nanos(1),
            rate => Duration::from_secs_f64(args.batch as f64 / rate as f64),
        };
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(match args.rate {
            0 => MissedTickBehavior::Skip,
            _ => MissedTickBehavior::Burst,
        });
        for request in requests.iter().cycle() {
            if args.rate > 0 {
                ticks.tick().await;
            }
            if Instant::now() >= end || sender.send(request.clone()).await.is_err() {
                return;
            }
        }
    });
    let (mut changed, mut unchanged) = (0, 0);
    while let Some(answer) = answers.message().await? {
        let update = answer
            .update
            .context("an acknowledgement holds an update")?;
        changed += update.changed_count;
        unchanged += update.unchanged_count;
    }
    let seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(
        unchanged * 10 <= changed,
        "{unchanged} changes made no difference"
    );
    println!("{changed} {seconds:.3} {:.0}", changed as f64 / seconds);
    Ok(())
}

/// Batches that move pods by some number of nodes, then by another.
fn requests(args: &Args) -> Vec<v1::StreamSnapshotRequest> {
    let cluster = SyntheticCluster::new(Shape {
        nodes: args.nodes,
        pods: args.pods,
        zones: 1,
        workloads: args.workloads,
        namespaces: 1,
        taint_every: 0,
        seed: args.seed,
    });
    let every = (args.pods / args.moving.max(1)).max(1);
    let mut pods: Vec<v1::Pod> = cluster.pods().step_by(every).collect();
    if args.shuffled {
        fastrand::shuffle(&mut pods);
    }
    let names = cluster.nodes().filter_map(|node| Some(node.metadata?.name));
    let names: Vec<String> = names.collect();
    let first = fastrand::usize(..names.len());
    let moved = [first, first + 1].map(|by| {
        let moved = pods.iter().cloned().map(|mut pod| {
            let spec = pod.spec.get_or_insert_default();
            let node = names.binary_search(&spec.node_name).unwrap_or(0);
            spec.node_name = names[(node + by) % names.len()].clone();
            pod
        });
        moved.collect::<Vec<v1::Pod>>()
    });
    let batches = moved.iter().flat_map(|pods| pods.chunks(args.batch));
    batches.map(request).collect()
}

fn request(pods: &[v1::Pod]) -> v1::StreamSnapshotRequest {
    let changes = pods.iter().cloned().map(|pod| v1::Change {
        object: Some(Object::Pod(pod)),
    });
    let update = v1::UpdateSnapshotRequest {
        changes: changes.collect(),
        ..Default::default()
    };
    v1::StreamSnapshotRequest {
        step: Some(Step::Update(update)),
    }
}
