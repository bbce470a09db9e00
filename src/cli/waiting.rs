//! The pods of a snapshot that wait for a node, by workload, each with Filter's answer. `report` and
//! `explain --pending` are about them.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use prost::Message;

use super::matched::PodScope;
use super::render::PodNotJudged;
use super::selector;
use super::source::Opened;
use super::stored::{self, Controllers};
use crate::proto::v1::change::Object;
use crate::proto::v1::{FilterRequest, FilterResponse, Pod, View};
use crate::spread::describe::WorkloadId;

/// The pods that wait for a node.
#[derive(Default)]
pub(super) struct WaitingPods {
    /// Those that can be judged, by namespace and workload.
    pub(super) workloads: BTreeMap<(String, WorkloadId), Vec<Alike>>,
    pub(super) not_judged: Vec<PodNotJudged>,
}

/// Pods of a workload that differ only in their names.
pub(super) struct Alike {
    pub(super) pod: Pod,
    pub(super) names: Vec<String>,
    /// Filter's answer about one of them, without its nodes.
    pub(super) answer: FilterResponse,
}

impl WaitingPods {
    /// Finds the waiting pods in `scope`. `look` is called with all objects of the snapshot.
    pub(super) async fn find(
        opened: &Opened,
        snapshot: &str,
        scope: PodScope<'_>,
        mut look: impl FnMut(&Object),
    ) -> Result<Self> {
        let selector = scope.selector.map(selector::compile).transpose()?;
        let is_meant = |pod: &Pod| {
            let labels = pod.metadata.as_ref().map(|metadata| &metadata.labels);
            is_pending(pod)
                && scope
                    .namespace
                    .is_none_or(|it| it == stored::namespace_of(pod))
                && selector
                    .as_ref()
                    .is_none_or(|it| labels.is_some_and(|labels| it.matches_labels(labels)))
        };
        let (mut pods, mut controllers) = (Vec::new(), Controllers::default());
        let take = |object: &Object| {
            look(object);
            match object {
                Object::Pod(pod) if is_meant(pod) => pods.push(pod.clone()),
                other => controllers.offer(other),
            }
        };
        opened.for_each(snapshot, take).await?;
        Ok(Self {
            workloads: grouped(pods, &controllers),
            not_judged: Vec::new(),
        })
    }

    /// Asks Filter about all pods, and takes out those that cannot be judged.
    ///
    /// # Errors
    /// The same as for a single question.
    pub(super) async fn judge(
        &mut self,
        ask: impl AsyncFn(FilterRequest) -> Result<FilterResponse>,
    ) -> Result<()> {
        for ((namespace, _), groups) in &mut self.workloads {
            for mut alike in std::mem::take(groups) {
                let request = FilterRequest {
                    view: View::Domains.into(),
                    max_domains: Some(1),
                    pod: Some(alike.pod.clone()),
                    ..FilterRequest::default()
                };
                match ask(request).await {
                    Ok(answer) => {
                        alike.answer = answer;
                        groups.push(alike);
                    }
                    Err(error) => {
                        let faults = PodNotJudged::all(namespace, alike.names, error)?;
                        self.not_judged.extend(faults);
                    }
                }
            }
        }
        self.workloads.retain(|_, groups| !groups.is_empty());
        Ok(())
    }
}

/// The number of pods of groups, and of those that fit nowhere.
pub(super) fn count(groups: &[Alike]) -> (usize, usize) {
    let all = groups.iter().map(|alike| alike.names.len()).sum();
    let stuck = groups.iter().filter(|it| it.answer.feasible_count == 0);
    (all, stuck.map(|alike| alike.names.len()).sum())
}

/// Returns whether a pod waits for a node.
fn is_pending(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().map_or("", |spec| &spec.node_name);
    let phase = pod.status.as_ref().map_or("", |status| &status.phase);
    let metadata = pod.metadata.as_ref();
    let is_terminating = metadata.is_some_and(|it| it.deletion_timestamp.is_some());
    node.is_empty() && matches!(phase, "" | "Pending") && !is_terminating
}

/// Groups pods by workload, and within a workload those that differ only in their names.
fn grouped(
    pods: Vec<Pod>,
    controllers: &Controllers,
) -> BTreeMap<(String, WorkloadId), Vec<Alike>> {
    let mut groups: BTreeMap<_, Vec<Alike>> = BTreeMap::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for pod in pods {
        let name = stored::name_of(&pod).to_owned();
        let namespace = stored::namespace_of(&pod).to_owned();
        let workload = (namespace, controllers.workload_of(&pod));
        let alike = groups.entry(workload).or_default();
        let mut nameless = pod.clone();
        if let Some(metadata) = &mut nameless.metadata {
            metadata.name.clear();
            metadata.uid.clear();
            metadata.resource_version.clear();
        }
        let place = *places
            .entry(nameless.encode_to_vec())
            .or_insert(alike.len());
        match alike.get_mut(place) {
            Some(pods) => pods.names.push(name),
            None => alike.push(Alike {
                pod,
                names: vec![name],
                answer: FilterResponse::default(),
            }),
        }
    }
    groups
}
