//! The ReplicaSets of a Deployment or Rollout, and that of its next pod: an existing one, or a new one
//! for a new template.

use serde_json::{Map, Value, json};

use super::controller::NEXT;
use super::item::{Item, text};
use super::naming::ObjectName;
use super::source::InputSource;
use super::workload::{NextRevision, workload_pod};
use super::{ManifestError, admission::Admission, object};
use evenkeel_core::matching::names;
use evenkeel_core::matching::revisions::template_hash_label;

/// The ReplicaSets of one Deployment or Rollout.
#[derive(Debug, Default)]
pub(super) struct ReplicaSets(Vec<(Item, InputSource)>);

impl ReplicaSets {
    /// Keeps an object if it is a ReplicaSet of the object called `name`, which has a kind and a
    /// namespace.
    pub(super) fn offer(&mut self, item: &Item, source: &InputSource, name: &ObjectName) {
        let metadata = &item.value["metadata"];
        let namespace = names::namespace_or_default(text(metadata, "namespace"));
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let mut owners = owners.map(|owner| (text(owner, "kind"), text(owner, "name")));
        if text(&item.value, "kind") == "ReplicaSet"
            && owners.any(|(kind, called)| name.is_of(kind, namespace, called))
        {
            self.0.push((item.clone(), source.clone()));
        }
    }

    /// The ReplicaSets.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|(item, _)| &item.value)
    }

    /// The existing ReplicaSet of the next pod of a Deployment or Rollout. It has the same template,
    /// so its pod has the same hash and owner as the real next pod.
    ///
    /// Fields that no decision reads are not compared, so several ReplicaSets may match. Then the
    /// youngest that is not scaled down counts.
    pub(super) fn current(&self, owner: &Item) -> Option<(Item, InputSource)> {
        let template = owner.value.pointer("/spec/template")?;
        let label = template_hash_label(text(&owner.value, "kind"))?;
        let same = self.0.iter().filter(|(item, _)| {
            let other = item.value.pointer("/spec/template").cloned();
            other.map(|it| without(it, label)).as_ref() == Some(template)
        });
        let current = same.max_by_key(|(item, _)| {
            let replicas = item.value.pointer("/spec/replicas").and_then(Value::as_i64);
            let created = text(&item.value["metadata"], "creationTimestamp");
            (replicas.unwrap_or(1) > 0, created)
        });
        current.cloned()
    }

    /// The next pod of a Deployment or Rollout, if no ReplicaSet has its template.
    pub(super) fn next(
        &self,
        owner: &Item,
        admission: &Admission,
        source: &InputSource,
    ) -> Result<NextRevision, ManifestError> {
        let replica_set = Item {
            value: new_replica_set(&owner.value),
            origin: owner.origin,
        };
        Ok(NextRevision {
            pod: workload_pod(replica_set.clone(), admission, source)?.pod,
            replica_set: object::change(replica_set, source)?,
            has_others: !self.0.is_empty(),
        })
    }
}

/// The ReplicaSet that a Deployment or Rollout creates for a new template. Its hash differs from that
/// of any other.
fn new_replica_set(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    let label = template_hash_label(text(owner, "kind")).unwrap_or_default();
    let mut replica_set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": text(metadata, "namespace"),
            "name": format!("{}-{NEXT}", text(metadata, "name")),
        },
        "spec": {
            "selector": owner["spec"]["selector"],
            "template": owner["spec"]["template"],
        },
    });
    for labels in [
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        if let Some(Value::Object(labels)) = replica_set.pointer_mut(labels) {
            labels.insert(label.to_owned(), NEXT.into());
        }
    }
    replica_set
}

/// A pod template without a label.
fn without(mut template: Value, label: &str) -> Value {
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        Map::remove(labels, label);
    }
    template
}
