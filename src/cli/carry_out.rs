//! `evenkeel rebalance --apply`: makes the moves of a plan, one at a time, and plans again after
//! each, once the controller has replaced the evicted pod.

use std::collections::HashSet;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use super::exit::Exit;
use super::rebalance::RebalanceCommand;
use super::{cluster, output};
use crate::explain::plural;
use crate::kubernetes::{self, ApiResource, ClusterClient, Eviction};
use crate::proto::v1::move_blocker::Kind;
use crate::proto::v1::{ObjectMeta, OwnerReference, Pod, PodMove, RebalanceResponse};
use crate::snapshot::ObjectKind;
use crate::spread::describe::WorkloadId;
use crate::visible;

/// The report: the moves that were made, and the reason why no more were made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CarriedOut {
    /// The moves, in order.
    moves: Vec<MadeMove>,
    /// The number of moves that would help and were not made. `None` if that is not known: the
    /// remaining violations are blocked, or the cluster could not be asked.
    left: Option<usize>,
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
    /// An error ended the moves. It is told after the report.
    Failed,
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
    /// The pod that replaced it; `None` if there is none, or it was not waited for to the end.
    successor: Option<String>,
    /// The successor's node.
    to: Option<String>,
}

/// Plans moves, and prints the plan or, with --apply, carries it out.
pub(super) async fn run(command: RebalanceCommand) -> Result<Exit> {
    match (&command.dry_run, command.apply) {
        (Some(_), _) => dry_run(&command).await,
        (None, true) => carry_out(&command).await,
        (None, false) => command.show().await,
    }
}

/// Makes the moves of plans until no further move helps, and reports.
async fn carry_out(command: &RebalanceCommand) -> Result<Exit> {
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}");
    let mut run = ApplyRun {
        command,
        cluster: command.cluster().await?,
        is_stopped: stopped_by_user(),
        made: Vec::new(),
        progress: ProgressBar::new(0).with_style(style.expect("the template is valid")),
    };
    let ended = run.make_moves().await;
    run.progress.finish_and_clear();
    let (ended, left, error) = match ended {
        Ok((ended, left)) => (ended, left, None),
        Err(error) => (WhyEnded::Failed, None, Some(error)),
    };
    let report = CarriedOut {
        moves: run.made,
        left,
        ended,
    };
    output::print(&output::json(&report)?)?;
    match error {
        Some(error) => Err(error),
        None => Ok(Exit::of(ended == WhyEnded::Even)),
    }
}

/// Returns a flag that Ctrl-C sets. A second Ctrl-C ends the process at once.
fn stopped_by_user() -> Arc<AtomicBool> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.store(true, Ordering::Relaxed);
            output::warn("no more moves after this one; Ctrl-C again ends at once");
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        }
    });
    is_stopped
}

/// The moves that are being made.
struct ApplyRun<'c> {
    command: &'c RebalanceCommand,
    cluster: ClusterClient,
    is_stopped: Arc<AtomicBool>,
    made: Vec<MadeMove>,
    progress: ProgressBar,
}

impl ApplyRun<'_> {
    /// Makes moves. Returns why no more are made, and the number of those that are left.
    async fn make_moves(&mut self) -> Result<(WhyEnded, Option<usize>)> {
        let (command, patience) = (self.command, self.command.wait);
        let mut waited_since: Option<Instant> = None;
        loop {
            let made = self.made.len();
            let (plan, _) = self.while_away(async |_| command.plan(made).await).await?;
            let moves = &plan.answer.moves;
            self.progress.set_length((made + moves.len()) as u64);
            if self.is_stopped.load(Ordering::Relaxed) {
                return Ok((WhyEnded::Interrupted, Some(plan.left().await?)));
            }
            let Some(next) = moves.first() else {
                if let Some(why) = held_by(&plan.answer)
                    && waits_on(&mut waited_since, patience, why).await
                {
                    continue;
                }
                let ended = why_ended(&plan.answer, waited_since.is_some());
                return Ok((ended, (ended == WhyEnded::Even).then_some(0)));
            };
            if made == 0 && waited_since.is_none() && !is_confirmed(command, &plan.answer)? {
                return Ok((WhyEnded::NotMade, Some(plan.left().await?)));
            }
            self.progress
                .set_message(format!("{}/{}", next.namespace, next.pod));
            let (maker, _) = self
                .while_away(async |cluster| SuccessorMaker::new(cluster, next).await)
                .await?;
            match self.evict(next).await? {
                Eviction::Accepted => waited_since = None,
                Eviction::Gone => continue,
                Eviction::NotNow(why) => {
                    let why = format!("{}/{}: {why}", next.namespace, next.pod);
                    if waits_on(&mut waited_since, patience, &why).await {
                        continue;
                    }
                    return Ok((WhyEnded::TimedOut, Some(plan.left().await?)));
                }
            }
            let is_late = self.await_successor(next, maker).await?;
            let ended = match is_late {
                true => WhyEnded::TimedOut,
                false if command.is_capped(self.made.len()) => WhyEnded::Capped,
                false => continue,
            };
            let left = plan.left().await?.saturating_sub(1);
            return Ok((ended, Some(left)));
        }
    }

    /// Evicts the pod of a move.
    async fn evict(&self, next: &PodMove) -> Result<Eviction> {
        let pod = (&*next.namespace, &*next.pod);
        let evict =
            async |cluster: &ClusterClient| Ok(cluster.evict(pod, &next.uid, false).await?);
        Ok(match self.while_away(evict).await? {
            // The request that had no answer has evicted it.
            (Eviction::Gone, true) => Eviction::Accepted,
            (told, _) => told,
        })
    }

    /// Records a move whose pod was evicted, and waits for the successor. Returns true if it did not
    /// come in time.
    async fn await_successor(
        &mut self,
        next: &PodMove,
        maker: Option<SuccessorMaker>,
    ) -> Result<bool> {
        self.made.push(MadeMove {
            namespace: next.namespace.clone(),
            pod: next.pod.clone(),
            from: next.from.clone(),
            planned: next.to.clone(),
            successor: None,
            to: None,
        });
        self.progress.inc(1);
        let patience = self.command.wait;
        let successor = match &maker {
            Some(maker) => {
                let wait = async |cluster: &ClusterClient| maker.successor(cluster, patience).await;
                self.while_away(wait).await?.0
            }
            None => None,
        };
        let is_late = maker.is_some() && successor.is_none();
        if let Some(last) = self.made.last_mut() {
            (last.successor, last.to) = successor.unzip();
            tell(last);
        }
        Ok(is_late)
    }

    /// Does a step again while the API server is away, for as long as the command waits. Returns its
    /// result, and whether it was done again.
    async fn while_away<T>(
        &self,
        step: impl AsyncFn(&ClusterClient) -> Result<T>,
    ) -> Result<(T, bool)> {
        let mut since = None;
        loop {
            let error = match step(&self.cluster).await {
                Ok(done) => return Ok((done, since.is_some())),
                Err(error) => error,
            };
            let causes = || error.chain().filter_map(|cause| cause.downcast_ref());
            let is_away = causes().any(kubernetes::Error::is_away);
            if !is_away
                || self.is_stopped.load(Ordering::Relaxed)
                || !waits_on(&mut since, self.command.wait, &format!("{error:#}")).await
            {
                return Err(error);
            }
        }
    }
}

/// Makes each eviction of a plan as a dry run on the API server, and reports the answers.
async fn dry_run(command: &RebalanceCommand) -> Result<Exit> {
    let cluster = command.cluster().await?;
    let plan = command.plan(0).await?.answer;
    command.print(&plan)?;
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
    let pods = plural(plan.moves.len(), "pod");
    write!(io::stderr(), "Evict up to {pods}, one at a time? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
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

/// The time between two checks for a ready pod, or for a budget that allows an eviction.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The workload that makes the successor of a pod, and the pods that existed before. During a rollout
/// another ReplicaSet of a Deployment may make it.
#[derive(Debug)]
struct SuccessorMaker {
    namespace: String,
    workload: WorkloadId,
    /// The uids of the pods that existed in the namespace.
    known: HashSet<String>,
}

impl SuccessorMaker {
    /// Looks up the workload of a pod; `None` if it has none, so that there is no successor.
    async fn new(cluster: &ClusterClient, it: &PodMove) -> Result<Option<Self>> {
        let pods = pods_of(cluster, &it.namespace).await?;
        let own = pods.iter().find(|pod| pod["metadata"]["name"] == *it.pod);
        let workload = own.map(workload_of).filter(|workload| !workload.is_bare());
        Ok(workload.map(|workload| Self {
            namespace: it.namespace.clone(),
            workload,
            known: pods.iter().map(uid).collect(),
        }))
    }

    /// Waits until a new pod of the workload is ready, and returns its name and its node; `None` if this
    /// takes too long.
    async fn successor(
        &self,
        cluster: &ClusterClient,
        patience: Duration,
    ) -> Result<Option<(String, String)>> {
        let began = Instant::now();
        while began.elapsed() < patience {
            let pods = pods_of(cluster, &self.namespace).await?;
            let mut fresh = pods
                .iter()
                .filter(|pod| workload_of(pod) == self.workload && !self.known.contains(&uid(pod)));
            if let Some(pod) = fresh.find_map(ready) {
                return Ok(Some(pod));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }
}

async fn pods_of(cluster: &ClusterClient, namespace: &str) -> Result<Vec<Value>> {
    let pods = ApiResource::of(ObjectKind::Pod);
    cluster::listed(cluster, pods, Some(namespace), "").await
}

fn workload_of(pod: &Value) -> WorkloadId {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let owners = owners.into_iter().flatten().map(|owner| OwnerReference {
        kind: text(&owner["kind"]),
        name: text(&owner["name"]),
        controller: owner["controller"].as_bool(),
        ..OwnerReference::default()
    });
    let metadata = ObjectMeta {
        labels: labels
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
        owner_references: owners.collect(),
        ..ObjectMeta::default()
    };
    let pod = Pod {
        metadata: Some(metadata),
        ..Pod::default()
    };
    WorkloadId::of(&pod, None)
}

fn uid(pod: &Value) -> String {
    let uid = &pod["metadata"]["uid"];
    uid.as_str().unwrap_or_default().to_owned()
}

/// The name and the node of a pod that is ready on it.
fn ready(pod: &Value) -> Option<(String, String)> {
    let node = pod["spec"]["nodeName"].as_str()?;
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let is_ready = pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    is_ready.then(|| (name.to_owned(), node.to_owned()))
}
