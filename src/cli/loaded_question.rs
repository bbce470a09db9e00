//! A question whose files are read, on a client that can be asked.

use anyhow::Result;

use super::backend::Client;
use super::what_if::Overlay;
use crate::manifest::WorkloadPod;
use crate::proto::v1::{FilterRequest, NodeNames, ObjectMeta, ObjectReference, Pod, View};

/// A question that is ready to be asked: its files are read, and somebody
/// listens.
pub(crate) struct LoadedQuestion {
    /// The pod and where it is from.
    pub(crate) workload: WorkloadPod,
    /// What is supposed.
    pub(crate) overlay: Overlay,
    /// A client of what is asked.
    pub(crate) client: Client,
    /// What it is about, for a person.
    pub(crate) title: String,
    /// Whether the pod is in the snapshot, and taken out of it for the answer.
    pub(crate) taken_out: bool,
}

impl LoadedQuestion {
    /// Takes the pod out of the snapshot, if that has it: one more of it is never
    /// asked about, and it must not count against itself.
    /// It is looked for once the snapshot has reached `min_revision`.
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
            // Where it runs is not where it has to.
            let spec = self.workload.pod.spec.as_mut();
            spec.into_iter().for_each(|spec| spec.node_name.clear());
            self.overlay.changes.extend(itself.changes);
            self.overlay.names.push("the pod itself".to_owned());
        }
        Ok(())
    }
}
