//! What a command is about: a workload by its name, or pods by namespace and selector. It makes sure that
//! these match something: a misspelt name is no clean cluster.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::Args;

use super::backend::Client;
use super::exit::RefusedCall;
use super::source::{QuestionScope, SnapshotSource};
use super::{completions, stored};
use crate::explain::{joined, plural};
use crate::manifest::{ObjectName, WorkloadPod};
use crate::matching::names::{self, DEFAULT_NAMESPACE};
use crate::matching::revisions::is_revision_label;
use crate::matching::{Path, Selector, Violations, selector_text};
use crate::misspelt;
use crate::proto::v1::change::Object;
use crate::proto::v1::describe_spread_request::Subject;
use crate::proto::v1::{
    DescribeSpreadRequest, LabelSelector, LabelSelectorRequirement, ObjectMeta, Pod, WorkloadName,
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

/// The workload, as requests name it.
pub(super) struct RequestedWorkload {
    /// The namespace; empty for all.
    pub(super) namespace: String,
    /// The workload, if one is named.
    pub(super) workload: Option<WorkloadName>,
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

    /// The scope of the question.
    pub(super) fn scope(&self) -> QuestionScope {
        let named = self.object.as_ref();
        let of_name = named.and_then(|named| named.namespace.as_deref());
        let other = match named.is_some() {
            true => QuestionScope::Own,
            false => QuestionScope::All,
        };
        QuestionScope::of(of_name.or(self.namespace.as_deref()), other)
    }

    /// The name of the workload in files, if one is named.
    pub(super) fn in_files(&self) -> Option<ObjectName> {
        let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        self.object.clone().map(|named| named.or_in(namespace))
    }

    /// The workload in a source that is open. `selector` is that of the workload, if it is known.
    pub(super) fn named(
        &self,
        state: &SnapshotSource,
        selector: Option<LabelSelector>,
    ) -> RequestedWorkload {
        let named = self.object.as_ref();
        let own = state.own_namespace().filter(|_| named.is_some());
        let namespace = named.and_then(|named| named.namespace.as_ref());
        let namespace = namespace.or(self.namespace.as_ref()).or(own);
        let default = || named.map(|_| DEFAULT_NAMESPACE.to_owned());
        RequestedWorkload {
            namespace: namespace.cloned().or_else(default).unwrap_or_default(),
            workload: named.map(|named| WorkloadName {
                kind: named.kind.clone().unwrap_or_default(),
                name: named.name.clone(),
                selector,
            }),
        }
    }

    /// An answer. Where the workload has no pods, the error has the nearest names.
    pub(super) async fn or_nearest<T>(
        &self,
        answer: Result<T>,
        client: &Client,
        state: &SnapshotSource,
    ) -> Result<T> {
        match (answer, &self.object) {
            (Err(error), Some(named)) => {
                let namespace = self.named(state, None).namespace;
                let named = named.clone().or_in(&namespace);
                Err(with_nearest(error, client, state.snapshot(), &named).await)
            }
            (answer, _) => answer,
        }
    }

    /// Checks that there are pods that `selector` matches, unless a workload is named.
    pub(super) async fn ensure_matched(
        &self,
        selector: Option<&LabelSelector>,
        client: &Client,
        state: &SnapshotSource,
    ) -> Result<()> {
        let namespace = self.namespace.as_deref();
        let scope = PodScope {
            namespace: namespace.filter(|_| self.object.is_none()),
            selector,
        };
        scope.ensure_matched(client, state.snapshot()).await
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
        let selector = self.selector.map(compile_selector).transpose()?;
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
    let compiled = compile_selector(selector)?;
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_reads_them() {
        let cases = [
            ("", json!({})),
            ("app=web", json!({"matchLabels": {"app": "web"}})),
            (
                "app == web , tier!=db",
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [
                    {"key": "tier", "operator": "NotIn", "values": ["db"]}]}),
            ),
            (
                "env in (a, b),env notin (c),app=",
                json!({"matchLabels": {"app": ""}, "matchExpressions": [
                    {"key": "env", "operator": "In", "values": ["a", "b"]},
                    {"key": "env", "operator": "NotIn", "values": ["c"]}]}),
            ),
            (
                "app=a,app=b",
                json!({"matchLabels": {"app": "a"}, "matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["b"]}]}),
            ),
            (
                "app,!old",
                json!({"matchExpressions": [
                    {"key": "app", "operator": "Exists"},
                    {"key": "old", "operator": "DoesNotExist"}]}),
            ),
        ];
        for (text, expected) in cases {
            let got =
                serde_json::to_value(parse_selector(text).expect(text)).expect("it can be written");
            assert_eq!(got, expected, "{text}");
        }
        for bad in [",", "a=b,", "=web", "a b", "a within (b)"] {
            assert!(parse_selector(bad).is_err(), "{bad}");
        }
    }
}
