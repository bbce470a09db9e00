//! `evenkeel explain --pending`: explains every pod that waits for a node, by workload.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use indicatif::ProgressBar;
use prost::Message;

use super::decide::{QuestionArgs, other_scheduler};
use super::exit::Exit;
use super::matched::PodScope;
use super::output::{self, AnswerFormat};
use super::render::{self, PendingPods, PendingWorkload, PodNotJudged};
use super::selector;
use super::source::{Opened, QuestionScope};
use super::stored::{self, Controllers};
use super::what_if::Overlay;
use crate::manifest::WaitingPod;
use crate::matching::Selector;
use crate::proto::v1::change::Object;
use crate::proto::v1::{ExplainRequest, FilterRequest, LabelSelector, Pod, View};
use crate::spread::describe::WorkloadId;

/// The number of groups of alike pods from which on a progress bar is shown.
const BAR_FROM_PODS: u64 = 200;

/// Pods of a workload that differ only in their names.
pub(super) struct Alike {
    pub(super) pod: Pod,
    pub(super) names: Vec<String>,
    feasible_count: i64,
}

/// Explains the pending pods of a namespace, or of all, that `selector` matches,
/// and prints the answer, as a page if there is no `format`.
///
/// # Errors
/// The same as for a single question.
pub(super) async fn explain(
    question: &QuestionArgs,
    selector: Option<&LabelSelector>,
    format: Option<AnswerFormat>,
) -> Result<Exit> {
    let scope = QuestionScope::of(question.namespace.as_deref(), QuestionScope::All);
    question.state.is_about(scope);
    let is_meant = meant(question.namespace.as_deref(), selector)?;
    let asking = Asking {
        question,
        overlay: question.overlay()?,
        opened: question.state.open().await?,
        for_person: format.is_some_and(AnswerFormat::is_table),
    };
    let (pods, controllers) = asking.pods(is_meant).await?;
    let groups = grouped(pods, &controllers);
    if groups.is_empty() {
        let namespace = question.namespace.as_deref();
        let scope = PodScope {
            namespace,
            selector,
        };
        let matched = scope.ensure_matched(&asking.opened.client, question.state.snapshot());
        matched.await?;
    }
    let count = groups.values().map(Vec::len).sum::<usize>() as u64;
    let template = "explaining {bar:30} {human_pos}/{human_len} pods {eta}";
    let progress = output::bar(count, BAR_FROM_PODS, template);
    let mut pending = PendingPods::default();
    for ((namespace, id), mut alike) in groups {
        pending.pod_count += alike.iter().map(|pods| pods.names.len()).sum::<usize>();
        let not_judged = asking.judge(&namespace, &mut alike, &progress).await?;
        pending.not_judged.extend(not_judged);
        if alike.is_empty() {
            continue;
        }
        let workload = asking.explain(namespace, id, alike).await?;
        pending.stuck_count += workload.stuck_count;
        pending.unschedulable_count += workload.unschedulable_count;
        pending.workloads.push(workload);
    }
    progress.finish_and_clear();
    // The sort is stable, so equal workloads stay in the order of their names.
    pending.workloads.sort_by_key(|workload| {
        let (stuck, pods) = (workload.stuck_count, workload.pods.len());
        let feasible_count = workload.explanation.feasible_count;
        (Reverse(stuck), feasible_count, Reverse(pods))
    });
    match format {
        Some(format) => {
            let title = question.state.title();
            let table = |pending: &_| render::pending(&title, pending);
            output::print(&format.render(&pending, table, |_| Vec::new())?)?;
        }
        None => {
            let origin = question.state.origin();
            let page = |pending: &_| render::pending_html(&origin, pending);
            output::print_bytes(output::shown(&pending, page).as_bytes())?;
        }
    }
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
    /// The selected pods, and all controllers.
    async fn pods(&self, is_meant: impl Fn(&Pod) -> bool) -> Result<(Vec<Pod>, Controllers)> {
        let (mut pods, mut controllers) = (Vec::new(), Controllers::default());
        let take = |object: &Object| match object {
            Object::Pod(pod) if is_meant(pod) => pods.push(pod.clone()),
            other => controllers.offer(other),
        };
        let snapshot = self.question.state.snapshot();
        self.opened.for_each(snapshot, take).await?;
        Ok((pods, controllers))
    }

    /// Counts the feasible nodes of pods. Takes out those that cannot be judged, and returns these.
    async fn judge(
        &self,
        namespace: &str,
        alike: &mut Vec<Alike>,
        progress: &ProgressBar,
    ) -> Result<Vec<PodNotJudged>> {
        let mut not_judged = Vec::new();
        for mut pods in std::mem::take(alike) {
            progress.inc(1);
            match self.feasible_count(&pods.pod).await {
                Ok(count) => {
                    pods.feasible_count = count;
                    alike.push(pods);
                }
                Err(error) => not_judged.extend(PodNotJudged::all(namespace, pods.names, error)?),
            }
        }
        Ok(not_judged)
    }

    /// Explains the pod of a workload that has the fewest feasible nodes.
    async fn explain(
        &self,
        namespace: String,
        id: WorkloadId,
        alike: Vec<Alike>,
    ) -> Result<PendingWorkload> {
        let stuck = alike.iter().filter(|pods| pods.feasible_count == 0);
        let stuck_count = stuck.map(|pods| pods.names.len()).sum();
        let worst = alike.iter().min_by_key(|pods| pods.feasible_count);
        let worst = &worst.expect("a group has a pod").pod;
        let (question, changes) = (self.question, &self.overlay.changes);
        let waiting: usize = alike.iter().map(|pods| pods.names.len()).sum();
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

    async fn feasible_count(&self, pod: &Pod) -> Result<i64> {
        let (question, changes) = (self.question, &self.overlay.changes);
        let request = FilterRequest {
            view: View::Domains.into(),
            max_domains: Some(1),
            ..question.filter_request(pod, changes)
        };
        let client = &self.opened.client;
        let answer = question.call(client, &self.overlay, request);
        Ok(answer.await?.feasible_count)
    }
}

/// Returns a test for the pods that the question is about.
pub(super) fn meant(
    namespace: Option<&str>,
    selector: Option<&LabelSelector>,
) -> Result<impl Fn(&Pod) -> bool> {
    let namespace = namespace.map(str::to_owned);
    let selector = selector.map(selector::compile).transpose()?;
    Ok(move |pod: &Pod| {
        let labels = pod.metadata.as_ref().map(|metadata| &metadata.labels);
        let matches =
            |selector: &Selector| labels.is_some_and(|labels| selector.matches_labels(labels));
        is_pending(pod)
            && namespace
                .as_deref()
                .is_none_or(|it| it == stored::namespace_of(pod))
            && selector.as_ref().is_none_or(matches)
    })
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
pub(super) fn grouped(
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
                feasible_count: 0,
            }),
        }
    }
    groups
}
