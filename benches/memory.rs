//! The memory of a snapshot, and the time to apply it.
//!
//! ```text
//! cargo bench --bench memory                      100,000 nodes, 3,000,000 pods
//! cargo bench --bench memory -- 5000              5,000 nodes, 150,000 pods
//! cargo bench --bench memory -- 5000 --whole-pods the same, and what pods ask for
//! ```
//!
//! Memory is the growth of the resident set of the process, so it includes the waste of the
//! allocator. Making the objects is not timed.

mod clusters;
mod cpu;
mod document;
mod numbers;
mod whole;
#[allow(dead_code, reason = "shared with other benches")]
mod world;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use evenkeel::proto::v1::Change;
use evenkeel::proto::v1::change::Object;

use clusters::SIZES;
use cpu::thread_time;
use numbers::{count, time};
use world::World;

/// Zones of the cluster.
const ZONES: usize = 10;
/// Changes in a batch.
const BATCH: usize = 1_000;

#[derive(Parser)]
struct Args {
    /// Number of nodes, one of the sizes of the decide bench
    #[arg(value_name = "NODES", default_value_t = 100_000)]
    nodes: usize,

    /// Document to put the table in
    #[arg(long, env = "EVENKEEL_BENCH_WRITE", value_name = "FILE")]
    write: Option<PathBuf>,

    /// Give pods an owner, two tolerations and a zone constraint
    #[arg(long)]
    whole_pods: bool,

    /// What cargo passes
    #[arg(long, hide = true)]
    bench: bool,
}

/// The figures that were noted while batches were made.
#[derive(Default)]
struct Notes {
    making: Duration,
    name_bytes: usize,
    /// Resident bytes before the first batch with pods.
    before_pods: usize,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let size = SIZES.into_iter().find(|(nodes, ..)| *nodes == args.nodes);
    let size = size.ok_or_else(|| std::io::Error::other("no such size"))?;
    let batches = clusters::cluster(size, ZONES).into_batches(BATCH);
    let mut batches = batches.map(|mut batch| {
        if args.whole_pods {
            batch.iter_mut().for_each(whole::ask);
        }
        batch
    });
    let mut notes = Notes::default();
    let before = resident_bytes()?;
    let start = thread_time();
    let world = World::of(std::iter::from_fn(|| notes.note(&mut batches)));
    let applying = thread_time() - start - notes.making;
    let after = resident_bytes()?;

    drop(world);

    let rows = rows(size, &notes, applying, (before, after));
    let section = format!("| memory and load | |\n|---|--:|\n{rows}");
    println!("{section}");
    match &args.write {
        Some(document) => document::replace_section(document, "memory", &section),
        None => Ok(()),
    }
}

/// The rows of the table; `before` and `after` are the memory of the process.
fn rows(
    (nodes, pods, _): (usize, usize, usize),
    notes: &Notes,
    applying: Duration,
    (before, after): (usize, usize),
) -> String {
    let per = |bytes: usize, things: usize| format!("{:.1}", bytes as f64 / things as f64);
    let names = notes.name_bytes;
    let rows = [
        ("nodes", count(nodes)),
        ("pods", count(pods)),
        ("apply, CPU time", time(applying.as_nanos() as f64)),
        (
            "apply, per object",
            time(applying.as_nanos() as f64 / (nodes + pods) as f64),
        ),
        (
            "bytes per node",
            per(notes.before_pods.saturating_sub(before), nodes),
        ),
        ("bytes of a pod's name", per(names, pods)),
        (
            "bytes per pod beyond its name",
            per((after - notes.before_pods).saturating_sub(names), pods),
        ),
        (
            "the same with nodes",
            per((after - before).saturating_sub(names), pods),
        ),
    ];
    let rows = rows.map(|(what, value)| format!("| {what} | {value} |\n"));
    rows.concat()
}

impl Notes {
    /// Makes the next batch, and notes the time and the bytes of names.
    fn note(&mut self, batches: &mut impl Iterator<Item = Vec<Change>>) -> Option<Vec<Change>> {
        let start = thread_time();
        let batch = batches.next()?;
        let pods = batch.iter().filter_map(|change| match &change.object {
            Some(Object::Pod(pod)) => pod.metadata.as_ref(),
            _ => None,
        });
        let names: usize = pods.map(|metadata| metadata.name.len()).sum();
        if self.name_bytes == 0 && names > 0 {
            self.before_pods = resident_bytes().unwrap_or(0);
        }
        self.name_bytes += names;
        self.making += thread_time() - start;
        Some(batch)
    }
}

/// Returns the resident bytes of the process.
fn resident_bytes() -> std::io::Result<usize> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let kilobytes = kilobytes.ok_or_else(|| std::io::Error::other("no VmRSS"))?;
    Ok(kilobytes * 1024)
}
