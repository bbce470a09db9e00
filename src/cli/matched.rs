//! Makes sure that the namespace, the selectors and the name in a command match something. A misspelt
//! name is no clean cluster.

use std::collections::BTreeSet;

use anyhow::Result;

use super::backend::Client;
use super::exit::RefusedCall;
use super::selector;
use super::stored;
use crate::explain::{joined, plural};
use crate::manifest::{ObjectName, WorkloadPod};
use crate::matching::revisions::is_revision_label;
use crate::matching::{Selector, names, selector_text};
use crate::misspelt;
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{DescribeSpreadRequest, LabelSelector, ObjectMeta, Pod, WorkloadSpread};
use crate::spread::describe::WorkloadId;

/// The pods that a command is restricted to.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodScope<'a> {
    /// The namespace; `None` means all.
    pub(super) namespace: Option<&'a str>,
    /// The selector; `None` means all pods.
    pub(super) selector: Option<&'a LabelSelector>,
}

/// The pods and names that were seen while matching pods were searched for.
#[derive(Default)]
struct Seen {
    namespaces: BTreeSet<String>,
    /// The labels of the pods in the namespace.
    labels: BTreeSet<(String, String)>,
    is_matched: bool,
}

impl PodScope<'_> {
    /// Checks that there is a pod in the scope.
    ///
    /// # Errors
    /// There is none. The error names the nearest namespaces, or the nearest labels.
    pub(super) async fn ensure_matched(self, client: &Client, snapshot: &str) -> Result<()> {
        if self.namespace.is_none() && self.selector.is_none()
            || self.has_living(client, snapshot).await?
        {
            return Ok(());
        }
        let selector = self.selector.map(selector::compile).transpose()?;
        let mut seen = Seen::default();
        let take = |object: &Object| {
            if let Object::Pod(pod) = object {
                seen.note(pod, self.namespace, selector.as_ref());
            }
        };
        stored::objects(client, snapshot, take).await?;
        anyhow::ensure!(seen.is_matched, "{}", self.nothing(&seen));
        Ok(())
    }

    /// Returns whether a pod in the scope is neither finished nor terminating. The source answers
    /// this without listing its pods.
    async fn has_living(self, client: &Client, snapshot: &str) -> Result<bool> {
        let request = DescribeSpreadRequest {
            snapshot: snapshot.to_owned(),
            namespace: self.namespace.unwrap_or_default().to_owned(),
            subject: Some(Subject::Selector(
                self.selector.cloned().unwrap_or_default(),
            )),
            max_domains: Some(1),
            ..DescribeSpreadRequest::default()
        };
        let answer = client.call(request).await?;
        Ok(answer.workloads.iter().any(|it| it.pod_count > 0))
    }

    /// Says that nothing matched.
    fn nothing(self, seen: &Seen) -> String {
        let namespace = self.namespace.filter(|it| !seen.namespaces.contains(*it));
        if let Some(namespace) = namespace {
            let known = seen.namespaces.iter().map(String::as_str);
            let nearest = misspelt::nearest(namespace, known);
            return format!("there is no such namespace, or no pod in it: {namespace}{nearest}");
        }
        let within = self.namespace.map(|it| format!(" in namespace {it}"));
        let within = within.unwrap_or_default();
        seen.unmatched(&format!("pod{within}"), self.selector)
    }
}

impl Seen {
    fn note(&mut self, pod: &Pod, namespace: Option<&str>, selector: Option<&Selector>) {
        let own = stored::namespace_of(pod);
        if !self.namespaces.contains(own) {
            self.namespaces.insert(own.to_owned());
        }
        if namespace.is_some_and(|it| it != own) {
            return;
        }
        self.note_labels(pod.metadata.as_ref(), selector);
    }

    fn note_labels(&mut self, metadata: Option<&ObjectMeta>, selector: Option<&Selector>) {
        let Some(metadata) = metadata else { return };
        let labels = metadata.labels.iter();
        self.labels
            .extend(labels.map(|(key, value)| (key.clone(), value.clone())));
        self.is_matched |= selector.is_none_or(|it| it.matches_labels(&metadata.labels));
    }

    /// Says that no `object` matched a selector, with the nearest labels.
    fn unmatched(&self, object: &str, selector: Option<&LabelSelector>) -> String {
        let text = selector.map(selector_text).unwrap_or_default();
        // Labels with a key of the selector are nearer than others.
        let keys = selector.iter().flat_map(|it| {
            let expressions = it.match_expressions.iter().map(|it| &it.key);
            it.match_labels.keys().chain(expressions)
        });
        let keys: BTreeSet<&String> = keys.collect();
        let has_key = self.labels.iter().any(|(key, _)| keys.contains(key));
        let labels = self.labels.iter();
        let labels = labels.filter(|(key, _)| !has_key || keys.contains(key));
        let labels: Vec<String> = labels.map(|(key, it)| format!("{key}={it}")).collect();
        let nearest = misspelt::nearest(&text, labels.iter().map(String::as_str));
        format!("no {object} matches {text}{nearest}")
    }
}

/// Checks that there is a node that a selector matches.
///
/// # Errors
/// There is none. The error names the nearest labels.
pub(super) async fn ensure_nodes_matched(
    client: &Client,
    snapshot: &str,
    selector: &LabelSelector,
) -> Result<()> {
    let compiled = selector::compile(selector)?;
    let mut seen = Seen::default();
    let take = |object: &Object| {
        if let Object::Node(node) = object {
            seen.note_labels(node.metadata.as_ref(), Some(&compiled));
        }
    };
    stored::objects(client, snapshot, take).await?;
    anyhow::ensure!(seen.is_matched, seen.unmatched("node", Some(selector)));
    Ok(())
}

/// Adds to the error of a call about a workload without pods that its kind is unknown, or the
/// nearest workloads.
pub(super) async fn with_nearest(
    error: anyhow::Error,
    client: &Client,
    snapshot: &str,
    named: &ObjectName,
) -> anyhow::Error {
    if !RefusedCall::is_without_pods(&error) {
        return error;
    }
    if let Some(unknown) = named.of_unknown_kind() {
        return error.context(unknown);
    }
    let mut known = BTreeSet::new();
    let take = |object: &Object| {
        if let Object::Pod(pod) = object {
            let WorkloadId { kind, name, .. } = WorkloadId::of(pod, None);
            if !kind.is_empty() {
                known.insert(format!("{kind}/{}/{name}", stored::namespace_of(pod)));
            }
        }
    };
    if stored::objects(client, snapshot, take).await.is_err() {
        return error;
    }
    let known = known.iter().map(String::as_str);
    let nearest = misspelt::nearest(&named.to_string(), known);
    anyhow::anyhow!("{error:#}{nearest}")
}

/// The end of a message that there is no node of a name: the nearest nodes, if they can be read.
pub(super) async fn nearest_nodes(client: &Client, snapshot: &str, name: &str) -> String {
    let mut known = BTreeSet::new();
    let take = |object: &Object| {
        if let Object::Node(node) = object {
            known.extend(node.metadata.as_ref().map(|it| it.name.clone()));
        }
    };
    match stored::objects(client, snapshot, take).await {
        Ok(()) => misspelt::nearest(name, known.iter().map(String::as_str)),
        Err(_) => String::new(),
    }
}

/// Says where the pods of a workload are that names no namespace, if `default` has none of them.
pub(super) async fn elsewhere(
    client: &Client,
    snapshot: &str,
    workload: &WorkloadPod,
) -> Result<Option<String>> {
    let metadata = workload.pod.metadata.as_ref();
    let mut labels = metadata.map(|it| it.labels.clone()).unwrap_or_default();
    labels.retain(|key, _| !is_revision_label(key));
    if !workload.is_without_namespace || workload.policy.is_some() || labels.is_empty() {
        return Ok(None);
    }
    let selector = LabelSelector {
        match_labels: labels,
        ..LabelSelector::default()
    };
    let said = selector_text(&selector);
    let request = DescribeSpreadRequest {
        snapshot: snapshot.to_owned(),
        subject: Some(Subject::Selector(selector)),
        max_domains: Some(1),
        ..DescribeSpreadRequest::default()
    };
    let found = client.call(request).await?.workloads;
    let is_default = |it: &WorkloadSpread| it.namespace == names::DEFAULT_NAMESPACE;
    if found.is_empty() || found.iter().any(|it| is_default(it) && it.pod_count > 0) {
        return Ok(None);
    }
    let there = found.iter();
    let there = there.map(|it| format!("{} in {}", plural(it.pod_count, "pod"), it.namespace));
    let there: Vec<String> = there.collect();
    Ok(Some(format!(
        "{} names no namespace: it was looked for in default, which has no pod with {said}, but \
         such pods are there: {}; say which namespace with -n",
        workload.name,
        joined(&there),
    )))
}
