//! Computes the share of CPU and memory in each domain that pods request.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;

use crate::matching::{Requested, Requests, RequestsByVersion, Resource};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The resources in the report.
const RESOURCES: [Resource; 2] = [Resource::Cpu, Resource::Memory];

/// The requested share of a resource in a domain.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestedShare {
    pub(crate) resource: String,
    /// The requested amount.
    pub(crate) requested: String,
    /// The amount that the nodes have.
    pub(crate) allocatable: String,
    /// The requested amount in percent of the allocatable amount.
    pub(crate) percent: i64,
}

impl fmt::Display for RequestedShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            resource,
            requested,
            allocatable,
            percent,
        } = self;
        write!(f, "{resource} {percent} %: {requested} of {allocatable}")
    }
}

/// The name of the node that a pod takes room on, even while it terminates.
fn node_taken(pod: &v1::Pod) -> Option<&str> {
    let phase = pod.status.as_ref().map_or("", |status| &status.phase);
    let node = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    (!node.is_empty() && !["Succeeded", "Failed"].contains(&phase)).then_some(node)
}

/// The allocatable and the requested amounts of [`RESOURCES`].
#[derive(Debug, Default)]
pub(super) struct RoomTally {
    /// The domain and the allocatable amounts of each node.
    nodes: HashMap<String, (String, [i128; 2])>,
    /// The amounts that the pods on each node request.
    requested: HashMap<String, [i128; 2]>,
}

impl RoomTally {
    /// Adds an object of a snapshot. Domains are the values of the label `topology_key` of nodes.
    pub(super) fn add(&mut self, object: &Object, topology_key: &str) {
        match object {
            Object::Node(node) => {
                let metadata = node.metadata.clone().unwrap_or_default();
                let Some(domain) = metadata.labels.get(topology_key) else {
                    return;
                };
                let status = node.status.as_ref();
                let has = status.map(|status| status.allocatable.clone());
                let all = v1::Container {
                    resources: Some(v1::ResourceRequirements {
                        requests: has.unwrap_or_default(),
                    }),
                    ..Default::default()
                };
                let has = amounts(&Requests::of_one(all));
                self.nodes.insert(metadata.name, (domain.clone(), has));
            }
            Object::Pod(pod) => {
                if let Some(node) = node_taken(pod) {
                    let sum = self.requested.entry(node.to_owned()).or_default();
                    add(sum, amounts(&RequestsByVersion::of(pod).newest));
                }
            }
            _ => {}
        }
    }

    /// The requested shares of each domain, for the resources that its nodes have.
    pub(super) fn shares(&self) -> BTreeMap<&str, Vec<RequestedShare>> {
        let mut domains: BTreeMap<&str, [[i128; 2]; 2]> = BTreeMap::new();
        for (node, (domain, has)) in &self.nodes {
            let [all, requested] = domains.entry(domain).or_default();
            add(all, *has);
            add(
                requested,
                self.requested.get(node).copied().unwrap_or_default(),
            );
        }
        let shares = |[all, requested]: [[i128; 2]; 2]| {
            let each = RESOURCES.into_iter().zip(all.into_iter().zip(requested));
            let had = each.filter(|(_, (all, _))| *all > 0);
            had.map(|(resource, (all, requested))| RequestedShare {
                requested: resource.quantity(requested),
                allocatable: resource.quantity(all),
                percent: i64::try_from(100 * requested / all).unwrap_or(i64::MAX),
                resource: resource.as_str().to_owned(),
            })
            .collect()
        };
        let domains = domains.into_iter();
        domains
            .map(|(domain, sums)| (domain, shares(sums)))
            .collect()
    }
}

fn add(sum: &mut [i128; 2], more: [i128; 2]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

fn amounts(requests: &Requests) -> [i128; 2] {
    let mut requested = Requested::default();
    requested.add(Some(requests));
    RESOURCES.map(|wanted| {
        let mut all = requested.amounts();
        let found = all.find(|(resource, _)| *resource == wanted);
        found.map_or(0, |(_, amount)| amount)
    })
}
