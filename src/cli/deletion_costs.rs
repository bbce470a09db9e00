//! `evenkeel deletion-costs`: makes ReplicaSets delete the worst spread pods first.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tracing::{info, warn};

use super::backend::Client;
use super::exit::{Exit, RefusedCall};
use super::live_names;
use super::matched::PodScope;
use super::output;
use super::source::{self, QuestionScope};
use super::spread;
use crate::kubernetes::{ClusterClient, CostWrite, DeletionCost, OnRefusal, Target};
use crate::log::lease::Lease;
use crate::plan::deletion_costs;
use crate::proto::v1::{
    DescribeSpreadRequest, PodFacts, RankRemovalsRequest, Removal, WorkloadName, WorkloadSpread,
};
use crate::server::config::LogFormat;
use crate::server::logging;
use crate::visible;

/// The controllers that read deletion costs.
const READERS: [&str; 3] = ["Deployment", "ReplicaSet", "ReplicationController"];

/// The time between two checks for a new revision of the snapshot.
const LOOK: Duration = Duration::from_secs(2);

/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(10);

/// Flags of `evenkeel deletion-costs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Pods of Deployments, ReplicaSets and ReplicationControllers that have spread constraints get the
annotation controller.kubernetes.io/pod-deletion-cost, so that whoever scales them down keeps them
spread. It is written by server-side apply, of few pods, and never where somebody else has written
one. A line says of each pod what it got.

Examples:
  evenkeel deletion-costs -n shop --from-cluster --dry-run   says what would be written
  evenkeel deletion-costs --from-cluster --watch             until it is interrupted

Exit codes:
  0  the pods have their values
  2  the cluster refused it
  3  the cluster could not be reached")]
pub(crate) struct DeletionCostsCommand {
    /// Namespace; by default all
    #[arg(short, long, value_name = "NAMESPACE", add = live_names::namespaces())]
    namespace: Option<String>,

    /// Do it again whenever pods have changed, until interrupted
    #[arg(short, long, conflicts_with = "dry_run")]
    watch: bool,

    /// Have the API server say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    state: source::SnapshotSource,
}

impl DeletionCostsCommand {
    /// Writes the values, once or until the command is interrupted.
    pub(crate) async fn run(self) -> Result<Exit> {
        anyhow::ensure!(
            self.state.asks_cluster(),
            "deletion costs are written in a cluster: say --from-cluster, or which with --context or --kubeconfig"
        );
        let namespace = self.namespace.as_deref();
        self.state
            .is_about(QuestionScope::of(namespace, QuestionScope::All));
        let client = match self.watch {
            true => self.state.follow().await?,
            false => self.state.client().await?,
        };
        let scope = PodScope {
            namespace,
            selector: None,
        };
        scope.ensure_matched(&client, self.state.snapshot()).await?;
        let costs = WantedCosts {
            target: self.state.cluster.target(),
            client,
            snapshot: self.state.snapshot().to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            is_dry_run: self.dry_run,
            lease: None,
        };
        let told = |namespace: &str, pod: &str, cost: i32| {
            let line = visible::text(&format!("{namespace}/{pod} {cost}")).into_owned();
            // The values are written to the cluster even if standard output is closed.
            let _ = writeln!(anstream::stdout(), "{line}");
        };
        if self.watch {
            logging::init(LogFormat::Auto, None).context("logging")?;
            match costs.keep(told).await {}
        }
        let tally = costs.keeper().await?.bring_up_to_date(told).await?;
        match tally.foreign {
            0 => {}
            1 => output::warn("1 pod keeps what somebody else wrote"),
            pods => output::warn(&format!("{pods} pods keep what somebody else wrote")),
        }
        Ok(Exit::of(true))
    }
}

/// The deletion costs to keep up to date.
pub(super) struct WantedCosts {
    /// The cluster of the pods.
    pub(super) target: Target,
    /// The server that decides.
    pub(super) client: Client,
    /// The snapshot that the server decides on, which is equal to the cluster.
    pub(super) snapshot: String,
    /// The namespace of the pods; empty for all.
    pub(super) namespace: String,
    /// True if nothing may be changed.
    pub(super) is_dry_run: bool,
    /// The lease, if several servers share the right to write.
    pub(super) lease: Option<Arc<Lease>>,
}

impl WantedCosts {
    /// Brings the values up to date whenever the snapshot has changed. Calls `told` with namespace,
    /// pod and value for each written value.
    pub(super) async fn keep(&self, told: impl Fn(&str, &str, i32)) -> Infallible {
        loop {
            let Err(error) = self.keep_written(&told).await;
            let error = format!("{error:#}");
            warn!(snapshot = self.snapshot, error, "deletion costs begin anew");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn keep_written(&self, told: impl Fn(&str, &str, i32)) -> Result<Infallible> {
        let mut keeper = self.keeper().await?;
        let mut done = None;
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.may_write() {
                // Another server writes, so the known values become outdated.
                keeper.known.clear();
                done = None;
                continue;
            }
            let Ok(snapshot) = self.client.describe(&self.snapshot).await else {
                // The snapshot is not complete yet.
                continue;
            };
            let now = Some((snapshot.epoch, snapshot.revision));
            if done != now {
                let tally = keeper.bring_up_to_date(&told).await?;
                let (written, foreign) = (tally.written, tally.foreign);
                if written > 0 {
                    info!(snapshot = self.snapshot, written, foreign, "deletion costs");
                }
                done = now.filter(|_| self.may_write());
            }
        }
    }

    /// Connects to the cluster.
    async fn keeper(&self) -> Result<CostKeeper<'_>> {
        Ok(CostKeeper {
            cluster: self.target.clone().connect(OnRefusal::Retry).await?,
            wanted: self,
            known: HashMap::new(),
        })
    }

    /// Returns whether this server may write. The lease may end during a pass.
    fn may_write(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_held())
    }
}

/// Writes deletion costs of pods in a cluster, by decisions on a snapshot of the cluster.
struct CostKeeper<'w> {
    cluster: ClusterClient,
    wanted: &'w WantedCosts,
    /// The known deletion costs of pods, by uid.
    known: HashMap<String, DeletionCost>,
}

/// The result of a pass over all workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CostTally {
    /// The number of pods whose value was written.
    written: usize,
    /// The number of pods with a value from another field manager.
    foreign: usize,
}

impl CostKeeper<'_> {
    /// Writes values by which the worst spread pods are deleted first, for workloads with their own
    /// spread constraints. Calls `told` with namespace, pod and value for each written value.
    ///
    /// # Errors
    /// The reason why a request failed.
    async fn bring_up_to_date(
        &mut self,
        mut told: impl FnMut(&str, &str, i32),
    ) -> Result<CostTally> {
        let (mut tally, mut listed, mut seen) =
            (CostTally::default(), HashSet::new(), HashSet::new());
        for workload in &self.workloads().await? {
            let pods = self.in_order(workload, &[]).await?;
            let is_known = pods.iter().all(|pod| self.known.contains_key(&pod.uid));
            if !is_known && listed.insert(workload.namespace.clone()) {
                let costs = self.cluster.deletion_costs(&workload.namespace).await?;
                self.known.extend(costs);
            }
            // With the known values, pods that are equally well spread keep their order.
            let mut pods = self.in_order(workload, &pods).await?;
            // Pods with values of other field managers, and unknown pods, which are gone, are left
            // out.
            pods.retain(|pod| {
                let cost = self.known.get(&pod.uid);
                tally.foreign += usize::from(cost.is_some_and(|cost| cost.is_foreign));
                seen.insert(pod.uid.clone());
                cost.is_some_and(|cost| !cost.is_foreign)
            });
            let now = pods.iter().map(|pod| self.known[&pod.uid].value);
            let now: Vec<Option<i32>> = now.collect();
            for ((pod, now), cost) in pods.iter().zip(&now).zip(deletion_costs(&now)) {
                if *now == Some(cost) {
                    continue;
                }
                if !self.wanted.may_write() {
                    return Ok(tally);
                }
                let place = (&*workload.namespace, &*pod.name, &*pod.uid);
                let written = self
                    .cluster
                    .write_deletion_cost(place, cost, self.wanted.is_dry_run);
                let is_foreign = match written.await? {
                    CostWrite::Written => {
                        told(&workload.namespace, &pod.name, cost);
                        tally.written += 1;
                        false
                    }
                    CostWrite::Kept => {
                        tally.foreign += 1;
                        true
                    }
                    CostWrite::Gone => continue,
                };
                let value = Some(cost);
                let known = DeletionCost { value, is_foreign };
                self.known.insert(pod.uid.clone(), known);
            }
        }
        self.known.retain(|uid, _| seen.contains(uid));
        Ok(tally)
    }

    /// Lists the workloads whose controllers read deletion costs.
    async fn workloads(&self) -> Result<Vec<WorkloadSpread>> {
        let mut request = DescribeSpreadRequest {
            snapshot: self.wanted.snapshot.clone(),
            namespace: self.wanted.namespace.clone(),
            max_domains: Some(1),
            page_size: 1,
            ..DescribeSpreadRequest::default()
        };
        // With a topology key all workloads are listed, otherwise only those with violations.
        let client = &self.wanted.client;
        let keys = client.call(request.clone()).await?.topology_keys;
        let Some(key) = keys.into_iter().next() else {
            return Ok(Vec::new());
        };
        (request.topology_key, request.page_size) = (key.key, 0);
        let mut workloads = spread::ask_all(client, request).await?.workloads;
        workloads.retain(|it| READERS.contains(&&*it.kind) && it.pod_count > 1);
        Ok(workloads)
    }

    /// Returns the pods of a workload in the order in which they should be deleted. Sends the known
    /// values of the `found` pods. Empty if the workload has no constraints of its own, or is gone.
    async fn in_order(&self, workload: &WorkloadSpread, found: &[Removal]) -> Result<Vec<Removal>> {
        let value = |uid: &str| self.known.get(uid)?.value;
        let facts = found.iter().map(|pod| PodFacts {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            // Readiness is left out: a ReplicaSet deletes pods that are not ready first anyway.
            ready: true,
            // A new pod goes first, so that the values of other pods need not change.
            deletion_cost: value(&pod.uid).unwrap_or(i32::MIN),
            ..PodFacts::default()
        });
        let request = RankRemovalsRequest {
            snapshot: self.wanted.snapshot.clone(),
            namespace: workload.namespace.clone(),
            workload: Some(WorkloadName {
                kind: workload.kind.clone(),
                name: workload.name.clone(),
                selector: None,
            }),
            count: i32::try_from(workload.pod_count).unwrap_or(i32::MAX),
            pods: facts.collect(),
            max_domains: Some(1),
            ..RankRemovalsRequest::default()
        };
        match self.wanted.client.call(request).await {
            Ok(answer) if answer.before.iter().all(|it| it.from_defaults) => Ok(Vec::new()),
            Ok(answer) => Ok(answer.removals),
            Err(error) if RefusedCall::is_without_pods(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
