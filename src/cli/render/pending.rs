//! The pods that wait for a node, and their text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::decision::{details, untold};
use super::page::{Look, Page, PagePart, Parts, Source, Table, not_checked};
use super::spread::name_of_workload;
use super::text::{number, plural};
use crate::cli::exit::RefusedCall;
use crate::explain::{but_for, verb};
use crate::proto::v1::ExplainResponse;

/// The pods of a snapshot that wait for a node.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPods {
    /// The number of pending pods.
    pub(crate) pod_count: usize,
    /// The number of these pods that no node can take.
    pub(crate) stuck_count: usize,
    /// The number of these pods for which the cluster's own scheduler reports that it found no
    /// node.
    pub(crate) unschedulable_count: usize,
    /// The workloads of the pods. Those with the most pods that no node can take come first, then
    /// those with the fewest nodes for a pod, then those with the most pods, then by name.
    pub(crate) workloads: Vec<PendingWorkload>,
    /// The pods that cannot be judged, by namespace and workload.
    pub(crate) not_judged: Vec<PodNotJudged>,
}

/// A pod that cannot be judged.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodNotJudged {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The fields of the pod that cannot be read, and why.
    pub(crate) fault: String,
}

impl PodNotJudged {
    /// Pods that differ only in their names and cannot be judged, by the error of a call about one.
    ///
    /// # Errors
    /// The error itself, if it is not about the pod.
    pub(crate) fn all(
        namespace: &str,
        names: Vec<String>,
        error: anyhow::Error,
    ) -> anyhow::Result<Vec<Self>> {
        let fault = RefusedCall::faults_of_pod(&error).ok_or(error)?;
        let one = |name| Self {
            namespace: namespace.to_owned(),
            name,
            fault: fault.clone(),
        };
        Ok(names.into_iter().map(one).collect())
    }
}

impl fmt::Display for PodNotJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            name,
            fault,
        } = self;
        write!(f, "not judged: pod/{namespace}/{name}: {fault}")
    }
}

/// The pending pods of one workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingWorkload {
    pub(crate) namespace: String,
    /// Kind of the controller; empty without one.
    pub(crate) kind: String,
    /// The controller's name; empty without one.
    pub(crate) name: String,
    /// The labels of pods without a controller.
    pub(crate) labels: BTreeMap<String, String>,
    /// Names of the pods.
    pub(crate) pods: Vec<String>,
    /// The number of these pods that no node can take.
    pub(crate) stuck_count: usize,
    /// The number of these pods for which the cluster's own scheduler reports that it found no
    /// node.
    pub(crate) unschedulable_count: usize,
    /// The scheduler's message about the explained pod, or another; empty if there is none, or it
    /// is unknown.
    pub(crate) scheduler_message: String,
    /// The scheduler that the pods name; empty if this is the default scheduler.
    pub(crate) scheduler_name: String,
    /// The pod that is explained, which has the fewest feasible nodes.
    pub(crate) explained_pod: String,
    /// The explanation of that pod.
    pub(crate) explanation: ExplainResponse,
}

/// The answer: a paragraph for each workload; on a page a table, and the explanation of the pod with the
/// fewest nodes to go to.
pub(crate) fn pending(source: &Source, pending: &PendingPods) -> Page {
    let newest = pending.workloads.iter().map(|it| &it.explanation);
    let newest = newest.max_by_key(|answer| answer.revision);
    let (verdict, is_well) = verdict(pending);
    let mut parts = Parts::default();
    for pod in &pending.not_judged {
        parts.styled(Look::Bad, pod.to_string());
    }
    let mut listed = Parts::default();
    let rows = pending.workloads.iter().map(|it| {
        let counts = (number(it.pods.len()), number(it.stuck_count));
        [
            it.full_name(),
            counts.0,
            counts.1,
            it.explanation.summary.clone(),
        ]
    });
    let headings = ["WORKLOAD", "PODS", "FIT NOWHERE", "WHY"];
    listed.table(Table::new("workload", headings, rows));
    parts.push(PagePart::OnPage(listed));
    for workload in &pending.workloads {
        one(&mut parts, workload);
    }
    let title = format!("Pods of {} that wait for a node", source.snapshot);
    let mut page = Page::new("explain --pending", title);
    match newest {
        Some(answer) => page = page.of(source, answer.revision, answer.defaults()),
        None => page.remarks.push(source.title.clone()),
    }
    page.verdict(Look::of_verdict(is_well, &unchecked(pending)), verdict)
        .with(parts)
}

/// The answer in a sentence, and whether all pods fit somewhere.
fn verdict(pending: &PendingPods) -> (String, bool) {
    let first = match (pending.pod_count, pending.stuck_count) {
        (0, _) => "no pod is pending".to_owned(),
        (pods, 0) if !pending.not_judged.is_empty() => format!(
            "pending: {}, {} of which cannot be judged; for each other, some node satisfies what was \
             checked{}",
            plural(pods, "pod"),
            number(pending.not_judged.len()),
            but_for(&unchecked(pending))
        ),
        (pods, 0) => format!(
            "pending: {}; for each, some node satisfies what was checked{}",
            plural(pods, "pod"),
            but_for(&unchecked(pending))
        ),
        (pods, stuck) => format!(
            "pending: {}, {} of which {} nowhere",
            plural(pods, "pod"),
            number(stuck),
            verb(stuck, "fits", "fit"),
        ),
    };
    match pending.unschedulable_count {
        0 => (
            first,
            pending.stuck_count == 0 && pending.not_judged.is_empty(),
        ),
        count => (first + &said_by_cluster(count), false),
    }
}

/// Returns the fields of any of the pods that were not checked.
fn unchecked(pending: &PendingPods) -> Vec<String> {
    let all = pending.workloads.iter();
    let fields = all.flat_map(|workload| workload.explanation.unchecked.iter().cloned());
    let fields: BTreeSet<String> = fields.collect();
    fields.into_iter().collect()
}

/// Says for how many pods the cluster's own scheduler found no node.
fn said_by_cluster(count: usize) -> String {
    let (pods, are) = (plural(count, "pod"), verb(count, "is", "are"));
    format!("; the cluster itself says that {pods} {are} unschedulable")
}

/// Returns the message of the cluster's scheduler about the pods, if it differs from the
/// explanation, and a remark about a scheduler other than the default.
fn of_scheduler(workload: &PendingWorkload) -> Vec<String> {
    let (said, answer) = (&workload.scheduler_message, &workload.explanation);
    let mut reasons = answer.reasons.iter();
    let is_same = answer.feasible_count == 0
        && reasons.all(|it| said.contains(&format!("{} {}", it.count, it.reason)));
    let mut lines = Vec::new();
    if !said.is_empty() && !is_same {
        lines.push(format!("the cluster itself says: {said}"));
    }
    if !workload.scheduler_name.is_empty() {
        let name = &workload.scheduler_name;
        lines.push(format!(
            "its scheduler is {name}, whose rules may differ from those that were checked"
        ));
    }
    lines
}

/// The number of the waiting pods of a workload, and of those that fit nowhere.
fn fit_text(workload: &PendingWorkload) -> String {
    let pods = plural(workload.pods.len(), "pod");
    let stuck = match workload.stuck_count {
        0 => String::new(),
        stuck if stuck == workload.pods.len() => {
            format!(", {} nowhere", verb(stuck, "fits", "fit"))
        }
        stuck => format!(
            ", {} of which {} nowhere",
            number(stuck),
            verb(stuck, "fits", "fit")
        ),
    };
    pods + &stuck
}

impl PendingWorkload {
    /// The name of the workload.
    fn full_name(&self) -> String {
        name_of_workload(&self.namespace, &self.kind, &self.name, &self.labels)
    }
}

/// A workload: the number of its waiting pods, and the explanation of the worst of them.
fn one(parts: &mut Parts, workload: &PendingWorkload) {
    let answer = &workload.explanation;
    let mut below = Parts::default();
    below
        .line(&*answer.summary)
        .lines(of_scheduler(workload))
        .lines(not_checked(&untold(answer)));
    let (namespace, pod) = (&workload.namespace, &workload.explained_pod);
    below.line(format!("explained: pod/{namespace}/{pod}"));
    let mut more = Parts::default();
    details(&mut more, answer);
    below.push(PagePart::OnPage(more));
    let (name, fit) = (workload.full_name(), fit_text(workload));
    let heading = vec![(Look::Strong, name), (Look::Plain, format!(": {fit}"))];
    parts.push(PagePart::Section(heading, below));
}
