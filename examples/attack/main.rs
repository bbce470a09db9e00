//! Attacks a server, one way after another, and measures what everybody else
//! notices of it. Writes a table; `bench/attack` runs it.
//!
//! Exits with 1 when health, or somebody's small question, waited longer than
//! promised.

mod attack;
mod beside;
mod held;
mod pods;
mod questions;
mod request;
mod server;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use evenkeel::proto::v1;
use evenkeel::proto::v1::stream_snapshot_request::Step;
use rustix::process::setpriority_process;
use tokio::runtime::Builder;
use tokio::time::{Instant, interval, sleep};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use attack::{Attack, Context};
use beside::Bystanders;
use pods::Scale;
use request::client;
use server::{Attacked, Memory};
use table::{Row, Table};

/// The longest time that a server may take to be as it was before an attack.
const RECOVERY: Duration = Duration::from_secs(20);

/// The interval between two looks at the memory of a server. What it frees after an attack
/// was freed when that is the same twice.
const LOOK: Duration = Duration::from_millis(250);

/// The lowest priority, as of `nice(1)`.
const LOWEST: i32 = 19;

#[derive(Parser)]
struct Args {
    /// The program
    #[arg(long, default_value = "target/release/evenkeel")]
    binary: PathBuf,

    /// Nodes of the cluster
    #[arg(long, default_value_t = 45_000)]
    nodes: usize,

    /// Pods of the cluster
    #[arg(long, default_value_t = 150_000)]
    pods: usize,

    /// Seconds of each attack
    #[arg(long, default_value_t = 4)]
    seconds: u64,

    /// Clients that attack at once
    #[arg(long, default_value_t = 2)]
    clients: usize,

    /// Only attacks whose name has this in it, in any case; repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// How much smaller hostile questions are than the limits let them be
    #[arg(long, default_value_t = 1)]
    divide: usize,

    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Names of the attacks, and no attack
    #[arg(long)]
    list: bool,

    /// Further flags of the server
    #[arg(last = true)]
    flags: Vec<String>,
}

impl Args {
    fn scale(&self) -> Scale {
        let of = |most: usize| (most / self.divide.max(1)).max(1);
        Scale {
            nodes: self.nodes,
            terms: of(1_000),
            values: of(16_000),
            tolerations: of(100_000),
            requirements: of(5_000),
            names: of(200_000),
            replicas: of(100_000),
            overlay: of(1_000),
            batch: of(100_000),
        }
    }

    fn picks(&self, attack: &Attack) -> bool {
        let name = attack.name().to_lowercase();
        let named = |only: &String| name.contains(&only.to_lowercase());
        self.only.is_empty() || matches!(attack, Attack::Nothing) || self.only.iter().any(named)
    }
}

fn main() -> Result<ExitCode> {
    // Who attacks has processors of its own. Here it takes what the server and
    // everybody else leave.
    let attackers = Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(|| {
            setpriority_process(None, LOWEST).expect("anybody may lower a priority");
        })
        .build()?;
    attackers.block_on(attack_all(Args::parse()))
}

async fn attack_all(args: Args) -> Result<ExitCode> {
    let mut attacks = attack::all();
    attacks.retain(|attack| args.picks(attack));
    if args.list {
        attacks
            .iter()
            .for_each(|attack| println!("{}", attack.name()));
        return Ok(ExitCode::SUCCESS);
    }
    let mut attacked = Attacked::start(&args.binary, &args.flags);
    feed(attacked.server.address(), &args).await?;
    let mut table = Table::new(args.json);
    for attack in attacks {
        eprintln!("{}", attack.name());
        let row = run(attack, &mut attacked, &args).await?;
        table.add(row);
    }
    let lines = attacked.server.lines();
    let errors = lines.iter().filter(|line| line.contains(r#""ERROR""#));
    errors.for_each(|line| eprintln!("{line}"));
    Ok(table.judge())
}

/// Replaces the default snapshot with the cluster.
async fn feed(address: &str, args: &Args) -> Result<()> {
    let snapshot = String::new;
    let begin = Step::BeginReplace(v1::BeginReplace {
        snapshot: snapshot(),
    });
    let batches = questions::cluster(&args.scale(), args.pods);
    let update = |changes| {
        Step::Update(v1::UpdateSnapshotRequest {
            snapshot: snapshot(),
            changes,
            ..Default::default()
        })
    };
    let commit = Step::CommitReplace(v1::CommitReplace {
        snapshot: snapshot(),
        expected_revision: None,
    });
    let steps: Vec<Step> = [begin]
        .into_iter()
        .chain(batches.map(update))
        .chain([commit])
        .collect();
    let request = |step| v1::StreamSnapshotRequest { step: Some(step) };
    let steps = tokio_stream::iter(steps.into_iter().map(request));
    let answers = client(address).stream_snapshot(steps).await;
    let mut answers = answers.context("the cluster")?.into_inner();
    while answers.message().await.context("the cluster")?.is_some() {}
    Ok(())
}

/// Waits until the server has freed what it frees after an attack, and answers at once
/// again, ten times in a row.
async fn recover(attacked: &mut Attacked) -> Result<()> {
    let begun = Instant::now();
    let mut health = HealthClient::new(attacked.server.channel());
    let (mut quick, mut settled, mut before) = (0, false, 0);
    while (quick < 10 || !settled) && begun.elapsed() < RECOVERY {
        sleep(LOOK).await;
        if let Some(Memory { resident, .. }) = attacked.memory().await? {
            settled = resident.abs_diff(before) <= resident.unsigned_abs() / 100;
            before = resident;
        }
        quick = 0;
        while quick < 10 {
            let asked = Instant::now();
            let answer = health.check(HealthCheckRequest::default()).await;
            if answer.is_err() || asked.elapsed() > Duration::from_millis(20) {
                break;
            }
            quick += 1;
        }
    }
    Ok(())
}

/// Runs one attack with everybody else beside it, until the server has recovered.
async fn run(attack: Attack, attacked: &mut Attacked, args: &Args) -> Result<Row> {
    let name = attack.name().to_owned();
    let before = attacked.memory().await?.context("what it takes")?;
    let address = attacked.server.address().to_owned();
    let bystanders = Bystanders::start(&address);
    let lasts = Duration::from_secs(args.seconds);
    let it = Context::new(&address, args.scale(), lasts);
    let running = tokio::spawn(attack.run(it.clone(), args.clients));
    let mut ticks = interval(LOOK);
    let mut most = before;
    while !running.is_finished() {
        ticks.tick().await;
        if let Some(memory) = attacked.memory().await?
            && beyond(memory) > beyond(most)
        {
            most = memory;
        }
    }
    if let Err(error) = running.await? {
        it.note(&format!("{error:#}"));
    }
    // What it costs to end an attack is a part of it.
    recover(attacked).await?;
    let (health, filter) = bystanders.stop();
    Ok(Row {
        name,
        outcomes: it.outcomes(),
        health,
        filter,
        resident: most.resident,
        beyond: beyond(most) - beyond(before),
    })
}

/// Returns what the process has beyond what it accounts for.
fn beyond(memory: Memory) -> i64 {
    memory.resident - memory.accounted
}
