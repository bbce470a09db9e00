//! `evenkeel rebalance`: plans which pods to move so that constraints are satisfied. With --apply,
//! `carry_out` moves them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::about::{AboutWorkloads, OpenedWorkloads, PodScope, parse_selector};
use super::args::AnswerFlags;
use super::backend::Client;
use super::exit::Exit;
use super::render;
use crate::kubernetes::{ClusterClient, OnRefusal};
use crate::manifest::LoadedObjects;
use crate::proto::v1::{
    EvictionRules, LabelSelector, RebalanceRequest, RebalanceResponse, StayingPod,
};

/// Flags of `evenkeel rebalance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is moved without --apply. The plan has the fewest moves, over all workloads together. Each
eviction is within its budget, and each pod that takes the place of an evicted one passes Filter
where it is to go. Pods of DaemonSets, static pods, pods without a controller, and pods that an
annotation or local storage keeps stay. Files and clusters tell which these are, a server
does not.

Examples:
  evenkeel rebalance                                  all workloads that violate a hard constraint
  evenkeel rebalance -n shop deploy/web --load cluster.json
  evenkeel rebalance --soft --max-moves 20 -o html > plan.html
  evenkeel rebalance --by topology.kubernetes.io/zone workloads without constraints of their own, too
  evenkeel rebalance -n shop --from-cluster --apply   makes the moves, after a question

With --apply each pod is evicted by the Eviction API, which keeps its budget; once its successor is
ready the cluster is looked at again, and planned anew. Ctrl-C ends between two moves. A line on
standard error says of each move what became of it, and a report follows as JSON.")]
pub(crate) struct RebalanceCommand {
    #[command(flatten)]
    pub(super) about: AboutWorkloads,
    /// Repair soft constraints (`ScheduleAnyway`) too
    #[arg(long)]
    soft: bool,

    /// Label key of nodes over which workloads without constraints of their own are made even
    #[arg(long, value_name = "KEY")]
    by: Option<String>,

    /// How many moves there may be
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    max_moves: Option<i32>,

    /// How many moves there may be of each workload
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    max_moves_per_workload: Option<i32>,

    /// How many pods may leave each node
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    max_moves_per_node: Option<i32>,

    #[command(flatten)]
    evictions: EvictionFlags,

    /// Make the moves in the cluster, one at a time
    #[arg(long, conflicts_with = "load")]
    pub(super) apply: bool,

    /// Make the moves without a question
    #[arg(long, requires = "apply")]
    pub(super) yes: bool,

    /// Ask the API server of each move whether it would evict the pod, and evict none
    #[arg(
        long,
        value_name = "WHERE",
        value_parser = ["server"],
        conflicts_with = "load"
    )]
    pub(super) dry_run: Option<String>,

    /// How long to wait until a successor is ready, a budget allows an eviction, or the API server
    /// is back
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "5m",
        value_parser = humantime::parse_duration
    )]
    pub(super) wait: Duration,

    #[command(flatten)]
    answer: AnswerFlags,
}

/// Flags about the pods that may be evicted.
#[derive(Debug, Args)]
pub(super) struct EvictionFlags {
    /// How many pods of a workload may be unavailable that has no PodDisruptionBudget
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(0..),
        default_value_t = 1
    )]
    max_unavailable: i32,

    /// Move pods without a controller too
    #[arg(long)]
    bare: bool,

    /// Move pods with local storage too (`emptyDir`, `hostPath`)
    #[arg(long)]
    local_storage: bool,

    /// Pods that stay, in kubectl's syntax
    #[arg(long, value_name = "SELECTOR", value_parser = parse_selector)]
    stay: Option<LabelSelector>,
}

impl EvictionFlags {
    /// The rules for the server. `objects` are those that were read with the state.
    pub(super) fn rules(&self, objects: Option<Arc<LoadedObjects>>) -> EvictionRules {
        let staying = |objects: Arc<LoadedObjects>| staying(&objects, self.local_storage);
        EvictionRules {
            max_unavailable: Some(self.max_unavailable),
            bare: self.bare,
            stay: objects.map_or_else(Vec::new, staying),
            stay_selector: self.stay.clone(),
        }
    }
}

/// A plan of moves in a cluster, and the question that it answers.
pub(super) struct MovePlan {
    /// The plan.
    pub(super) answer: RebalanceResponse,
    client: Client,
    request: RebalanceRequest,
}

impl MovePlan {
    /// Returns the number of moves that help, also of those that --max-moves leaves out.
    pub(super) async fn left(&self) -> Result<usize> {
        if !self.answer.capped {
            return Ok(self.answer.moves.len());
        }
        let request = RebalanceRequest {
            max_moves: 0,
            ..self.request.clone()
        };
        Ok(self.client.call(request).await?.moves.len())
    }
}

impl RebalanceCommand {
    /// Asks for a plan and prints it.
    pub(super) async fn show(&self) -> Result<Exit> {
        let answer = self.plan(0).await?.answer;
        self.print(&answer)?;
        let is_even = answer.workloads.iter().all(|it| it.blockers.is_empty());
        Ok(Exit::of(is_even))
    }

    fn request(&self, asked: &OpenedWorkloads<'_>) -> RebalanceRequest {
        let rules = self.evictions.rules(asked.opened.objects.clone());
        RebalanceRequest {
            snapshot: self.answer.state.snapshot().to_owned(),
            namespace: asked.namespace.clone(),
            workload: asked.workload.clone(),
            selector: self.about.selector.clone(),
            soft: self.soft,
            topology_key: self.by.clone().unwrap_or_default(),
            max_moves: self.max_moves.unwrap_or(0),
            max_moves_per_workload: self.max_moves_per_workload.unwrap_or(0),
            max_moves_per_node: self.max_moves_per_node.unwrap_or(0),
            max_unavailable: rules.max_unavailable,
            bare: rules.bare,
            stay: rules.stay,
            stay_selector: rules.stay_selector,
            min_revision: self.answer.at_least.min_revision,
            max_domains: self.answer.output.max_domains_of_plan(),
            ..Default::default()
        }
    }

    /// The cluster in which the moves are made.
    ///
    /// # Errors
    /// No cluster was named, or it cannot be found.
    pub(super) async fn cluster(&self) -> Result<ClusterClient> {
        anyhow::ensure!(
            self.answer.state.asks_cluster(),
            "--apply and --dry-run are about moves in a cluster: say --from-cluster, or which with --context or --kubeconfig"
        );
        let target = self.answer.state.cluster.target();
        Ok(target.connect(OnRefusal::Report).await?)
    }

    /// Reads the state, and plans the remaining moves after `made` moves. A plan of nothing has to be
    /// about something.
    pub(super) async fn plan(&self, made: usize) -> Result<MovePlan> {
        let asked = self.about.open(&self.answer.state).await?;
        let client = &asked.opened.client;
        let mut request = self.request(&asked);
        if request.max_moves > 0 {
            let made = i32::try_from(made).unwrap_or(i32::MAX);
            request.max_moves = request.max_moves.saturating_sub(made).max(1);
        }
        if let Some(stay) = &self.evictions.stay {
            let scope = PodScope {
                namespace: self.about.namespace.as_deref(),
                selector: Some(stay),
            };
            scope
                .ensure_matched(client, self.answer.state.snapshot())
                .await?;
        }
        let answer = client.call(request.clone()).await;
        let answer = asked.or_nearest(answer).await?;
        if self.about.object.is_none() && answer.workloads.is_empty() {
            asked.ensure_matched().await?;
        }
        Ok(MovePlan {
            answer,
            client: asked.opened.client,
            request,
        })
    }

    /// Returns whether no more moves may be made after this number.
    pub(super) fn is_capped(&self, made: usize) -> bool {
        let most = self.max_moves.and_then(|most| usize::try_from(most).ok());
        most.is_some_and(|most| made >= most)
    }

    /// Prints a plan.
    pub(super) fn print(&self, answer: &RebalanceResponse) -> Result<()> {
        let page = || render::rebalance(&self.answer.state.source(), answer);
        let names = || {
            let moves = answer.moves.iter();
            moves
                .map(|it| format!("{}/{}", it.namespace, it.pod))
                .collect()
        };
        self.answer.output.print(answer, page, names)
    }
}

/// The pods that stay by their annotations or local storage, which a server does not know; by name.
fn staying(objects: &LoadedObjects, moves_local_storage: bool) -> Vec<StayingPod> {
    let all = objects.staying.iter();
    let all = all.filter(|(_, why)| !(moves_local_storage && why.is_local_storage()));
    let mut all: Vec<StayingPod> = all
        .map(|((namespace, name), why)| StayingPod {
            namespace: namespace.clone(),
            name: name.clone(),
            reason: why.to_string(),
        })
        .collect();
    all.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    all
}
