//! `evenkeel place`: places many replicas of a pod, or a fleet's placement.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::decide::{ANSWER, LoadedQuestion, QuestionArgs};
use super::exit::Exit;
use super::render::{self, Page};
use super::stored::{self, PodsThere};
use super::{args, output, what_if};
use crate::manifest::{PlacementPolicy, Preference, WorkloadFinder, WorkloadPod};
use crate::proto::v1::{
    Affinity, Completeness, Dialect, FilterRequest, NodeAffinity, NodeBonus, NodeChecks, NodeNames,
    NodeSelector, NodeSelectorTerm, PlaceRequest, PlaceResponse, Placement, Planning, Pod, PodSpec,
    Reservation, Toleration, View, WorkloadReplicas, hint,
};

/// Flags of `evenkeel place`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel place -f deployment.yaml --replicas 12           12 in all
  evenkeel place deploy/web --add 2                         2 more
  evenkeel place -f deployment.yaml --load cluster.json -o name
  evenkeel place -f deployment.yaml --joint             plan all replicas together
  evenkeel place -f app.yaml --all-or-nothing           all workloads of a file, or none
  evenkeel place -f deployment.yaml --reserve 5m --owner my-controller -o json
  evenkeel place -f deployment.yaml --reserve 5m --request-id $ID      safe to send again
  evenkeel place -f placement.yaml --load fleet.yaml        a KubeFleet placement")]
pub(crate) struct PlaceCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,

    /// How many replicas there are to be in all, as for kubectl scale
    ///
    /// Those that the workload has in the snapshot count; the others are
    /// placed. The default is the workload's own number or, where a server
    /// knows only its pods, one more. For a placement with PickN clusters that
    /// already hold it count.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(0..),
        allow_negative_numbers = true
    )]
    replicas: Option<i32>,

    /// How many replicas to place beside those that the workload has
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(1..),
        allow_negative_numbers = true,
        conflicts_with = "replicas"
    )]
    add: Option<i32>,

    /// Plan all replicas together where one after the other leaves some without a node
    ///
    /// Each is still accepted after those before it. Not for placements of KubeFleet.
    #[arg(long)]
    joint: bool,

    /// Place nothing, and reserve nothing, unless all replicas find a node: a gang
    ///
    /// Not for placements of KubeFleet.
    #[arg(long)]
    all_or_nothing: bool,

    /// Reserve the picks for this long, e.g. 5m
    ///
    /// A reservation counts in every later decision until it is confirmed,
    /// released or expired.
    #[arg(long, value_name = "TTL", value_parser = humantime::parse_duration)]
    reserve: Option<Duration>,

    /// Owner of the reservations
    #[arg(
        long,
        value_name = "NAME",
        default_value = "evenkeel-place",
        requires = "reserve"
    )]
    owner: String,

    /// Id of this request, e.g. a UUID, that makes it safe to send again
    ///
    /// Within the TTL the same id gets the same answer, and nothing is reserved
    /// twice. The same id with another request is refused.
    #[arg(
        long,
        value_name = "ID",
        value_parser = NonEmptyStringValueParser::new(),
        requires = "reserve"
    )]
    request_id: Option<String>,
}

impl PlaceCommand {
    /// Places the replicas and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        anyhow::ensure!(
            self.reserve.is_none() || !self.question.state.is_local(),
            "--reserve with --load or a cluster: a reservation is kept by a server, and nothing of \
             this process outlives it; load into a server with `evenkeel load` and ask that"
        );
        let all = WorkloadFinder::finish_all;
        let asked = match self.reserve {
            // A server reserves only on its own state, so no objects are added by an overlay.
            Some(_) => self.question.open(all).await?,
            None => self.question.open_new(all).await?,
        };
        anyhow::ensure!(
            self.add.is_none() || asked.workload.policy.is_none(),
            "--add: a placement says how many clusters it wants in all"
        );
        anyhow::ensure!(
            asked.workload.object.kind != "DaemonSet",
            "a DaemonSet has no replicas to place: it runs a pod on each node that its template admits. \
             `evenkeel filter` lists these, and `evenkeel explain --pending` says why pods wait"
        );
        let answer = match asked.workload.policy.clone() {
            None => return self.place_workloads(asked).await,
            Some(_) if !asked.others.is_empty() => return self.place_workloads(asked).await,
            Some(PlacementPolicy::PickN {
                clusters,
                preferences,
            }) => {
                let request = PlaceRequest {
                    replicas: self.replicas.unwrap_or(clusters),
                    pod: Some(asked.workload.pod.clone()),
                    bonuses: self.bonuses(&asked, &preferences).await?,
                    ..self.request(&asked)?
                };
                self.question.ask(&asked, request).await?
            }
            Some(PlacementPolicy::PickAll) => self.pick(&asked, None).await?,
            Some(PlacementPolicy::PickFixed(names)) => self.pick(&asked, Some(names)).await?,
        };
        let there = PodsThere::default();
        self.print(&asked, &answer, |head, answer| {
            render::place(head, answer, &there)
        })
        .await
    }

    /// Places the replicas that workloads lack, several workloads together, and prints the answer.
    async fn place_workloads(&self, mut asked: LoadedQuestion) -> Result<Exit> {
        let is_one = asked.others.is_empty();
        anyhow::ensure!(
            is_one || self.replicas.is_none() && self.add.is_none(),
            "--replicas and --add are about one workload: say which with --name KIND/NAME"
        );
        let (mut names, mut workloads, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for workload in asked.workloads() {
            let there = self.question.pods_there(&asked, workload).await?;
            for missing in missing(workload, &there, self.replicas, self.add)? {
                let pod = missing.pod.as_ref().map_or("", stored::name_of);
                names.push(match pod {
                    "" => workload.name.clone(),
                    pod => format!("{}, pod {pod}", workload.name),
                });
                workloads.push(missing);
            }
            all.push(there);
        }
        all.iter()
            .for_each(|there| self.take_out_waiting(&mut asked, there));
        if is_one {
            return self.place_one(&asked, &all[0], workloads).await;
        }
        anyhow::ensure!(
            !workloads.is_empty(),
            "all replicas of the workloads are in the snapshot already"
        );
        let request = PlaceRequest {
            workloads,
            ..self.request(&asked)?
        };
        let answer: PlaceResponse = self.question.ask(&asked, request).await?;
        self.print(&asked, &answer, |head, answer| {
            render::place_together(head, answer, &names)
        })
        .await
    }

    /// Places what one workload lacks, and prints the answer.
    async fn place_one(
        &self,
        asked: &LoadedQuestion,
        there: &PodsThere,
        mut workloads: Vec<WorkloadReplicas>,
    ) -> Result<Exit> {
        let is_list = asked.workload.has_own_claims();
        let mut answer = if workloads.is_empty() {
            PlaceResponse {
                revision: there.answer.revision,
                epoch: there.answer.epoch.clone(),
                defaults: there.answer.defaults,
                ..PlaceResponse::default()
            }
        } else {
            let mut request = self.request(asked)?;
            match is_list {
                true => request.workloads = workloads,
                false => {
                    let one = workloads.swap_remove(0);
                    (request.replicas, request.pod) = (one.replicas, one.pod);
                }
            }
            self.question.ask(asked, request).await?
        };
        if let Some(pods) = &asked.workload.numbered {
            let unnamed = answer.placements.iter_mut();
            let unnamed = unnamed.filter(|placement| placement.pod_name.is_empty());
            for (placement, ordinal) in unnamed.zip(there.missing(pods)) {
                placement.pod_name = pods.name(ordinal);
            }
        }
        if answer.unplaced > 0 && answer.placements.is_empty() && !is_list {
            self.tell_preemption(asked).await?;
        }
        self.print(asked, &answer, |head, answer| {
            render::place(head, answer, there)
        })
        .await
    }

    /// Says where kube-scheduler would make room for a pod that fits nowhere.
    async fn tell_preemption(&self, asked: &LoadedQuestion) -> Result<()> {
        let (pod, changes) = (&asked.workload.pod, &asked.overlay.changes);
        let request = self.question.explain_request(pod, changes, false);
        let explained = self.question.ask(asked, request).await?;
        let hints = explained.hints.iter();
        hints
            .filter(|hint| hint.kind() == hint::Kind::Preemption)
            .for_each(|hint| output::warn(&hint.message));
        Ok(())
    }

    /// Deletes pods that wait for a node in the overlay, because they are placed themselves. What is
    /// reserved is reserved on the state without an overlay.
    fn take_out_waiting(&self, asked: &mut LoadedQuestion, there: &PodsThere) {
        if self.reserve.is_some() {
            return;
        }
        for name in &there.waiting {
            let pod = what_if::pod_called(&there.namespace, name);
            asked.overlay.delete(pod);
        }
    }

    /// Prints an answer. `page` returns it for a person.
    async fn print(
        &self,
        asked: &LoadedQuestion,
        answer: &PlaceResponse,
        page: impl FnOnce(&render::Head<'_>, &PlaceResponse) -> Page,
    ) -> Result<Exit> {
        let node = |placement: &Placement| placement.node.clone();
        let names = |answer: &PlaceResponse| answer.placements.iter().map(node).collect();
        let format = self.output.output;
        let printed = self.question.print(asked, format, answer, page, names);
        printed.await?;
        let there = asked.there.get().filter(|_| !format.is_for_person());
        let waiting = there.and_then(|there| render::waiting(there));
        waiting.iter().for_each(|line| output::warn(line));
        Ok(Exit::of(answer.unplaced == 0))
    }

    /// The parts of the request that are the same for one and for several workloads.
    fn request(&self, asked: &LoadedQuestion) -> Result<PlaceRequest> {
        anyhow::ensure!(
            self.reserve.is_none() || asked.overlay.changes.is_empty(),
            "--reserve: a server reserves only on the state that it holds; leave out --overlay and \
             --overlay-delete, and pods that are in the snapshot already"
        );
        let reserve = self.reserve.map(|ttl| Reservation {
            owner: self.owner.clone(),
            ttl: Some(ttl.into()),
        });
        let of_plan = self.output.max_domains_of_plan();
        let max_domains = of_plan.or_else(|| self.question.max_domains(false));
        let completeness = match self.all_or_nothing {
            true => Completeness::AllOrNothing,
            false => Completeness::Unspecified,
        };
        let planning = match self.joint {
            true => Planning::Joint,
            false => Planning::Unspecified,
        };
        Ok(PlaceRequest {
            snapshot: self.question.state.snapshot().to_owned(),
            dialect: asked.workload.dialect().into(),
            candidates: self.question.candidates(),
            node_checks: self.question.node_checks().into(),
            min_revision: self.question.at_least.min_revision,
            overlay: asked.overlay.changes.clone(),
            reserve,
            request_id: self.request_id.clone().unwrap_or_default(),
            max_domains,
            planning: planning.into(),
            completeness: completeness.into(),
            ..PlaceRequest::default()
        })
    }

    /// Answers for the policies PickAll and PickFixed, which spread nothing.
    async fn pick(
        &self,
        asked: &LoadedQuestion,
        names: Option<Vec<String>>,
    ) -> Result<PlaceResponse> {
        anyhow::ensure!(
            self.reserve.is_none(),
            "--reserve: only a PickN policy reserves"
        );
        anyhow::ensure!(
            self.replicas.is_none(),
            "--replicas: only a PickN policy counts clusters"
        );
        let mut pod = asked.workload.pod.clone();
        if let Some(spec) = &mut pod.spec {
            spec.topology_spread_constraints.clear();
        }
        // Named clusters are picked without checks of their labels and taints.
        let checks = match names {
            Some(_) => NodeChecks::SpreadOnly,
            None => self.question.node_checks(),
        };
        let names = names.map(|names| NodeNames { names });
        let question = &self.question;
        let request = FilterRequest {
            dialect: Dialect::Fleet.into(),
            candidates: names.or_else(|| question.candidates()),
            node_checks: checks.into(),
            view: View::Basic.into(),
            ..question.filter_request(&pod, &asked.overlay.changes)
        };
        let answer = self.question.ask(asked, request).await?;
        let placement = |node| Placement {
            node,
            ..Default::default()
        };
        Ok(PlaceResponse {
            revision: answer.revision,
            epoch: answer.epoch,
            placements: answer.feasible.into_iter().map(placement).collect(),
            unplaced: i32::try_from(answer.unknown_candidates.len()).unwrap_or(i32::MAX),
            reasons: answer.reasons,
            unknown_candidates: answer.unknown_candidates,
            ..Default::default()
        })
    }

    /// Returns the bonuses of clusters by a policy's preferences. The server finds the matching
    /// clusters.
    async fn bonuses(
        &self,
        asked: &LoadedQuestion,
        preferences: &[Preference],
    ) -> Result<Vec<NodeBonus>> {
        let mut bonuses: BTreeMap<String, i64> = BTreeMap::new();
        for Preference { weight, term } in preferences {
            let request = FilterRequest {
                snapshot: self.question.state.snapshot().to_owned(),
                pod: Some(matching(term.as_ref())),
                min_revision: self.question.at_least.min_revision,
                view: View::Basic.into(),
                ..Default::default()
            };
            let answer = self.question.ask(asked, request).await?;
            for node in answer.feasible {
                *bonuses.entry(node).or_default() += weight;
            }
        }
        let bonus = |(node, score)| NodeBonus { node, score };
        Ok(bonuses.into_iter().map(bonus).collect())
    }
}

/// The replicas of a workload that are on no node, up to `replicas` in all or `add` more. Each pod of a
/// StatefulSet with claims of its own is one by itself.
pub(super) fn missing(
    workload: &WorkloadPod,
    there: &PodsThere,
    replicas_in_all: Option<i32>,
    add: Option<i32>,
) -> Result<Vec<WorkloadReplicas>> {
    let wanted = replicas_in_all
        .or(workload.replicas)
        .filter(|_| add.is_none());
    anyhow::ensure!(
        wanted.is_none_or(|wanted| wanted > 0),
        "{} wants 0 replicas: say with --replicas how many there are to be, 1 or more",
        workload.name
    );
    let more = add.unwrap_or(1);
    let more = there.waiting.len() + usize::try_from(more).unwrap_or(0);
    let wanted = wanted.map(|wanted| usize::try_from(wanted).unwrap_or(0));
    let Some(pods) = &workload.numbered else {
        let missing = wanted.map(|wanted| wanted.saturating_sub(there.on_nodes.len()));
        return Ok(replicas(&workload.pod, missing.unwrap_or(more)));
    };
    let missing = there.missing(pods);
    let ordinals: Vec<u32> = match wanted {
        Some(wanted) => {
            let end = pods
                .start
                .saturating_add(u32::try_from(wanted).unwrap_or(u32::MAX));
            missing.take_while(|ordinal| *ordinal < end).collect()
        }
        None => missing.take(more).collect(),
    };
    if !workload.has_own_claims() {
        return Ok(replicas(&workload.pod, ordinals.len()));
    }
    let one = |(index, ordinal): (usize, u32)| WorkloadReplicas {
        pod: Some(pods.pod(&workload.pod, ordinal)),
        replicas: 1,
        after_previous: index > 0 && !pods.is_parallel,
    };
    Ok(ordinals.into_iter().enumerate().map(one).collect())
}

/// Alike replicas of a pod, if there are any.
fn replicas(pod: &Pod, count: usize) -> Vec<WorkloadReplicas> {
    let replicas = i32::try_from(count).unwrap_or(i32::MAX);
    let some = (replicas > 0).then(|| WorkloadReplicas {
        pod: Some(pod.clone()),
        replicas,
        after_previous: false,
    });
    some.into_iter().collect()
}

/// A pod that may run on all nodes that match `term`.
fn matching(term: Option<&NodeSelectorTerm>) -> Pod {
    let required = term.map(|term| NodeSelector {
        node_selector_terms: vec![term.clone()],
    });
    let anything = Toleration {
        operator: "Exists".to_owned(),
        ..Default::default()
    };
    Pod {
        spec: Some(PodSpec {
            tolerations: vec![anything],
            affinity: Some(Affinity {
                node_affinity: Some(NodeAffinity {
                    required_during_scheduling_ignored_during_execution: required,
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
