//! The ReplicaSet by which a Deployment makes its next pod: an existing one, or the one that it
//! creates for a new template.

use serde_json::{Map, Value, json};

use super::controller::NEXT;
use super::item::{Item, text};
use super::source::InputSource;
use super::workload::{NextRevision, workload_pod};
use super::{ManifestError, admission::Admission, object};
use crate::matching::names;

/// The label that distinguishes the pods of a Deployment's ReplicaSets.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The ReplicaSets that one Deployment made.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets(Vec<(Item, InputSource)>);

impl ReplicaSets {
    /// Keeps an object if it is a ReplicaSet of the Deployment called `name`.
    pub(super) fn offer(&mut self, item: &Item, source: &InputSource, namespace: &str, name: &str) {
        let metadata = &item.value["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut owners = owners.filter(|owner| text(owner, "kind") == "Deployment");
        if text(&item.value, "kind") == "ReplicaSet"
            && names::namespace_or_default(text(metadata, "namespace")) == namespace
            && owners.any(|owner| text(owner, "name") == name)
        {
            self.0.push((item.clone(), source.clone()));
        }
    }

    /// The ReplicaSet from which the Deployment makes its next pod: its template is the
    /// Deployment's, so its pod has the hash and the owner that the real one gets.
    ///
    /// Fields that no decision reads are not compared, so several may have the same template. Then
    /// it is the youngest that is not scaled down.
    pub(super) fn current(&self, deployment: &Item) -> Option<(Item, InputSource)> {
        let template = deployment.value.pointer("/spec/template")?;
        let same = self.0.iter().filter(|(item, _)| {
            let other = item.value.pointer("/spec/template").cloned();
            other.map(without_hash).as_ref() == Some(template)
        });
        let current = same.max_by_key(|(item, _)| {
            let replicas = item.value.pointer("/spec/replicas").and_then(Value::as_i64);
            let created = text(&item.value["metadata"], "creationTimestamp");
            (replicas.unwrap_or(1) > 0, created)
        });
        current.cloned()
    }

    /// The next pod of a Deployment whose template no ReplicaSet has.
    pub(super) fn next(
        &self,
        deployment: &Item,
        admission: &Admission,
        source: &InputSource,
    ) -> Result<NextRevision, ManifestError> {
        let replica_set = Item {
            value: new_replica_set(&deployment.value),
            origin: deployment.origin,
        };
        Ok(NextRevision {
            pod: workload_pod(replica_set.clone(), admission, source)?.pod,
            replica_set: object::change(replica_set, source)?,
            has_others: !self.0.is_empty(),
        })
    }
}

/// The ReplicaSet that a Deployment creates for its template. No other one has its hash.
fn new_replica_set(deployment: &Value) -> Value {
    let metadata = &deployment["metadata"];
    let mut replica_set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "name": format!("{}-{NEXT}", text(metadata, "name")),
        },
        "spec": {
            "selector": deployment["spec"]["selector"],
            "template": deployment["spec"]["template"],
        },
    });
    for labels in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        if let Some(Value::Object(labels)) = replica_set.pointer_mut(labels) {
            labels.insert(TEMPLATE_HASH.to_owned(), NEXT.into());
        }
    }
    replica_set
}

/// A pod template without the label that distinguishes the pods of ReplicaSets.
fn without_hash(mut template: Value) -> Value {
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        Map::remove(labels, TEMPLATE_HASH);
    }
    template
}
