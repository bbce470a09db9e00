//! Keeps the deletion costs of pods in the order in which the pods should go.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Result;

use super::backend::Client;
use super::exit::RefusedCall;
use super::spread;
use crate::kubernetes::{ClusterClient, CostWrite, DeletionCost};
use crate::log::lease::Lease;
use crate::plan::deletion_costs;
use crate::proto::v1::{
    DescribeSpreadRequest, PodFacts, RankRemovalsRequest, Removal, WorkloadName, WorkloadSpread,
};

/// The controllers that read deletion costs.
const READERS: [&str; 3] = ["Deployment", "ReplicaSet", "ReplicationController"];

/// Writes deletion costs of pods in a cluster, by the decisions on a snapshot of it.
pub(super) struct CostKeeper {
    /// The cluster.
    pub(super) cluster: ClusterClient,
    /// The server that decides.
    pub(super) client: Client,
    /// The snapshot that it decides on.
    pub(super) snapshot: String,
    /// The namespace of the pods; empty for all.
    pub(super) namespace: String,
    /// True if nothing is to be changed.
    pub(super) is_dry_run: bool,
    /// The right to write, where servers share it.
    pub(super) lease: Option<Arc<Lease>>,
    /// The known deletion costs of pods, by uid.
    pub(super) known: HashMap<String, DeletionCost>,
}

/// The result of a pass over all workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CostTally {
    /// The number of pods that got another value.
    pub(super) written: usize,
    /// The number of pods with a value from another field manager.
    pub(super) foreign: usize,
}

impl CostKeeper {
    /// Gives pods of workloads with spread constraints values by which the worst spread pods are
    /// deleted first. `told` is called for each value that is written: namespace, pod and value.
    ///
    /// # Errors
    /// The reason why that failed.
    pub(super) async fn bring_up_to_date(
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
            // Among pods that are spread alike, those go first that did before.
            let mut pods = self.in_order(workload, &pods).await?;
            // Values of other field managers stay, and pods that are gone need none.
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
                if !self.may_write() {
                    return Ok(tally);
                }
                let place = (&*workload.namespace, &*pod.name, &*pod.uid);
                let written = self
                    .cluster
                    .write_deletion_cost(place, cost, self.is_dry_run);
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

    /// Returns whether no other server writes. A pass may outlast the right to it.
    pub(super) fn may_write(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_held())
    }

    /// Lists the workloads whose controllers read deletion costs.
    async fn workloads(&self) -> Result<Vec<WorkloadSpread>> {
        let mut request = DescribeSpreadRequest {
            snapshot: self.snapshot.clone(),
            namespace: self.namespace.clone(),
            max_domains: Some(1),
            page_size: 1,
            ..DescribeSpreadRequest::default()
        };
        // With a key all workloads are listed, otherwise those with violations.
        let keys = self.client.call(request.clone()).await?.topology_keys;
        let Some(key) = keys.into_iter().next() else {
            return Ok(Vec::new());
        };
        (request.topology_key, request.page_size) = (key.key, 0);
        let mut workloads = spread::ask_all(&self.client, request).await?.workloads;
        workloads.retain(|it| READERS.contains(&&*it.kind) && it.pod_count > 1);
        Ok(workloads)
    }

    /// Returns the known deletion cost of a pod, if it has one.
    fn value(&self, uid: &str) -> Option<i32> {
        self.known.get(uid)?.value
    }

    /// Returns the pods of a workload in the order in which they should go, with the known facts
    /// about those that were `found`; none where the workload has no constraints of its own, or is
    /// gone.
    async fn in_order(&self, workload: &WorkloadSpread, found: &[Removal]) -> Result<Vec<Removal>> {
        let facts = found.iter().map(|pod| PodFacts {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            // A pod that is not ready goes first anyway.
            ready: true,
            // A new pod goes first, so that the values of the others stay.
            deletion_cost: self.value(&pod.uid).unwrap_or(i32::MIN),
            ..PodFacts::default()
        });
        let request = RankRemovalsRequest {
            snapshot: self.snapshot.clone(),
            namespace: workload.namespace.clone(),
            workload: Some(WorkloadName {
                kind: workload.kind.clone(),
                name: workload.name.clone(),
            }),
            count: i32::try_from(workload.pod_count).unwrap_or(i32::MAX),
            pods: facts.collect(),
            max_domains: Some(1),
            ..RankRemovalsRequest::default()
        };
        match self.client.call(request).await {
            Ok(answer) if answer.before.iter().all(|it| it.from_defaults) => Ok(Vec::new()),
            Ok(answer) => Ok(answer.removals),
            Err(error) if RefusedCall::is_without_pods(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
