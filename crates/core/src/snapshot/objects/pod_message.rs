//! Writes a pod of a change as a message, for a journal, from its compiled form. So nothing is
//! decoded for that, and the journal has the same content as the snapshot.

use prost::Message;

use super::asks::AskedFields;
use super::pod::CompiledPod;
use super::pod_parts::field;
use crate::proto::encoding::{Fields, Sink};

/// A pod as a message.
pub struct PodMessage<'a> {
    pod: &'a CompiledPod,
    uid: String,
    asked: Option<&'a AskedFields>,
}

struct MetadataFields<'m>(&'m PodMessage<'m>);
struct SpecFields<'m>(&'m PodMessage<'m>);
struct StatusFields<'m>(&'m PodMessage<'m>);
struct LabelFields<'m>(&'m str, &'m str);

impl<'a> PodMessage<'a> {
    /// The message of a pod.
    pub fn of(pod: &'a CompiledPod) -> Self {
        Self {
            pod,
            uid: pod.life.uid(),
            asked: pod
                .asks()
                .map(|asks| asks.fields(pod.name(), pod.node_name())),
        }
    }
}

impl Fields for PodMessage<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.message(field::METADATA, &MetadataFields(self));
        to.message(field::SPEC, &SpecFields(self));
        to.message(field::STATUS, &StatusFields(self));
    }
}

impl Fields for MetadataFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        let PodMessage { pod, uid, asked } = self.0;
        to.text(field::NAME, pod.name());
        to.text(field::NAMESPACE, pod.namespace());
        to.text(field::UID, uid);
        if let Some((seconds, nanos)) = pod.life.deletion() {
            let time = pbjson_types::Timestamp { seconds, nanos };
            to.item(field::DELETION_TIMESTAMP, &time.encode_to_vec());
        }
        for (key, value) in pod.labels().texts() {
            to.message(field::LABELS, &LabelFields(key, value));
        }
        to.raw(asked.map_or(&[], |asked| &asked.metadata));
    }
}

impl Fields for SpecFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.text(field::NODE_NAME, self.0.pod.node_name());
        to.raw(self.0.asked.map_or(&[], |asked| &asked.spec));
    }
}

impl Fields for StatusFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        let life = &self.0.pod.life;
        to.text(field::PHASE, life.phase.as_str());
        to.text(field::NOMINATED_NODE_NAME, life.nominated_node());
    }
}

impl Fields for LabelFields<'_> {
    fn put<S: Sink>(&self, to: &mut S) {
        to.text(field::KEY, self.0);
        to.text(field::VALUE, self.1);
    }
}
