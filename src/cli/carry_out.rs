//! `evenkeel rebalance --apply`: makes the moves of a plan, one at a time, and plans anew
//! after each.

use std::collections::HashSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::cluster;
use super::exit::Exit;
use super::output;
use crate::kubernetes::{ApiResource, ClusterClient, Eviction};
use crate::proto::v1::move_blocker::Kind;
use crate::proto::v1::{PodMove, RebalanceResponse};
use crate::snapshot::ObjectKind;
use crate::visible;

/// How often it is looked whether a pod is ready, or a budget allows an eviction.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is asked for the next moves.
pub(super) trait MovePlanner {
    /// The cluster in which the moves are made.
    ///
    /// # Errors
    /// None was asked for, or there is none.
    async fn cluster(&self) -> Result<ClusterClient>;

    /// Looks at the cluster, and plans what is left after so many moves.
    async fn plan(&self, made: usize) -> Result<RebalanceResponse>;

    /// Prints a plan.
    fn print(&self, plan: &RebalanceResponse) -> Result<()>;

    /// Returns whether so many moves are as many as there may be.
    fn is_capped(&self, made: usize) -> bool;

    /// Returns whether nothing is to be evicted.
    fn is_dry_run(&self) -> bool;

    /// Returns whether the moves are made without a question.
    fn is_confirmed(&self) -> bool;

    /// Returns how long to wait for a pod or a budget.
    fn patience(&self) -> Duration;
}

/// What was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CarriedOut {
    /// The moves, in order.
    moves: Vec<MadeMove>,
    /// How many more the last plan had.
    left: usize,
    /// Why no more were made.
    ended: WhyEnded,
}

/// Why no more moves were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum WhyEnded {
    /// Every constraint holds.
    Even,
    /// What is left cannot be repaired.
    Blocked,
    /// There may be no more moves.
    Capped,
    /// Somebody interrupted it.
    Interrupted,
    /// A pod did not become ready in time, or a budget allowed no eviction in time.
    TimedOut,
    /// Nothing was to be done: a dry run, or the answer was no.
    NotMade,
}

/// A move that was made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MadeMove {
    namespace: String,
    pod: String,
    from: String,
    /// Where the plan wanted its successor.
    planned: String,
    /// The pod that took its place; absent where nobody waits for one.
    successor: Option<String>,
    /// Where that is.
    to: Option<String>,
}

/// A pod of the same owner.
#[derive(Debug, Clone)]
struct SeenPod {
    name: String,
    uid: String,
    node: String,
    is_ready: bool,
}

/// Makes the moves of plans until nothing helps any more, and reports.
pub(super) async fn carry_out(command: &impl MovePlanner) -> Result<Exit> {
    let cluster = command.cluster().await?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    tokio::spawn(async move {
        // A second one ends the process at once.
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
        if command.is_dry_run() {
            return dry_run(command, &cluster, &plan).await;
        }
        let Some(next) = plan.moves.first() else {
            let began = made.len() + usize::from(waited_since.is_some()) > 0;
            if began && is_held(&plan) && waits_on(&mut waited_since, command.patience()) {
                progress.set_message("waiting for a budget");
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
            break (why_ended(&plan, waited_since.is_some()), 0);
        };
        if made.is_empty() && waited_since.is_none() && !is_confirmed(command, &plan)? {
            break (WhyEnded::NotMade, plan.moves.len());
        }
        progress.set_message(format!("{}/{}", next.namespace, next.pod));
        let before = owned(&cluster, next).await?;
        match cluster
            .evict((&next.namespace, &next.pod), &next.uid, false)
            .await?
        {
            Eviction::Accepted => waited_since = None,
            Eviction::Gone => continue,
            Eviction::NotNow(why) => {
                if waited_since.is_none() {
                    output::warn(&format!("waiting: {}/{}: {why}", next.namespace, next.pod));
                }
                if !waits_on(&mut waited_since, command.patience()) {
                    break (WhyEnded::TimedOut, plan.moves.len());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            }
        }
        let successor = successor(&cluster, next, before.as_deref(), command.patience()).await?;
        let is_late = before.is_some() && successor.is_none();
        made.push(made_move(next, successor));
        progress.inc(1);
        tell(made.last());
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

/// Has the API server say of each move whether it would evict the pod.
async fn dry_run(
    command: &impl MovePlanner,
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

/// Returns whether a budget alone may be in the way, which changes by itself.
fn is_held(plan: &RebalanceResponse) -> bool {
    let mut blockers = plan.workloads.iter().flat_map(|it| &it.blockers);
    blockers.any(|it| it.kind() == Kind::Budget)
}

/// Returns whether there is time to wait, from the first time that it is asked.
fn waits_on(since: &mut Option<Instant>, patience: Duration) -> bool {
    since.get_or_insert_with(Instant::now).elapsed() < patience
}

fn why_ended(plan: &RebalanceResponse, has_waited: bool) -> WhyEnded {
    match plan.workloads.iter().all(|it| it.blockers.is_empty()) {
        true => WhyEnded::Even,
        false if has_waited => WhyEnded::TimedOut,
        false => WhyEnded::Blocked,
    }
}

/// Shows the plan, and asks.
fn is_confirmed(command: &impl MovePlanner, plan: &RebalanceResponse) -> Result<bool> {
    if command.is_confirmed() {
        return Ok(true);
    }
    anyhow::ensure!(
        io::stdin().is_terminal(),
        "nobody can be asked: standard input is no terminal; --yes evicts without a question"
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

fn made_move(it: &PodMove, successor: Option<SeenPod>) -> MadeMove {
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

/// A line about a move.
fn tell(made: Option<&MadeMove>) {
    let Some(made) = made else { return };
    let to = made.to.as_deref().unwrap_or("no node yet");
    let successor = made.successor.as_deref().unwrap_or("nothing");
    let line = format!(
        "moved {}/{} from {}: {successor} is on {to} (planned: {})",
        made.namespace, made.pod, made.from, made.planned
    );
    // Standard output has the report alone.
    let _ = writeln!(anstream::stderr(), "{}", visible::text(&line));
}

/// The pods of the owner of a pod; `None` where it has none, and so nobody makes another.
async fn owned(cluster: &ClusterClient, it: &PodMove) -> Result<Option<Vec<SeenPod>>> {
    let pods = pods(cluster, &it.namespace).await?;
    let own = pods.iter().find(|pod| pod["metadata"]["name"] == *it.pod);
    let owner = own.and_then(|pod| owner_of(pod).cloned());
    let Some(owner) = owner else { return Ok(None) };
    let owned = pods
        .iter()
        .filter(|pod| owner_of(pod).is_some_and(|it| it["uid"] == owner["uid"]));
    Ok(Some(owned.map(seen).collect()))
}

/// Waits until a pod of the owner is ready that was not there before; `None` where that
/// takes too long.
async fn successor(
    cluster: &ClusterClient,
    it: &PodMove,
    before: Option<&[SeenPod]>,
    patience: Duration,
) -> Result<Option<SeenPod>> {
    let Some(before) = before else {
        return Ok(None);
    };
    let known: HashSet<&str> = before.iter().map(|pod| &*pod.uid).collect();
    let began = Instant::now();
    while began.elapsed() < patience {
        let pods = pods(cluster, &it.namespace).await?;
        let of_owner = pods.iter().filter(|pod| {
            let name = it.workload.as_ref().map_or("", |workload| &workload.name);
            let owner = owner_of(pod).and_then(|owner| owner["name"].as_str());
            owner.is_some_and(|owner| owner.starts_with(name))
        });
        let mut fresh = of_owner.map(seen).filter(|pod| !known.contains(&*pod.uid));
        if let Some(pod) = fresh.find(|pod| pod.is_ready && !pod.node.is_empty()) {
            return Ok(Some(pod));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(None)
}

async fn pods(cluster: &ClusterClient, namespace: &str) -> Result<Vec<Value>> {
    let resource = ApiResource::of(ObjectKind::Pod);
    let mut pods = Vec::new();
    for page in cluster::pages(cluster, resource, Some(namespace), "").await? {
        let mut page: Value = serde_json::from_str(&page).context("a list of pods")?;
        if let Value::Array(items) = page["items"].take() {
            pods.extend(items);
        }
    }
    Ok(pods)
}

fn owner_of(pod: &Value) -> Option<&Value> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

fn seen(pod: &Value) -> SeenPod {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    SeenPod {
        name: text(&pod["metadata"]["name"]),
        uid: text(&pod["metadata"]["uid"]),
        node: text(&pod["spec"]["nodeName"]),
        is_ready: pod["metadata"]["deletionTimestamp"].is_null()
            && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True"),
    }
}
