//! A long run: two servers under the same mixed load. One is never restarted,
//! and its memory is to stay flat; the other is drained and started anew every
//! so often. Writes a table of what happened; `bench/soak` runs it.
//!
//! Exits with 1 when memory grew, a count drifted, or anything went wrong that
//! was not provoked.

mod load;
mod server;
mod tally;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use load::World;
use server::Server;

/// By how much memory may grow between the first quarter and the end.
const MAX_GROWTH: f64 = 0.05;

#[derive(Parser)]
struct Args {
    /// The program
    #[arg(long, default_value = "target/release/evenkeel")]
    binary: PathBuf,

    /// How long to run
    #[arg(long, default_value = "20m", value_parser = humantime::parse_duration)]
    duration: Duration,

    /// How often the one server is restarted
    #[arg(long, default_value = "1m", value_parser = humantime::parse_duration)]
    restart_every: Duration,

    /// Where the servers keep their state, each in a directory of its own;
    /// without it they keep it in memory only
    #[arg(long)]
    state_dir: Option<PathBuf>,

    /// Nodes of the cluster
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,

    /// Pods of the cluster
    #[arg(long, default_value_t = 30_000)]
    pods: usize,

    /// Clients of each kind, for each server
    #[arg(long, default_value_t = 2)]
    clients: usize,

    /// How long a client pauses between two calls
    #[arg(long, default_value = "5ms", value_parser = humantime::parse_duration)]
    pause: Duration,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let world = Arc::new(World::new(args.nodes, args.pods, args.pause));
    let state = |name| {
        args.state_dir
            .as_ref()
            .map(|directory| directory.join(name))
    };
    let steady = Server::start(&args.binary, state("steady")).await?;
    let restarted = Server::start(&args.binary, state("restarted")).await?;
    let stop = CancellationToken::new();
    let mut clients = Vec::new();
    for server in [&steady, &restarted] {
        clients.extend(load::spawn(&world, server, args.clients, &stop));
    }
    let (begun, mut next) = (Instant::now(), args.restart_every);
    let mut memory = Vec::new();
    while begun.elapsed() < args.duration {
        memory.push(steady.memory_bytes()?);
        if begun.elapsed() >= next && !restarted.is_away() {
            restarted.restart().await?;
            next += args.restart_every;
        }
        sleep_until(begun + Duration::from_secs(memory.len() as u64)).await;
    }
    stop.cancel();
    for client in clients {
        client.await?;
    }
    let drifted = [steady.verify().await?, restarted.verify().await?];
    for server in [&steady, &restarted] {
        server.stop().await?;
    }
    Ok(report(
        begun.elapsed(),
        &memory,
        drifted,
        [&steady, &restarted],
    ))
}

/// Writes the tables, and judges.
fn report(took: Duration, memory: &[u64], drifted: [i64; 2], servers: [&Server; 2]) -> ExitCode {
    // Sizes in the first quarter are those of tables that still grow into
    // their load; windows of a twentieth level out what comes and goes.
    let window = (memory.len() / 20).max(1);
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
    let quarter = memory.len() / 4;
    let early = mean(&memory[quarter..(quarter + window).min(memory.len())]);
    let late = mean(&memory[memory.len() - window.min(memory.len())..]);
    let growth = late / early - 1.0;
    let took = humantime::format_duration(Duration::from_secs(took.as_secs()));

    println!("| after {took} | steady server | restarted server |\n|---|---|---|");
    let row = |what: &str, of: &dyn Fn(&Server) -> String| {
        println!("| {what} | {} | {} |", of(servers[0]), of(servers[1]));
    };
    row("restarts", &|server| server.restarts().to_string());
    for what in servers[0].tally.names() {
        row(what, &|server| server.tally.done(what).to_string());
    }
    row("errors that were provoked", &|server| {
        server.tally.provoked().to_string()
    });
    row("errors that were not", &|server| {
        server.tally.unprovoked().to_string()
    });
    println!("| numbers that drifted | {} | {} |", drifted[0], drifted[1]);
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
    println!("| memory after a quarter | {} | starts anew |", mib(early));
    println!(
        "| memory at the end | {} ({:+.1} %) | |",
        mib(late),
        growth * 100.0
    );

    let wrong = servers.iter().any(|server| server.tally.unprovoked() > 0);
    for server in servers {
        server.tally.explain();
    }
    match wrong || growth > MAX_GROWTH || drifted != [0, 0] {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
