//! A Kubernetes cluster as the source of a question. It is listed once, and decisions are
//! made in this process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::completions;
use crate::explain::number;
use crate::kubernetes::{
    ApiResource, ClusterClient, ListProgress, NeededObjects, ObjectSelection, READ_BY_ADMISSION,
    Target,
};
use crate::manifest::{Admission, LoadedObjects, ObjectName, WorkloadFinder, WorkloadPod};
use crate::matching::{revisions::has_replica_sets, selector_text};
use crate::snapshot::{ObjectKind, OwnerKind};
use crate::visible;

/// The time between two updates of the shown progress.
const TICK: Duration = Duration::from_millis(100);

/// The flags that select a cluster.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct ClusterArgs {
    /// List a Kubernetes cluster once, and decide in this process, without a server
    ///
    /// It is that of kubectl's current context, or the one around this pod.
    /// Needs the permission to list nodes, pods, services, replication
    /// controllers, replica sets and stateful sets.
    #[arg(id = "from-cluster", long)]
    pub(super) from_cluster: bool,

    /// Context of the kubeconfig whose cluster to list, as --from-cluster does
    #[arg(id = "context", long, value_name = "NAME", add = completions::contexts())]
    context: Option<String>,

    /// Kubeconfig instead of KUBECONFIG or ~/.kube/config; its cluster is listed
    #[arg(id = "kubeconfig", long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// Returns whether the question is about a cluster.
    pub(crate) fn is_asked(&self) -> bool {
        self.from_cluster || self.context.is_some() || self.kubeconfig.is_some()
    }

    /// The selected cluster.
    pub(crate) fn target(&self) -> Target {
        Target {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}

/// Lists all objects that a question needs, and shows the progress. Passes them to `take`, part by
/// part. Returns the kinds that were listed in one namespace only.
pub(crate) async fn load(
    cluster: &ClusterClient,
    needed: NeededObjects<'_>,
    take: impl AsyncFnMut(LoadedObjects) -> Result<()>,
) -> Result<Vec<&'static ApiResource>> {
    let bar = bar(cluster);
    let mut told = |progress| tell(&bar, progress);
    let narrowed = cluster.list_needed(needed, &mut told, take).await;
    bar.finish_and_clear();
    narrowed
}

/// Returns the pod of the object called `name`, which has to have a kind and a namespace.
pub(crate) async fn find(cluster: &ClusterClient, name: &ObjectName) -> Result<WorkloadPod> {
    let resource = resource(name.kind.as_deref().unwrap_or_default())?;
    let namespace = name.namespace.as_deref().unwrap_or_default();
    let mut finder = WorkloadFinder::in_cluster(name.clone());
    let is_there = offer(cluster, resource, name, &mut finder).await?;
    anyhow::ensure!(is_there, "cluster {} has no {name}", cluster.name);
    finder.admit_by(admission(cluster, namespace).await);
    Ok(finder.finish(&cluster.source().to_string())?)
}

/// Offers the object called `name` to `finder`, and the ReplicaSets that create the pods of a
/// Deployment or Rollout. Returns whether the object is there.
pub(super) async fn offer(
    cluster: &ClusterClient,
    resource: &'static ApiResource,
    name: &ObjectName,
    finder: &mut WorkloadFinder,
) -> Result<bool> {
    let namespace = name.namespace.as_deref().unwrap_or_default();
    let source = cluster.source();
    let Some(object) = cluster.get(resource, namespace, &name.name).await? else {
        return Ok(false);
    };
    finder.offer_object(object, &source);
    let referred = finder.referred();
    let referred = referred.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    if let Some((kind, name)) = referred {
        let template = cluster
            .get(self::resource(&kind)?, namespace, &name)
            .await?;
        template
            .into_iter()
            .for_each(|it| finder.offer_object(it, &source));
    }
    if has_replica_sets(resource.kind) {
        let selector = finder.selector().as_ref().map(selector_text);
        let made_by = ApiResource::of(ObjectKind::Owner(OwnerKind::ReplicaSet));
        let selector = selector.unwrap_or_default();
        for object in listed(cluster, made_by, Some(namespace), &selector).await? {
            finder.offer_object(object, &source);
        }
    }
    Ok(true)
}

/// Returns the objects that admission reads when a pod is created in `namespace`. Kinds that the
/// account may not list are reported if they could matter.
pub(crate) async fn admission(cluster: &ClusterClient, namespace: &str) -> Admission {
    let mut admission = Admission::default();
    for resource in &READ_BY_ADMISSION {
        match listed(cluster, resource, Some(namespace), "").await {
            Ok(objects) => objects.iter().for_each(|object| admission.offer(object)),
            Err(error) => admission.is_without(resource.kind, error.to_string()),
        }
    }
    admission.is_listed();
    admission
}

/// The resource whose objects are of `kind`.
pub(crate) fn resource(kind: &str) -> Result<&'static ApiResource> {
    ApiResource::of_kind(kind).with_context(|| {
        let fault = ObjectName::unknown_kind(kind);
        let fault = fault.unwrap_or_else(|| format!("{kind} is no workload"));
        format!(
            "{fault}: in a cluster a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, \
             CronJob, ReplicationController, Rollout or CloneSet can be looked up; name one, or \
             give a file with -f"
        )
    })
}

/// Lists the objects of a resource.
pub(crate) async fn listed(
    cluster: &ClusterClient,
    resource: &'static ApiResource,
    namespace: Option<&str>,
    labels: &str,
) -> Result<Vec<Value>> {
    let bar = bar(cluster);
    let wanted = ObjectSelection {
        resource,
        namespace,
        labels,
        fields: "",
    };
    let mut told = |progress| tell(&bar, progress);
    let listed = cluster.list(wanted, &mut told).await;
    bar.finish_and_clear();
    Ok(listed?)
}

/// A line on standard error that shows the progress of listing a cluster.
fn bar(cluster: &ClusterClient) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}");
    let bar = ProgressBar::new_spinner().with_style(style.expect("the template is valid"));
    bar.set_prefix(format!("listing cluster {}", visible::text(&cluster.name)));
    bar.enable_steady_tick(TICK);
    bar
}

fn tell(bar: &ProgressBar, progress: ListProgress) {
    let (resource, objects) = (progress.resource, progress.objects);
    let all = progress.remaining.map_or_else(String::new, |remaining| {
        format!(" of {}", number(objects.saturating_add_signed(remaining)))
    });
    bar.set_message(format!("{}{all} {}", number(objects), resource.plural));
}
