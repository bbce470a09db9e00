//! A question that is ready to be asked.

use std::sync::{Arc, OnceLock};

use anyhow::Result;

use super::backend::Client;
use super::stored::PodsThere;
use super::what_if::Overlay;
use crate::manifest::{NotCounted, WorkloadPod};
use crate::proto::v1::{FilterRequest, NodeNames, ObjectMeta, ObjectReference, Pod, View};

/// A question that is ready to be asked: its files are read, and the client is connected.
pub(crate) struct LoadedQuestion {
    /// The pod and the object that it comes from.
    pub(crate) workload: WorkloadPod,
    /// Other workloads of its file that are placed with it.
    pub(crate) others: Vec<WorkloadPod>,
    /// The changes that the question assumes.
    pub(crate) overlay: Overlay,
    /// The client that answers.
    pub(crate) client: Client,
    /// True if the pod is in the snapshot and is deleted by the overlay.
    pub(crate) taken_out: bool,
    /// The pods of the first workload that was asked for, once they are known.
    pub(crate) there: OnceLock<Arc<PodsThere>>,
    /// The nodes that are nearest to a candidate that does not exist, once they are known.
    pub(crate) nearest: OnceLock<String>,
}

impl LoadedQuestion {
    /// All workloads of the question, in the order of its file.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &WorkloadPod> {
        [&self.workload].into_iter().chain(&self.others)
    }

    /// The unknown additions of admission to the pods of all workloads.
    pub(crate) fn not_counted(&self) -> impl Iterator<Item = &NotCounted> {
        self.workloads().flat_map(|workload| &workload.missing)
    }

    /// If the snapshot has the pod, deletes it in the overlay, so that it does not count against
    /// itself. Waits until the snapshot has reached `min_revision`.
    pub(crate) async fn take_out(
        &mut self,
        pod: ObjectReference,
        snapshot: &str,
        min_revision: i64,
    ) -> Result<()> {
        let mut itself = Overlay::default();
        itself.delete(pod.clone());
        let nobody = Pod {
            metadata: Some(ObjectMeta {
                namespace: pod.namespace,
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = FilterRequest {
            snapshot: snapshot.to_owned(),
            pod: Some(nobody),
            candidates: Some(NodeNames::default()),
            view: View::Basic.into(),
            min_revision,
            overlay: itself.changes.clone(),
            ..Default::default()
        };
        let names = || itself.names.clone();
        let answer = self.client.call_about(request, names).await?;
        self.taken_out = answer.unknown_deletes.is_empty();
        if self.taken_out {
            // The pod runs on this node, but need not run there again.
            let spec = self.workload.pod.spec.as_mut();
            spec.into_iter().for_each(|spec| spec.node_name.clear());
            self.overlay.changes.extend(itself.changes);
            self.overlay.names.push("the pod itself".to_owned());
        }
        Ok(())
    }
}
