//! Keeps the deletion costs of pods in the order in which the pods should be deleted.

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

/// Writes deletion costs of pods in a cluster, by decisions on a snapshot of the cluster.
pub(super) struct CostKeeper {
    /// The cluster.
    pub(super) cluster: ClusterClient,
    /// The server that decides.
    pub(super) client: Client,
    /// The snapshot of the cluster on the server.
    pub(super) snapshot: String,
    /// The namespace of the pods; empty for all.
    pub(super) namespace: String,
    /// True if nothing may be changed.
    pub(super) is_dry_run: bool,
    /// The lease, if several servers share the right to write.
    pub(super) lease: Option<Arc<Lease>>,
    /// The known deletion costs of pods, by uid.
    pub(super) known: HashMap<String, DeletionCost>,
}

/// The result of a pass over all workloads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CostTally {
    /// The number of pods whose value was written.
    pub(super) written: usize,
    /// The number of pods with a value from another field manager.
    pub(super) foreign: usize,
}

impl CostKeeper {
    /// Writes values by which the worst spread pods are deleted first, for workloads with their own
    /// spread constraints. Calls `told` with namespace, pod and value for each written value.
    ///
    /// # Errors
    /// The reason why a request failed.
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

    /// Returns whether this server may write. The lease may end during a pass.
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
        // With a topology key all workloads are listed, otherwise only those with violations.
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

    /// Returns the pods of a workload in the order in which they should be deleted. Sends the known
    /// values of the `found` pods. Empty if the workload has no constraints of its own, or is gone.
    async fn in_order(&self, workload: &WorkloadSpread, found: &[Removal]) -> Result<Vec<Removal>> {
        let facts = found.iter().map(|pod| PodFacts {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            // Readiness is left out: a ReplicaSet deletes pods that are not ready first anyway.
            ready: true,
            // A new pod goes first, so that the values of other pods need not change.
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
