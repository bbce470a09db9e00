//! The ReplicaSet of the next pod of a Deployment: an existing one, or a new one for a new
//! template.

use serde_json::{Map, Value, json};

use super::controller::NEXT;
use super::item::{Item, text};
use super::lean::MAX_REPLICAS;
use super::pod_facts::time;
use super::source::InputSource;
use super::workload::{NextRevision, workload_pod};
use super::{ManifestError, admission::Admission, object};
use evenkeel_core::matching::names;
use evenkeel_core::matching::revisions::DEPLOYMENT_HASH;
use evenkeel_core::proto::v1::{DeploymentFacts, ReplicaSetFacts};

/// `maxSurge` of a Deployment that does not say it.
const MAX_SURGE: &str = "25%";

/// The ReplicaSets of one Deployment.
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

    /// The existing ReplicaSet of the Deployment's next pod. It has the Deployment's template, so
    /// its pod has the same hash and owner as the real next pod.
    ///
    /// Fields that no decision reads are not compared, so several ReplicaSets may match. Then the
    /// youngest that is not scaled down counts.
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

    /// The facts that the controller of a Deployment reads when it is scaled down by `count`; `None`
    /// if no ReplicaSets are known, or the strategy is not RollingUpdate.
    pub(super) fn facts(&self, deployment: &Value, count: i32) -> Option<DeploymentFacts> {
        let spec = &deployment["spec"];
        if self.0.is_empty() || text(&spec["strategy"], "type") == "Recreate" {
            return None;
        }
        let replicas = number(&spec["replicas"]).unwrap_or(1);
        let set = |(item, _): &(Item, InputSource)| {
            let (metadata, set) = (&item.value["metadata"], &item.value);
            let most = text(&metadata["annotations"], MAX_REPLICAS).parse().ok();
            ReplicaSetFacts {
                hash: text(&metadata["labels"], DEPLOYMENT_HASH).to_owned(),
                replicas: number(&set["spec"]["replicas"]).unwrap_or(1),
                max_replicas: most.filter(|most: &i32| *most >= 0).unwrap_or(0),
                creation_time: time(&metadata["creationTimestamp"]),
            }
        };
        let mut sets: Vec<ReplicaSetFacts> = self.0.iter().map(set).collect();
        sets.retain(|it| !it.hash.is_empty());
        Some(DeploymentFacts {
            replicas,
            max_surge: max_surge(&spec["strategy"], replicas.saturating_sub(count).max(0)),
            replica_sets: sets,
        })
    }

    /// The next pod of a Deployment, if no ReplicaSet has its template.
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

/// The ReplicaSet that a Deployment creates for a new template. Its hash differs from that of any
/// other.
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
            labels.insert(DEPLOYMENT_HASH.to_owned(), NEXT.into());
        }
    }
    replica_set
}

fn number(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

/// The pods that a rollout may have beyond `replicas`. A percentage is rounded up.
fn max_surge(strategy: &Value, replicas: i32) -> i32 {
    let written = &strategy["rollingUpdate"]["maxSurge"];
    let of_percent = |text: &str| {
        let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
        i32::try_from((percent * i64::from(replicas) + 99) / 100).ok()
    };
    let surge = number(written).or_else(|| of_percent(written.as_str().unwrap_or(MAX_SURGE)));
    surge.unwrap_or(0).max(0)
}

/// A pod template without the label [`DEPLOYMENT_HASH`].
fn without_hash(mut template: Value) -> Value {
    let labels = template.pointer_mut("/metadata/labels");
    if let Some(labels) = labels.and_then(Value::as_object_mut) {
        Map::remove(labels, DEPLOYMENT_HASH);
    }
    template
}
