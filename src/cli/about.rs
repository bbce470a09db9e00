//! What a command is about: a workload by its name, or pods by namespace and selector. It makes sure that
//! these match something: a misspelt name is no clean cluster.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;

use super::backend::Client;
use super::exit::RefusedCall;
use super::source::{Opened, QuestionScope, SnapshotSource};
use super::{completions, stored};
use crate::api::WORKLOAD_NOT_FOUND;
use crate::explain::{joined, plural};
use crate::manifest::{ObjectName, WorkloadFinder, WorkloadPod};
use crate::matching::names::{self, DEFAULT_NAMESPACE};
use crate::matching::revisions::is_revision_label;
use crate::matching::{Path, Selector, Violations, selector_text};
use crate::misspelt;
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    DescribeSpreadRequest, LabelSelector, LabelSelectorRequirement, ObjectMeta, WorkloadName,
    WorkloadSpread,
};
use crate::spread::describe::WorkloadId;

/// Flags that select workloads.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(super) struct AboutWorkloads {
    /// One workload: the kind and name of its pods' controller, e.g. deploy/web
    ///
    /// Kinds have kubectl's names, and KIND/NAMESPACE/NAME names another
    /// namespace than --namespace.
    #[arg(
        value_name = "KIND/NAME",
        value_parser = ObjectName::with_kind,
        conflicts_with = "selector",
        add = completions::objects()
    )]
    pub(super) object: Option<ObjectName>,
    /// Namespace; by default all, or `default` with a workload
    #[arg(short, long, value_name = "NAMESPACE", add = completions::namespaces())]
    pub(super) namespace: Option<String>,
    /// All namespaces: the default where no workload is named
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "object"])]
    all_namespaces: bool,
    /// Workloads with pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    pub(super) selector: Option<LabelSelector>,
}

impl AboutWorkloads {
    /// The workload called `object`.
    pub(super) fn one(object: &ObjectName, namespace: Option<&String>) -> Self {
        Self {
            object: Some(object.clone()),
            namespace: namespace.cloned(),
            ..Self::default()
        }
    }

    /// Opens the source, to ask about these workloads.
    pub(super) async fn open<'a>(
        &'a self,
        state: &'a SnapshotSource,
    ) -> Result<OpenedWorkloads<'a>> {
        let named = self.object.as_ref();
        let given = named.and_then(|named| named.namespace.as_ref());
        let given = given.or(self.namespace.as_ref());
        let other = match named.is_some() {
            true => QuestionScope::Own,
            false => QuestionScope::All,
        };
        state.is_about(QuestionScope::of(given.map(String::as_str), other));
        let in_files = given.map_or(DEFAULT_NAMESPACE, String::as_str);
        let in_files = named.map(|named| named.clone().or_in(in_files));
        let (opened, finder) = state.open_about(in_files).await?;
        let own = || match state.own_namespace() {
            Some(own) => own.clone(),
            None => DEFAULT_NAMESPACE.to_owned(),
        };
        let namespace = given.cloned().or_else(|| named.map(|_| own()));
        Ok(OpenedWorkloads {
            about: self,
            state,
            opened,
            workload: named.map(|named| WorkloadName {
                kind: named.kind.clone().unwrap_or_default(),
                name: named.name.clone(),
                selector: finder.selector(),
            }),
            finder,
            namespace: namespace.unwrap_or_default(),
        })
    }
}

/// Workloads in a source that is open.
pub(super) struct OpenedWorkloads<'a> {
    about: &'a AboutWorkloads,
    state: &'a SnapshotSource,
    pub(super) opened: Opened,
    /// The namespace; empty for all.
    pub(super) namespace: String,
    /// The workload, if one is named, with its selector if that is known.
    pub(super) workload: Option<WorkloadName>,
    /// What files have of that workload.
    pub(super) finder: WorkloadFinder,
}

impl OpenedWorkloads<'_> {
    /// An answer. Where the workload has no pods, the error has the nearest names.
    pub(super) async fn or_nearest<T>(&self, answer: Result<T>) -> Result<T> {
        match (answer, &self.about.object) {
            (Err(error), Some(named)) => {
                let named = named.clone().or_in(&self.namespace);
                let (client, snapshot) = (&self.opened.client, self.state.snapshot());
                Err(with_nearest(error, client, snapshot, &named).await)
            }
            (answer, _) => answer,
        }
    }

    /// Checks that there are pods that the selector matches, unless a workload is named.
    pub(super) async fn ensure_matched(&self) -> Result<()> {
        let namespace = self.about.namespace.as_deref();
        let scope = PodScope {
            namespace: namespace.filter(|_| self.about.object.is_none()),
            selector: self.about.selector.as_ref(),
        };
        let (client, snapshot) = (&self.opened.client, self.state.snapshot());
        scope.ensure_matched(client, snapshot).await
    }
}

/// The pods that a command is restricted to.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodScope<'a> {
    /// The namespace; `None` means all.
    pub(super) namespace: Option<&'a str>,
    /// The selector; `None` means all pods.
    pub(super) selector: Option<&'a LabelSelector>,
}

/// What was seen while matching objects were searched for.
#[derive(Default)]
struct Seen {
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
        let selector = self.selector.map(compile_selector).transpose()?;
        let (mut namespaces, mut seen) = (BTreeSet::new(), Seen::default());
        let take = |object: &Object| {
            if let Object::Pod(pod) = object {
                let own = stored::namespace_of(pod);
                if self.namespace.is_none_or(|it| it == own) {
                    seen.note(pod.metadata.as_ref(), selector.as_ref());
                }
                if !namespaces.contains(own) {
                    namespaces.insert(own.to_owned());
                }
            }
        };
        stored::objects(client, snapshot, take).await?;
        if let Some(namespace) = self.namespace.filter(|it| !namespaces.contains(*it)) {
            let nearest = misspelt::nearest(namespace, namespaces.iter().map(String::as_str));
            anyhow::bail!("there is no such namespace, or no pod in it: {namespace}{nearest}");
        }
        let within = self.namespace.map(|it| format!(" in namespace {it}"));
        let pod = format!("pod{}", within.unwrap_or_default());
        seen.ensure_matched(&pod, self.selector)
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
}

impl Seen {
    fn note(&mut self, metadata: Option<&ObjectMeta>, selector: Option<&Selector>) {
        let Some(metadata) = metadata else { return };
        let labels = metadata.labels.iter();
        self.labels
            .extend(labels.map(|(key, value)| (key.clone(), value.clone())));
        self.is_matched |= selector.is_none_or(|it| it.matches_labels(&metadata.labels));
    }

    /// Checks that an `object` was seen that matches a selector.
    ///
    /// # Errors
    /// There was none. The error names the nearest labels.
    fn ensure_matched(&self, object: &str, selector: Option<&LabelSelector>) -> Result<()> {
        if self.is_matched {
            return Ok(());
        }
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
        anyhow::bail!("no {object} matches {text}{nearest}")
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
    let compiled = compile_selector(selector)?;
    let mut seen = Seen::default();
    let take = |object: &Object| {
        if let Object::Node(node) = object {
            seen.note(node.metadata.as_ref(), Some(&compiled));
        }
    };
    stored::objects(client, snapshot, take).await?;
    seen.ensure_matched("node", Some(selector))
}

/// Adds to the error of a call about a workload without pods that its kind is unknown, or the
/// nearest workloads.
async fn with_nearest(
    error: anyhow::Error,
    client: &Client,
    snapshot: &str,
    named: &ObjectName,
) -> anyhow::Error {
    if !RefusedCall::is_for(&error, WORKLOAD_NOT_FOUND) {
        return error;
    }
    if let Some(unknown) = named.of_unknown_kind() {
        return error.context(unknown);
    }
    let name = |object: &Object| {
        let Object::Pod(pod) = object else {
            return None;
        };
        let WorkloadId { kind, name, .. } = WorkloadId::of(pod, None);
        let namespace = stored::namespace_of(pod);
        (!kind.is_empty()).then(|| format!("{kind}/{namespace}/{name}"))
    };
    match nearest(client, snapshot, &named.to_string(), name).await {
        Ok(nearest) => anyhow::anyhow!("{error:#}{nearest}"),
        Err(_) => error,
    }
}

/// The end of a message that there is no node of a name: the nearest nodes, if they can be read.
pub(super) async fn nearest_nodes(client: &Client, snapshot: &str, name: &str) -> String {
    let node = |object: &Object| match object {
        Object::Node(node) => Some(node.metadata.as_ref()?.name.clone()),
        _ => None,
    };
    let nearest = nearest(client, snapshot, name, node).await;
    nearest.unwrap_or_default()
}

/// The end of a message that a name is unknown: the nearest of the names that objects have.
async fn nearest(
    client: &Client,
    snapshot: &str,
    unknown: &str,
    name: impl Fn(&Object) -> Option<String>,
) -> Result<String> {
    let mut known = BTreeSet::new();
    stored::objects(client, snapshot, |object| known.extend(name(object))).await?;
    Ok(misspelt::nearest(unknown, known.iter().map(String::as_str)))
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

/// Compiles a selector of the command line, for matching in this process.
///
/// # Errors
/// All invalid keys and values.
pub(crate) fn compile_selector(selector: &LabelSelector) -> Result<Selector> {
    let mut faults = Violations::default();
    let compiled = Selector::compile(Some(selector), Path::root("--selector"), &mut faults);
    anyhow::ensure!(faults.is_empty(), "{faults}");
    Ok(compiled)
}

/// Parses a selector. Keys and values are not checked here, but by the server.
pub(crate) fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    let mut selector = LabelSelector::default();
    for part in selector_parts(text) {
        let expression = requirement(part.trim())?;
        match &expression.values[..] {
            [value]
                if expression.operator == "In"
                    && !selector.match_labels.contains_key(&expression.key) =>
            {
                selector.match_labels.insert(expression.key, value.clone());
            }
            _ => selector.match_expressions.push(expression),
        }
    }
    Ok(selector)
}

/// Splits at commas outside of parentheses.
fn selector_parts(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut depth = 0;
    let split = text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    split.collect()
}

fn requirement(text: &str) -> Result<LabelSelectorRequirement, String> {
    let of = |key: &str, operator: &str, values: Vec<String>| LabelSelectorRequirement {
        key: key.trim().to_owned(),
        operator: operator.to_owned(),
        values,
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some((head, values)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) {
        let values = values.split(',').map(|value| value.trim().to_owned());
        let (key, operator) = match head.split_whitespace().collect::<Vec<_>>()[..] {
            [key, "in"] => (key, "In"),
            [key, "notin"] => (key, "NotIn"),
            _ => {
                return Err(format!(
                    "{text:?} is neither KEY in (...) nor KEY notin (...)"
                ));
            }
        };
        return Ok(of(key, operator, values.collect()));
    }
    let parsed = if let Some((key, value)) = text.split_once("!=") {
        of(key, "NotIn", one(value))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        of(key, "In", one(value))
    } else if let Some(key) = text.strip_prefix('!') {
        of(key, "DoesNotExist", Vec::new())
    } else {
        of(text, "Exists", Vec::new())
    };
    match parsed.key.is_empty() || parsed.key.contains(char::is_whitespace) {
        true => Err(format!(
            "{text:?} is none of KEY=VALUE, KEY!=VALUE, KEY in (...), KEY notin (...), KEY and !KEY"
        )),
        false => Ok(parsed),
    }
}
