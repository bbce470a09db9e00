//! `evenkeel scale-down`: plans which pods of a workload go.

use anyhow::Result;
use clap::Args;

use super::about::{AboutWorkloads, compile_selector};
use super::args;
use super::cluster;
use super::exit::Exit;
use super::output;
use super::render;
use super::source;
use super::stored::{Controllers, name_of, namespace_of, pods_of};
use crate::manifest::{LoadedObjects, ObjectName, WorkloadFinder};
use crate::matching::revisions::is_scaled_by_revisions;
use crate::proto::v1::{
    LabelSelector, Pod, PodFacts, RankRemovalsRequest, TopologySpreadConstraint,
};
use crate::spread::describe::selects;

/// Flags of `evenkeel scale-down`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is deleted. A StatefulSet removes the pods with the highest ordinals: these are named, and
what is left. A ReplicaSet, also one of a Deployment or Rollout, and a CloneSet remove first what is on
no node or not ready; of the others those are named after which the rest is spread best: by the hard
constraints first, then by the soft ones, then in the order in which a ReplicaSet deletes pods. Give
these the lowest controller.kubernetes.io/pod-deletion-cost, and then scale down: a pod that is
deleted by hand is made again. DaemonSets and Jobs have no number of replicas.

Whether pods are ready, their deletion cost, restarts and age are known of files and clusters; a server
does not keep them.

Examples:
  evenkeel scale-down -n shop deploy/web --by 3 --load cluster.json
  evenkeel scale-down sts/shop/db --by 1 -o name")]
pub(crate) struct ScaleDownCommand {
    /// The workload: the kind and name of its pods' controller, e.g. deploy/web
    ///
    /// Kinds have kubectl's names, and KIND/NAMESPACE/NAME names another
    /// namespace than --namespace.
    #[arg(value_name = "KIND/NAME", value_parser = ObjectName::with_kind)]
    object: ObjectName,

    /// Namespace of the workload
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// By how many replicas to scale down
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(1..),
        allow_negative_numbers = true
    )]
    by: i32,

    #[command(flatten)]
    at_least: args::MinRevision,

    #[command(flatten)]
    state: source::SnapshotSource,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl ScaleDownCommand {
    /// Asks for a plan and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        let about = AboutWorkloads::one(&self.object, self.namespace.as_ref());
        let (opened, mut finder) = self.state.open_about(about.in_files()).await?;
        let selector = finder.selector();
        let question = about.named(&self.state, selector.clone());
        let named = self.object.clone().or_in(&question.namespace);
        let kind = named.kind.as_deref().unwrap_or_default();
        if is_scaled_by_revisions(kind) && self.state.asks_cluster() {
            finder = WorkloadFinder::in_cluster(named.clone());
            let cluster = self.state.connect().await?;
            cluster::offer(&cluster, cluster::resource(kind)?, &named, &mut finder).await?;
        }
        let revisions = finder.revision_sizes(self.by);
        let is_known = !revisions.is_empty();
        let objects = opened.objects;
        let request = RankRemovalsRequest {
            snapshot: self.state.snapshot().to_owned(),
            namespace: question.namespace,
            workload: question.workload,
            count: self.by,
            pods: objects.map_or_else(Vec::new, |objects| {
                facts(&objects, &named, selector.as_ref())
            }),
            revisions,
            min_revision: self.at_least.min_revision,
            max_domains: match self.output.output {
                // All domains are needed, because before and after are shown side by side.
                format if format.is_for_person() => Some(0),
                _ => None,
            },
            ..Default::default()
        };
        let (client, state) = (&opened.client, &self.state);
        let answer = client.call(request).await;
        let answer = about.or_nearest(answer, client, state).await?;
        let names = || {
            let removals = answer.removals.iter();
            removals.map(|removal| removal.name.clone()).collect()
        };
        let (gone, wanted) = (answer.removals.len() as i64, i64::from(self.by));
        if is_known && gone < wanted.min(answer.pod_count) && answer.revisions.is_empty() {
            output::warn(&format!(
                "{gone} of {wanted} go: the {kind} has fewer pods than it wants"
            ));
        } else if is_known && gone < wanted.min(answer.pod_count) {
            output::warn(&format!(
                "{gone} of {wanted} go now: in a rollout the controller gives each revision its own \
                 number of pods. The others go when the rollout ends"
            ));
        } else if !is_known && !answer.revisions.is_empty() {
            output::warn(&format!(
                "the {kind} and its ReplicaSets are not known here: revisions are taken to shrink \
                 in proportion to their pods"
            ));
        }
        let page = || render::scale_down(&self.state.source(), &named.to_string(), &answer);
        self.output.print(&answer, page, names)?;
        let is_hard = |constraint: &TopologySpreadConstraint| {
            constraint.when_unsatisfiable == "DoNotSchedule"
        };
        let violated = answer.after.iter().any(|topology| {
            topology.excess > 0 && topology.constraint.as_ref().is_some_and(is_hard)
        });
        Ok(Exit::of(!violated))
    }
}

/// Returns the facts that the objects have about the pods of a workload, which `selector` may find.
fn facts(
    objects: &LoadedObjects,
    named: &ObjectName,
    selector: Option<&LabelSelector>,
) -> Vec<PodFacts> {
    let namespace = named.namespace.clone().unwrap_or_default();
    let controllers = Controllers::of(&objects.changes);
    let selector = selector.and_then(|selector| compile_selector(selector).ok());
    let is_selected = |pod: &Pod| selector.as_ref().is_some_and(|it| selects(it, pod));
    let own = pods_of(&objects.changes).filter(|pod| namespace_of(pod) == namespace);
    let own = own.filter(|pod| controllers.are_of(pod, named) || is_selected(pod));
    let found = own.filter_map(|pod| {
        let place = (namespace.clone(), name_of(pod).to_owned());
        objects.pod_facts.get(&place).cloned()
    });
    found.collect()
}
