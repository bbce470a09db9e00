//! The workloads that a command is about: one by its name, or those with pods in a namespace.

use anyhow::Result;
use clap::Args;

use super::backend::Client;
use super::live_names;
use super::matched::{PodScope, with_nearest};
use super::selector;
use super::source::{QuestionScope, SnapshotSource};
use crate::manifest::ObjectName;
use crate::matching::names::DEFAULT_NAMESPACE;
use crate::proto::v1::{LabelSelector, WorkloadName};

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
        add = live_names::objects()
    )]
    pub(super) object: Option<ObjectName>,
    /// Namespace; by default all, or `default` with a workload
    #[arg(short, long, value_name = "NAMESPACE", add = live_names::namespaces())]
    pub(super) namespace: Option<String>,
    /// All namespaces: the default where no workload is named
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "object"])]
    all_namespaces: bool,
    /// Workloads with pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector::parse)]
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
