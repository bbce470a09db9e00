//! `evenkeel scale-down`: plans which pods of a workload go.

use anyhow::Result;
use clap::Args;

use super::about::AboutWorkloads;
use super::args::AnswerFlags;
use super::cluster;
use super::exit::Exit;
use super::output;
use super::render;
use crate::manifest::{LoadedObjects, ObjectName, WorkloadFinder};
use crate::matching::revisions::is_scaled_by_revisions;
use crate::proto::v1::{PodFacts, RankRemovalsRequest, TopologySpreadConstraint};

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
    answer: AnswerFlags,
}

impl ScaleDownCommand {
    /// Asks for a plan and prints it.
    pub(crate) async fn run(self) -> Result<Exit> {
        let about = AboutWorkloads::one(&self.object, self.namespace.as_ref());
        let mut asked = about.open(&self.answer.state).await?;
        let named = self.object.clone().or_in(&asked.namespace);
        let kind = named.kind.as_deref().unwrap_or_default();
        if is_scaled_by_revisions(kind) && self.answer.state.asks_cluster() {
            let finder = &mut asked.finder;
            *finder = WorkloadFinder::in_cluster(named.clone());
            let cluster = self.answer.state.connect().await?;
            cluster::offer(&cluster, cluster::resource(kind)?, &named, finder).await?;
        }
        let revisions = asked.finder.revision_sizes(self.by);
        let is_known = !revisions.is_empty();
        let objects = asked.opened.objects.as_ref();
        let request = RankRemovalsRequest {
            snapshot: self.answer.state.snapshot().to_owned(),
            namespace: asked.namespace.clone(),
            workload: asked.workload.clone(),
            count: self.by,
            pods: objects.map_or_else(Vec::new, |objects| facts(objects, &asked.namespace)),
            revisions,
            min_revision: self.answer.at_least.min_revision,
            max_domains: self.answer.output.max_domains_of_plan(),
            ..Default::default()
        };
        let answer = asked.opened.client.call(request).await;
        let answer = asked.or_nearest(answer).await?;
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
        let page = || render::scale_down(&self.answer.state.source(), &named.to_string(), &answer);
        self.answer.output.print(&answer, page, names)?;
        let is_hard = |constraint: &TopologySpreadConstraint| {
            constraint.when_unsatisfiable == "DoNotSchedule"
        };
        let violated = answer.after.iter().any(|topology| {
            topology.excess > 0 && topology.constraint.as_ref().is_some_and(is_hard)
        });
        Ok(Exit::of(!violated))
    }
}

/// Returns the facts that the objects have about the pods of a namespace. Those of other workloads are
/// ignored.
fn facts(objects: &LoadedObjects, namespace: &str) -> Vec<PodFacts> {
    let all = objects.pod_facts.iter();
    let own = all.filter(|((of, _), _)| of == namespace);
    own.map(|(_, facts)| facts.clone()).collect()
}
