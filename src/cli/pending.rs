//! `evenkeel explain --pending`: explains every pod that waits for a node, by workload.

use std::cmp::Reverse;

use anyhow::Result;

use super::args::OutputFlag;
use super::decide::{QuestionArgs, other_scheduler};
use super::exit::Exit;
use super::matched::PodScope;
use super::render::{self, PendingPods, PendingWorkload};
use super::source::{Opened, QuestionScope};
use super::stored;
use super::waiting::{self, Alike, WaitingPods};
use super::what_if::Overlay;
use crate::manifest::WaitingPod;
use crate::proto::v1::{ExplainRequest, FilterRequest, FilterResponse, LabelSelector, Pod};
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
        let (_, stuck_count) = waiting::count(&alike);
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
