//! `evenkeel rebalance --apply`: makes the moves of a plan, one at a time, and plans again after
//! each.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

use super::exit::Exit;
use super::output;
use super::rebalance::RebalanceCommand;
use super::successor::{LOOK_AGAIN, SuccessorMaker, SuccessorPod};
use crate::kubernetes::{ClusterClient, Eviction};
use crate::proto::v1::move_blocker::Kind;
use crate::proto::v1::{PodMove, RebalanceResponse};
use crate::visible;

/// The report: the moves that were made, and the reason why no more were made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CarriedOut {
    /// The moves, in order.
    moves: Vec<MadeMove>,
    /// The number of moves that were left in the last plan.
    left: usize,
    /// The reason why no more moves were made.
    ended: WhyEnded,
}

/// The reason why no more moves were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum WhyEnded {
    /// Every constraint is satisfied.
    Even,
    /// The remaining violations cannot be repaired.
    Blocked,
    /// No more moves are allowed.
    Capped,
    /// The user interrupted the moves.
    Interrupted,
    /// A pod did not become ready in time, or a budget allowed no eviction in time.
    TimedOut,
    /// The user declined the moves.
    NotMade,
}

/// A move that was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MadeMove {
    namespace: String,
    pod: String,
    from: String,
    /// The node that the plan chose for the successor.
    planned: String,
    /// The pod that replaced it; `None` if the command does not wait for one.
    successor: Option<String>,
    /// The successor's node.
    to: Option<String>,
}

/// Plans moves, and prints the plan or, with --apply, carries it out.
pub(super) async fn run(command: RebalanceCommand) -> Result<Exit> {
    command.state.is_about(command.scope());
    match command.apply {
        true => carry_out(&command).await,
        false => command.show().await,
    }
}

/// Makes the moves of plans until no further move helps, and reports.
async fn carry_out(command: &RebalanceCommand) -> Result<Exit> {
    let (cluster, patience) = (command.cluster().await?, command.wait);
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    tokio::spawn(async move {
        // A second Ctrl-C ends the process at once.
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.store(true, Ordering::Relaxed);
            output::warn("no more moves after this one; Ctrl-C again ends at once");
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        }
    });
    let mut made: Vec<MadeMove> = Vec::new();
    let mut waited_since: Option<Instant> = None;
    let progress = output::bar(0, 0, "{bar:20} {pos}/{len} {msg}");
    let (ended, left) = loop {
        let plan = command.plan(made.len()).await?;
        progress.set_length((made.len() + plan.moves.len()) as u64);
        if is_stopped.load(Ordering::Relaxed) {
            break (WhyEnded::Interrupted, plan.moves.len());
        }
        if command.dry_run.is_some() {
            return dry_run(command, &cluster, &plan).await;
        }
        let Some(next) = plan.moves.first() else {
            if let Some(why) = held_by(&plan)
                && waits_on(&mut waited_since, patience, why).await
            {
                continue;
            }
            break (why_ended(&plan, waited_since.is_some()), 0);
        };
        if made.is_empty() && waited_since.is_none() && !is_confirmed(command, &plan)? {
            break (WhyEnded::NotMade, plan.moves.len());
        }
        progress.set_message(format!("{}/{}", next.namespace, next.pod));
        let maker = SuccessorMaker::of(&cluster, next).await?;
        match cluster
            .evict((&next.namespace, &next.pod), &next.uid, false)
            .await?
        {
            Eviction::Accepted => waited_since = None,
            Eviction::Gone => continue,
            Eviction::NotNow(why) => {
                let why = format!("{}/{}: {why}", next.namespace, next.pod);
                if waits_on(&mut waited_since, patience, &why).await {
                    continue;
                }
                break (WhyEnded::TimedOut, plan.moves.len());
            }
        }
        let successor = match &maker {
            Some(maker) => maker.successor(&cluster, patience).await?,
            None => None,
        };
        let is_late = maker.is_some() && successor.is_none();
        let one = made_move(next, successor);
        progress.inc(1);
        tell(&one);
        made.push(one);
        if is_late {
            break (WhyEnded::TimedOut, plan.moves.len() - 1);
        }
        if command.is_capped(made.len()) {
            break (WhyEnded::Capped, plan.moves.len() - 1);
        }
    };
    progress.finish_and_clear();
    let report = CarriedOut {
        moves: made,
        left,
        ended,
    };
    output::print(&output::json(&report)?)?;
    Ok(Exit::of(ended == WhyEnded::Even))
}

/// Makes each eviction of a plan as a dry run on the API server, and reports the answers.
async fn dry_run(
    command: &RebalanceCommand,
    cluster: &ClusterClient,
    plan: &RebalanceResponse,
) -> Result<Exit> {
    command.print(plan)?;
    let mut is_accepted = true;
    for it in &plan.moves {
        let told = cluster
            .evict((&it.namespace, &it.pod), &it.uid, true)
            .await?;
        let said = match &told {
            Eviction::Accepted => "would be evicted",
            Eviction::Gone => "is gone",
            Eviction::NotNow(why) => why,
        };
        is_accepted &= told == Eviction::Accepted;
        output::warn(&format!("dry run: {}/{}: {said}", it.namespace, it.pod));
    }
    Ok(Exit::of(is_accepted))
}

/// The text of a budget that blocks moves. It may allow them soon, for instance when the last
/// evicted pod has a successor.
fn held_by(plan: &RebalanceResponse) -> Option<&str> {
    let mut blockers = plan.workloads.iter().flat_map(|it| &it.blockers);
    let budget = blockers.find(|it| it.kind() == Kind::Budget)?;
    Some(&budget.text)
}

/// Waits a moment, and says at the first call why. Returns false, without waiting, if the time
/// since the first call is not less than `patience`.
async fn waits_on(since: &mut Option<Instant>, patience: Duration, why: &str) -> bool {
    if since.is_none() {
        output::warn(&format!("waiting: {why}"));
    }
    let waits = since.get_or_insert_with(Instant::now).elapsed() < patience;
    if waits {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    waits
}

fn why_ended(plan: &RebalanceResponse, has_waited: bool) -> WhyEnded {
    match plan.workloads.iter().all(|it| it.blockers.is_empty()) {
        true => WhyEnded::Even,
        false if has_waited => WhyEnded::TimedOut,
        false => WhyEnded::Blocked,
    }
}

/// Shows the plan, and asks for confirmation.
fn is_confirmed(command: &RebalanceCommand, plan: &RebalanceResponse) -> Result<bool> {
    if command.yes {
        return Ok(true);
    }
    anyhow::ensure!(
        io::stdin().is_terminal(),
        "standard input is not a terminal, so nobody can answer; --yes evicts without a question"
    );
    command.print(plan)?;
    let pods = plan.moves.len();
    write!(
        io::stderr(),
        "Evict up to {pods} pods, one at a time? [y/N] "
    )?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn made_move(it: &PodMove, successor: Option<SuccessorPod>) -> MadeMove {
    let (name, node) = successor.map(|pod| (pod.name, pod.node)).unzip();
    MadeMove {
        namespace: it.namespace.clone(),
        pod: it.pod.clone(),
        from: it.from.clone(),
        planned: it.to.clone(),
        successor: name,
        to: node,
    }
}

/// Writes a line about a move.
fn tell(made: &MadeMove) {
    let to = made.to.as_deref().unwrap_or("no node yet");
    let successor = made.successor.as_deref().unwrap_or("nothing");
    let line = format!(
        "moved {}/{} from {}: {successor} is on {to} (planned: {})",
        made.namespace, made.pod, made.from, made.planned
    );
    // The line goes to standard error, because standard output has only the report.
    let _ = writeln!(anstream::stderr(), "{}", visible::text(&line));
}
