//! The pods of a snapshot that wait for a node, by workload, each with Filter's answer. `report` counts
//! them, and `evenkeel explain --pending` explains them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use prost::Message;

use super::about::{PodScope, compile_selector};
use super::args::OutputFlag;
use super::decide::{QuestionArgs, other_scheduler};
use super::exit::Exit;
use super::render::{self, PendingPods, PendingWorkload, PodNotJudged};
use super::source::{Opened, QuestionScope};
use super::stored::{self, Controllers};
use super::what_if::Overlay;
use crate::manifest::WaitingPod;
use crate::proto::v1::change::Object;
use crate::proto::v1::{ExplainRequest, FilterRequest, FilterResponse, LabelSelector, Pod, View};
use crate::spread::describe::WorkloadId;

/// Explains the pending pods of a namespace, or of all, that `selector` matches,
/// and prints the answer.
///
/// # Errors
/// The same as for a single question.
pub(super) async fn explain(
    question: &QuestionArgs,
    selector: Option<&LabelSelector>,
    output: &OutputFlag,
) -> Result<Exit> {
    let scope = QuestionScope::of(question.namespace.as_deref(), QuestionScope::All);
    question.state.is_about(scope);
    let asking = Asking {
        question,
        overlay: question.overlay()?,
        opened: question.state.open().await?,
        for_person: output.output.is_table(),
    };
    let snapshot = question.state.snapshot();
    let scope = PodScope {
        namespace: question.namespace.as_deref(),
        selector,
    };
    let mut waiting = WaitingPods::find(&asking.opened, snapshot, scope, |_| {}).await?;
    if waiting.workloads.is_empty() {
        let matched = scope.ensure_matched(&asking.opened.client, snapshot);
        matched.await?;
    }
    waiting
        .judge(async |request| asking.ask(request).await)
        .await?;
    let mut pending = PendingPods {
        pod_count: waiting.not_judged.len(),
        not_judged: waiting.not_judged,
        ..PendingPods::default()
    };
    for ((namespace, id), alike) in waiting.workloads {
        let workload = asking.explain(namespace, id, alike).await?;
        pending.pod_count += workload.pods.len();
        pending.stuck_count += workload.stuck_count;
        pending.unschedulable_count += workload.unschedulable_count;
        pending.workloads.push(workload);
    }
    // The sort is stable, so equal workloads stay in the order of their names.
    pending.workloads.sort_by_key(|workload| {
        let (stuck, pods) = (workload.stuck_count, workload.pods.len());
        let feasible_count = workload.explanation.feasible_count;
        (Reverse(stuck), feasible_count, Reverse(pods))
    });
    let page = || render::pending(&question.state.source(), &pending);
    let waiting = pending.workloads.iter().flat_map(|workload| {
        let pods = workload.pods.iter();
        pods.map(|pod| format!("{}/{pod}", workload.namespace))
    });
    output.print(&pending, page, || waiting.collect())?;
    Ok(Exit::of(
        pending.stuck_count == 0
            && pending.unschedulable_count == 0
            && pending.not_judged.is_empty(),
    ))
}

/// The settings that the questions about all pending pods share.
struct Asking<'a> {
    question: &'a QuestionArgs,
    overlay: Overlay,
    opened: Opened,
    for_person: bool,
}

impl Asking<'_> {
    /// Explains the pod of a workload that has the fewest feasible nodes.
    async fn explain(
        &self,
        namespace: String,
        id: WorkloadId,
        alike: Vec<Alike>,
    ) -> Result<PendingWorkload> {
        let stuck_count = count_stuck(&alike);
        let worst = alike.iter().min_by_key(|it| it.answer.feasible_count);
        let worst = &worst.expect("a group has a pod").pod;
        // What would help pods with the same volumes.
        let volumes = |pod: &Pod| pod.spec.clone().unwrap_or_default().volumes;
        let same = alike.iter();
        let same = same.filter(|it| volumes(&it.pod) == volumes(worst));
        let waiting: usize = same.map(|it| it.names.len()).sum();
        let (question, changes) = (self.question, &self.overlay.changes);
        let request = ExplainRequest {
            waiting: i32::try_from(waiting).unwrap_or(i32::MAX),
            ..question.explain_request(worst, changes, self.for_person)
        };
        let client = &self.opened.client;
        let explanation = question.call(client, &self.overlay, request);
        let mut explanation = explanation.await?;
        let explained_pod = stored::name_of(worst).to_owned();
        let mut pods: Vec<String> = alike.into_iter().flat_map(|pods| pods.names).collect();
        pods.sort();
        let (unschedulable_count, said) = self.said_of(&namespace, &explained_pod, &pods);
        if !said.scheduler.is_empty() {
            let field = other_scheduler(&said.scheduler);
            explanation.unchecked.push(field);
        }
        Ok(PendingWorkload {
            unschedulable_count,
            scheduler_message: said.message,
            scheduler_name: said.scheduler,
            namespace,
            kind: id.kind,
            name: id.name,
            labels: id.labels,
            pods,
            stuck_count,
            explained_pod,
            explanation,
        })
    }

    /// Returns the number of these pods for which the cluster's scheduler found no node, and its
    /// message about `explained` or, if there is none, about another of the pods. If any of the
    /// pods names another scheduler, the result has its name.
    fn said_of(&self, namespace: &str, explained: &str, pods: &[String]) -> (usize, WaitingPod) {
        let waiting = self.opened.objects.as_ref().map(|objects| &objects.waiting);
        let said = |name: &str| {
            let name = (namespace.to_owned(), name.to_owned());
            waiting.and_then(|waiting| waiting.get(&name)).cloned()
        };
        let all: Vec<WaitingPod> = pods.iter().filter_map(|name| said(name)).collect();
        let count = all.iter().filter(|pod| pod.is_unschedulable).count();
        let others = all.iter().map(|pod| pod.scheduler.clone());
        let other = others.filter(|scheduler| !scheduler.is_empty()).min();
        let first = said(explained).or_else(|| all.into_iter().next());
        let first = first.unwrap_or_default();
        let scheduler = other.unwrap_or_default();
        (count, WaitingPod { scheduler, ..first })
    }

    async fn ask(&self, request: FilterRequest) -> Result<FilterResponse> {
        let (question, changes) = (self.question, &self.overlay.changes);
        let pod = request.pod.unwrap_or_default();
        let request = FilterRequest {
            view: request.view,
            max_domains: request.max_domains,
            ..question.filter_request(&pod, changes)
        };
        let client = &self.opened.client;
        question.call(client, &self.overlay, request).await
    }
}

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
        let selector = scope.selector.map(compile_selector).transpose()?;
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

/// The number of pods of groups that fit nowhere.
pub(super) fn count_stuck(groups: &[Alike]) -> usize {
    let stuck = groups.iter().filter(|it| it.answer.feasible_count == 0);
    stuck.map(|alike| alike.names.len()).sum()
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
