//! `evenkeel place`: places many replicas of a pod, or a fleet's placement.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::args;
use super::decide::{ANSWER, QuestionArgs};
use super::exit::Exit;
use super::loaded_question::LoadedQuestion;
use super::output::AnswerFormat;
use super::render;
use super::stored;
use crate::manifest::{PlacementPolicy, Preference, WorkloadFinder, WorkloadPod};
use crate::proto::v1::{
    Affinity, Completeness, Dialect, FilterRequest, NodeAffinity, NodeBonus, NodeChecks, NodeNames,
    NodeSelector, NodeSelectorTerm, PlaceRequest, PlaceResponse, Placement, Planning, Pod, PodSpec,
    Reservation, Toleration, View, WorkloadReplicas,
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
  evenkeel place -f placement.yaml --load fleet.yaml        a KubeFleet placement

Exit codes:
  0  all replicas were placed
  1  some replicas found no node
  2  the request or its input was refused
  3  the server could not be reached, or did not answer in time")]
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
        if !asked.others.is_empty() {
            return self.place_together(&asked).await;
        }
        let mut there = 0;
        let answer = match asked.workload.policy.clone() {
            None => {
                let (snapshot, workload) = (self.question.state.snapshot(), &asked.workload);
                let has = stored::pods_there(&asked.client, snapshot, &workload.object).await?;
                let has = has.unwrap_or_default();
                there = has.workloads.first().map_or(0, |it| it.pod_count);
                match self.more(workload, there)? {
                    0 => PlaceResponse {
                        revision: has.revision,
                        epoch: has.epoch,
                        defaults: has.defaults,
                        ..PlaceResponse::default()
                    },
                    replicas => self.place(&asked, Vec::new(), replicas).await?,
                }
            }
            Some(PlacementPolicy::PickN {
                clusters,
                preferences,
            }) => {
                let bonuses = self.bonuses(&asked, &preferences).await?;
                let wanted = self.replicas.unwrap_or(clusters);
                self.place(&asked, bonuses, wanted).await?
            }
            Some(PlacementPolicy::PickAll) => self.pick(&asked, None).await?,
            Some(PlacementPolicy::PickFixed(names)) => self.pick(&asked, Some(names)).await?,
        };
        self.print(&asked, &answer, |head, answer| {
            render::place(head, answer, there)
        })
    }

    /// Places several workloads together, and prints the answer.
    async fn place_together(&self, asked: &LoadedQuestion) -> Result<Exit> {
        anyhow::ensure!(
            self.replicas.is_none() && self.add.is_none(),
            "--replicas and --add are about one workload: say which with --name KIND/NAME"
        );
        let (mut names, mut workloads) = (Vec::new(), Vec::new());
        for workload in asked.workloads() {
            let snapshot = self.question.state.snapshot();
            let has = stored::pods_there(&asked.client, snapshot, &workload.object).await?;
            let has = has.as_ref().and_then(|has| has.workloads.first());
            let there = has.map_or(0, |it| it.pod_count);
            let replicas = still_missing(workload.replicas.unwrap_or(1), there);
            if replicas > 0 {
                names.push(workload.name.as_str());
                workloads.push(WorkloadReplicas {
                    pod: Some(workload.pod.clone()),
                    replicas,
                });
            }
        }
        anyhow::ensure!(
            !workloads.is_empty(),
            "all replicas of the workloads are in the snapshot already"
        );
        let request = PlaceRequest {
            workloads,
            ..self.request(asked)?
        };
        let answer: PlaceResponse = self.question.ask(asked, request).await?;
        self.print(asked, &answer, |head, answer| {
            render::place_together(head, answer, &names)
        })
    }

    /// Prints an answer. `table` returns it as a table.
    fn print(
        &self,
        asked: &LoadedQuestion,
        answer: &PlaceResponse,
        table: impl FnOnce(&render::Head<'_>, &PlaceResponse) -> String,
    ) -> Result<Exit> {
        let node = |placement: &Placement| placement.node.clone();
        let names = |answer: &PlaceResponse| answer.placements.iter().map(node).collect();
        let format = self.output.output;
        self.question.print(asked, format, answer, table, names)?;
        Ok(Exit::of(answer.unplaced == 0))
    }

    /// Returns the number of replicas to place for a workload that has `there`.
    fn more(&self, workload: &WorkloadPod, there: i64) -> Result<i32> {
        if let Some(more) = self.add {
            return Ok(more);
        }
        let Some(wanted) = self.replicas.or(workload.replicas) else {
            return Ok(1);
        };
        anyhow::ensure!(
            wanted > 0,
            "{} wants 0 replicas: say with --replicas how many there are to be, 1 or more",
            workload.name
        );
        Ok(still_missing(wanted, there))
    }

    async fn place(
        &self,
        asked: &LoadedQuestion,
        bonuses: Vec<NodeBonus>,
        replicas: i32,
    ) -> Result<PlaceResponse> {
        let request = PlaceRequest {
            replicas,
            pod: Some(asked.workload.pod.clone()),
            bonuses,
            ..self.request(asked)?
        };
        self.question.ask(asked, request).await
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
        let max_domains = match self.output.output {
            // The table shows domains before and after, so all are needed: those with the fewest
            // pods may differ.
            AnswerFormat::Table => Some(0),
            _ => self.question.max_domains(false),
        };
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
            min_revision: self.question.min_revision,
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
                min_revision: self.question.min_revision,
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

/// The number of replicas that are still to be placed if `there` exist.
fn still_missing(wanted: i32, there: i64) -> i32 {
    let missing = i64::from(wanted).saturating_sub(there).max(0);
    i32::try_from(missing).unwrap_or(i32::MAX)
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
