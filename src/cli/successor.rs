//! Finds the pod with which a controller replaces an evicted pod.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::cluster;
use crate::kubernetes::{ApiResource, ClusterClient};
use crate::proto::v1::PodMove;
use crate::snapshot::{ObjectKind, OwnerKind};

/// The time between two checks for a ready pod, or for a budget that allows an eviction.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

const REPLICA_SETS: ObjectKind = ObjectKind::Owner(OwnerKind::ReplicaSet);

/// A pod that replaced another.
#[derive(Debug)]
pub(super) struct SuccessorPod {
    /// The pod's name.
    pub(super) name: String,
    /// The name of its node.
    pub(super) node: String,
}

/// The controllers that may create the successor of a pod, and the pods that existed before.
#[derive(Debug)]
pub(super) struct SuccessorMaker {
    namespace: String,
    /// The uid of the pod's controller.
    controller: String,
    /// The uid of the controller's own controller, if the controller is a ReplicaSet that has one.
    /// During a rollout another ReplicaSet may create the successor.
    above: Option<String>,
    /// The uids of the pods that existed in the namespace.
    known: HashSet<String>,
}

impl SuccessorMaker {
    /// Looks up the controller of a pod; `None` if it has none, so that there is no successor.
    pub(super) async fn of(cluster: &ClusterClient, it: &PodMove) -> Result<Option<Self>> {
        let pods = listed(cluster, ObjectKind::Pod, &it.namespace).await?;
        let own = pods.iter().find(|pod| pod["metadata"]["name"] == *it.pod);
        let Some(controller) = own.and_then(controller_of) else {
            return Ok(None);
        };
        let uid = uid(controller);
        let above = match controller["kind"] == REPLICA_SETS.as_str() {
            true => {
                let sets = listed(cluster, REPLICA_SETS, &it.namespace).await?;
                let own = sets.iter().find(|set| set["metadata"]["uid"] == *uid);
                own.and_then(controller_of).map(self::uid)
            }
            false => None,
        };
        Ok(Some(Self {
            namespace: it.namespace.clone(),
            controller: uid,
            above,
            known: pods.iter().map(|pod| self::uid(&pod["metadata"])).collect(),
        }))
    }

    /// Waits until a new pod of these controllers is ready; `None` if this takes too long.
    pub(super) async fn successor(
        &self,
        cluster: &ClusterClient,
        patience: Duration,
    ) -> Result<Option<SuccessorPod>> {
        let began = Instant::now();
        while began.elapsed() < patience {
            let makers = self.makers(cluster).await?;
            let pods = listed(cluster, ObjectKind::Pod, &self.namespace).await?;
            let mut fresh = pods.iter().filter(|pod| {
                let controller = controller_of(pod).map(uid);
                controller.is_some_and(|uid| makers.contains(&uid))
                    && !self.known.contains(&uid(&pod["metadata"]))
            });
            if let Some(pod) = fresh.find_map(ready) {
                return Ok(Some(pod));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(None)
    }

    /// The uids of the controllers that may create the successor now.
    async fn makers(&self, cluster: &ClusterClient) -> Result<HashSet<String>> {
        let mut makers = HashSet::from([self.controller.clone()]);
        if let Some(above) = &self.above {
            let sets = listed(cluster, REPLICA_SETS, &self.namespace).await?;
            let all = sets
                .iter()
                .filter(|set| controller_of(set).is_some_and(|it| it["uid"] == **above));
            makers.extend(all.map(|set| uid(&set["metadata"])));
        }
        Ok(makers)
    }
}

/// The objects of a kind in a namespace.
async fn listed(cluster: &ClusterClient, kind: ObjectKind, namespace: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for page in cluster::pages(cluster, ApiResource::of(kind), Some(namespace), "").await? {
        let mut page: Value = serde_json::from_str(&page).context("a list of objects")?;
        if let Value::Array(items) = page["items"].take() {
            objects.extend(items);
        }
    }
    Ok(objects)
}

fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)
}

fn uid(of: &Value) -> String {
    of["uid"].as_str().unwrap_or_default().to_owned()
}

/// The pod as a successor, if it is on a node and ready.
fn ready(pod: &Value) -> Option<SuccessorPod> {
    let node = pod["spec"]["nodeName"].as_str()?;
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let is_ready = pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
    is_ready.then(|| SuccessorPod {
        name: pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        node: node.to_owned(),
    })
}
