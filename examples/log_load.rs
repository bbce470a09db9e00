//! A load on servers that share a log. Measures how long answers take.
//!
//! The servers must hold a cluster: `cargo run -p evenkeel-testing --bin synth`. Writes one line: calls, calls
//! per second, p50 and p99 of a call in milliseconds, and how often a call was refused because
//! other servers changed the snapshot all the time, or the log did not answer. A refused call is
//! repeated, as a client does, and counts as one call.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use evenkeel::proto::v1;
use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::spread_service_client::SpreadServiceClient;
use futures::future::try_join_all;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status};

type Client = SpreadServiceClient<Channel>;

/// The time for which a call is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Args {
    /// Addresses of the servers, which clients use in turn
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:50051")]
    servers: Vec<String>,

    /// What to ask for
    #[arg(long, value_enum)]
    call: Call,

    /// How many clients ask at a time, each without a pause
    #[arg(long, default_value_t = 1)]
    clients: usize,

    /// How long to ask
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Call {
    /// Updates of one pod
    Update,
    /// Place of one replica, reserved for a second
    Reserve,
    /// Filter at one server, which waits for an update at another: the time from the
    /// acknowledgement of the one to the answer of the other
    Lag,
    /// Filter, by domains
    Filter,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mut servers = Vec::new();
    for server in &args.servers {
        servers.push(Client::connect(server.clone()).await?);
    }
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let (names, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let clients = (0..args.clients).map(async |number| {
        let mut took = Vec::new();
        let mut turn = number;
        while Instant::now() < end {
            let pair = [turn, turn + 1].map(|turn| servers[turn % servers.len()].clone());
            let name = format!("load-{}", names.fetch_add(1, Ordering::Relaxed));
            let (measured, again) = args.call.insist(pair, &name).await?;
            took.push(measured);
            refused.fetch_add(again, Ordering::Relaxed);
            turn += 1;
        }
        anyhow::Ok(took)
    });
    let mut took = try_join_all(clients).await?.concat();
    took.sort_unstable();
    let at = |share: f64| took.get((took.len() as f64 * share) as usize);
    let (p50, p99) = at(0.5).zip(at(0.99)).context("nothing was answered")?;
    println!(
        "{} {:.0} {:.2} {:.2} {}",
        took.len(),
        took.len() as f64 / args.seconds as f64,
        p50.as_secs_f64() * 1e3,
        p99.as_secs_f64() * 1e3,
        refused.into_inner()
    );
    Ok(())
}

impl Call {
    /// Repeats the call until it succeeds. Returns how long that took, and how often it was
    /// refused.
    async fn insist(self, pair: [Client; 2], name: &str) -> Result<(Duration, usize)> {
        let start = Instant::now();
        let mut refused = 0;
        loop {
            match self.measure(pair.clone(), name).await {
                Ok(measured) if refused == 0 => return Ok((measured, 0)),
                Ok(_) => return Ok((start.elapsed(), refused)),
                Err(status) if passes(&status) && start.elapsed() < PATIENCE => refused += 1,
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Makes the call once. Returns how long it took.
    async fn measure(
        self,
        [mut one, mut other]: [Client; 2],
        name: &str,
    ) -> Result<Duration, Status> {
        let start = Instant::now();
        match self {
            Self::Update => drop(one.update_snapshot(update(name)).await?),
            Self::Reserve => drop(one.place(reserve(name)).await?),
            Self::Filter => drop(one.filter(filter(0)).await?),
            Self::Lag => {
                let updated = one.update_snapshot(update(name)).await?.into_inner();
                let acknowledged = Instant::now();
                other.filter(filter(updated.revision)).await?;
                return Ok(acknowledged.elapsed());
            }
        }
        Ok(start.elapsed())
    }
}

/// Returns whether the call may be repeated. A status with a source is of the connection, because a
/// status that a server sent has none.
fn passes(status: &Status) -> bool {
    status.source().is_some() || [Code::Aborted, Code::Unavailable].contains(&status.code())
}

fn pod(name: &str) -> v1::Pod {
    v1::Pod {
        metadata: Some(v1::ObjectMeta {
            name: name.to_owned(),
            labels: [("app".to_owned(), "load".to_owned())].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Moves one of a hundred pods to another node.
fn update(name: &str) -> v1::UpdateSnapshotRequest {
    let (stem, number) = name.split_once('-').unwrap_or((name, "0"));
    let number: usize = number.parse().unwrap_or(0);
    let mut moved = pod(&format!("{stem}-{}", number % 100));
    moved.spec.get_or_insert_default().node_name = format!("node-{number}");
    v1::UpdateSnapshotRequest {
        changes: vec![v1::Change {
            object: Some(Object::Pod(moved)),
        }],
        ..Default::default()
    }
}

fn reserve(name: &str) -> v1::PlaceRequest {
    v1::PlaceRequest {
        pod: Some(spread()),
        replicas: 1,
        reserve: Some(v1::Reservation {
            owner: "load".to_owned(),
            ttl: Some(Duration::from_secs(1).into()),
        }),
        request_id: name.to_owned(),
        ..Default::default()
    }
}

fn filter(min_revision: i64) -> v1::FilterRequest {
    v1::FilterRequest {
        pod: Some(spread()),
        view: v1::View::Domains as i32,
        min_revision,
        ..Default::default()
    }
}

/// A pod that is spread over zones.
fn spread() -> v1::Pod {
    let mut pod = pod("");
    let selector = v1::LabelSelector {
        match_labels: [("app".to_owned(), "load".to_owned())].into(),
        ..Default::default()
    };
    let constraint = v1::TopologySpreadConstraint {
        max_skew: 5,
        topology_key: "topology.kubernetes.io/zone".to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(selector),
        ..Default::default()
    };
    let spec = pod.spec.get_or_insert_default();
    spec.topology_spread_constraints.push(constraint);
    pod
}
