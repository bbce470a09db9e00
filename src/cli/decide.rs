//! Questions about a pod: what `filter`, `score`, `place` and `explain` have in common, and the commands
//! `filter`, `score` and `explain`.

use std::collections::BTreeSet;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::about::{self, parse_selector};
use super::backend::{Answer, Client, UnaryRequest};
use super::exit::{Exit, RefusedCall, Unreachable};
use super::output::{self, Format};
use super::render::{self, Page};
use super::source::{self, QuestionScope};
use super::stored::{self, PodsThere};
use super::what_if::{self, Overlay, WhatIf};
use super::{args, completions, lint, pending};
use crate::kubernetes::ListedFor;
use crate::manifest::{self, FindPods, NotCounted, ObjectName, WorkloadFinder, WorkloadPod};
use crate::proto::v1::{
    Change, ExplainRequest, FilterRequest, LabelSelector, NodeChecks, NodeNames, NodeScore,
    ObjectMeta, ObjectReference, Pod, ScoreRequest, View,
};

/// The number of domains of a constraint that a table lists by default.
const TABLE_DOMAINS: i32 = 20;

/// The name in `unchecked` if the account may list only the pods of one namespace.
const OTHER_NAMESPACES: &str = "pods of other namespaces";

/// The entry in `unchecked` for a pod that names another scheduler.
pub(super) fn other_scheduler(name: &str) -> String {
    format!("spec.schedulerName ({name})")
}

/// Headings of the flags in `--help`.
const QUESTION: &str = "The question";
pub(super) const ANSWER: &str = "The answer";

/// Flags of a question.
#[derive(Debug, Args)]
pub(crate) struct QuestionArgs {
    /// The pod, or the workload whose next pod it is, by its name in the cluster: deploy/web, po/web-0
    ///
    /// Kinds have kubectl's names; KIND/NAMESPACE/NAME names another namespace
    /// than --namespace, which is `default` if not given. A workload's pod has
    /// its template's labels and its namespace. A server knows no workloads:
    /// there it is a pod like those that the workload has.
    #[arg(
        value_name = "KIND/NAME",
        value_parser = ObjectName::with_kind,
        conflicts_with_all = ["file", "name"],
        help_heading = "The pod",
        add = completions::objects()
    )]
    object: Option<ObjectName>,

    /// The pod: a Pod, a workload with a pod template, or a placement; - for standard input
    ///
    /// A workload is a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job,
    /// CronJob or ReplicationController. The pod is the one that a cluster makes
    /// of its template: with requests from limits, a LimitRange, RuntimeClass
    /// and PriorityClass that are there, and what its controller adds. For
    /// a ClusterResourcePlacement or ResourcePlacement of KubeFleet,
    /// KubeFleet's rules apply, with MemberClusters as nodes.
    #[arg(short, long, value_name = "FILE", help_heading = "The pod")]
    file: Option<PathBuf>,

    /// Which pod or workload of the file: KIND/NAME, KIND/NAMESPACE/NAME or NAME
    ///
    /// Kinds have kubectl's names: deploy/web, sts/db, pod/web-0.
    #[arg(long, value_name = "NAME", help_heading = "The pod")]
    name: Option<ObjectName>,

    /// Namespace of KIND/NAME; with --file, decide as if the pod were in it
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        help_heading = "The pod",
        add = completions::namespaces()
    )]
    pub(super) namespace: Option<String>,

    #[command(flatten, next_help_heading = "Cluster state")]
    pub(super) state: source::SnapshotSource,

    /// Check only the spread constraints
    ///
    /// Without this flag a node must also be schedulable, match the pod's node
    /// affinity and have no taint that the pod does not tolerate.
    #[arg(long, help_heading = QUESTION)]
    spread_only: bool,

    /// Decide only about these nodes; names joined by commas, or repeated
    #[arg(
        long = "candidate",
        value_name = "NODE",
        value_delimiter = ',',
        value_parser = |text: &str| ObjectName::name_of("Node", text),
        help_heading = QUESTION
    )]
    candidates: Vec<String>,

    #[command(flatten)]
    what_if: WhatIf,

    #[command(flatten, next_help_heading = QUESTION)]
    pub(super) at_least: args::MinRevision,

    /// List all nodes and domains, however many; otherwise a table has 50 nodes and 20 domains
    #[arg(long, help_heading = ANSWER)]
    pub(super) all: bool,
}

/// Warns of constraints in a file that nobody reads, and of their unknown fields.
fn tell_written_wrongly(finder: &WorkloadFinder) {
    for (template, source) in finder.templates() {
        for said in lint::fields::written_wrongly(&template) {
            let (object, field) = (&template.object.name, &said.field);
            output::warn(&format!("{source}: {object}, {field}: {}", said.message));
        }
    }
}

impl QuestionArgs {
    /// Reads the overlay and the pods that `find` finds in the file, and connects to the source of
    /// the answer.
    pub(crate) async fn open(&self, find: FindPods) -> Result<LoadedQuestion> {
        let namespace = self.namespace.as_deref();
        self.state.is_listed_for(match self.spread_only {
            true => ListedFor::CountingSpread,
            false => ListedFor::Deciding,
        });
        let (overlay, opened, mut workloads) = match (&self.file, &self.object) {
            (Some(file), _) => {
                let overlay = self.overlay()?;
                let mut finder = WorkloadFinder::read(file, self.name.as_ref(), namespace)?;
                let place = file.display().to_string();
                // Faults of the file are reported before the source is opened.
                let found = find(&finder, &place)?;
                finder
                    .unapplied()
                    .iter()
                    .for_each(|it| output::warn(&it.to_string()));
                tell_written_wrongly(&finder);
                let of_pod = |found: &WorkloadPod| stored::namespace_of(&found.pod).to_owned();
                let mut namespaces: Vec<String> = found.iter().map(of_pod).collect();
                namespaces.dedup();
                self.state.is_about(match &*namespaces {
                    [one] => QuestionScope::Namespace(one.clone()),
                    _ => QuestionScope::All,
                });
                self.state.is_about_pods(&found);
                let opened = self.state.open_for_pods().await?;
                finder.admit_by(self.state.admission(&opened, finder.namespace()).await?);
                (overlay, opened, find(&finder, &place)?)
            }
            (None, Some(name)) => {
                let overlay = self.overlay()?;
                let (opened, workload) = self.state.open_named(name, namespace).await?;
                (overlay, opened, vec![workload])
            }
            (None, None) => anyhow::bail!(
                "which pod? Name it, or a workload, as kubectl does (deploy/web, pod/web-0), or \
                 give a file with -f"
            ),
        };
        opened.warn_of_lack(workloads.iter().map(|workload| &workload.pod));
        let others = workloads.split_off(1);
        let mut asked = LoadedQuestion {
            workload: workloads.remove(0),
            others,
            overlay,
            client: opened.client,
            taken_out: false,
            there: OnceLock::new(),
        };
        if let Some(pod) = what_if::named_pod(&asked.workload.pod) {
            self.take_out(&mut asked, pod).await?;
        }
        for workload in asked.workloads() {
            let snapshot = self.state.snapshot();
            let told = about::elsewhere(&asked.client, snapshot, workload).await?;
            told.iter().for_each(|told| output::warn(told));
        }
        let words = asked.not_counted().filter_map(|it| it.words.as_ref());
        for words in words.collect::<BTreeSet<_>>() {
            output::warn(words);
        }
        Ok(asked)
    }

    /// If the snapshot has the pod of the question, deletes it in the overlay, so that it does not count
    /// against itself.
    async fn take_out(&self, asked: &mut LoadedQuestion, pod: ObjectReference) -> Result<()> {
        if asked.overlay.mentions(&pod) {
            return Ok(());
        }
        let mut itself = Overlay::default();
        let metadata = ObjectMeta {
            namespace: pod.namespace.clone(),
            ..Default::default()
        };
        itself.delete(pod);
        let nobody = Pod {
            metadata: Some(metadata),
            ..Default::default()
        };
        let request = FilterRequest {
            candidates: Some(NodeNames::default()),
            view: View::Basic.into(),
            ..self.filter_request(&nobody, &itself.changes)
        };
        let names = || itself.names.clone();
        match asked.client.call_about(request, names).await {
            Ok(answer) if answer.unknown_deletes.is_empty() => {
                asked.taken_out = true;
                // The pod runs on this node, but need not run there again.
                let spec = asked.workload.pod.spec.as_mut();
                spec.into_iter().for_each(|spec| spec.node_name.clear());
                asked.overlay.changes.extend(itself.changes);
                asked.overlay.names.push("the pod itself".to_owned());
                Ok(())
            }
            Ok(_) => Ok(()),
            // No snapshot has such a pod. The question itself is told all that is wrong with it.
            Err(error) if RefusedCall::is_invalid(&error) => Ok(()),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Opens the question about one pod, as [`Self::open_new`] does. Of a StatefulSet it is the pod
    /// with the lowest number that is on no node: its controller creates that next.
    pub(crate) async fn open_one(&self) -> Result<LoadedQuestion> {
        let mut asked = self.open_new(WorkloadFinder::finish_one).await?;
        let is_named = self.object.is_some() && asked.workload.policy.is_none();
        if !is_named && asked.workload.numbered.is_none() {
            return Ok(asked);
        }
        let there = self.pods_there(&asked, &asked.workload).await?;
        if let Some((pod, name)) = there.next(&asked.workload) {
            asked.workload.pod = pod;
            asked.workload.name = format!("{}, pod {name}", asked.workload.name);
            let pod = what_if::pod_called(&there.namespace, &name);
            self.take_out(&mut asked, pod).await?;
        }
        Ok(asked)
    }

    /// The unfinished pods of a workload that are in the snapshot. Those of the first workload are
    /// asked for once.
    pub(crate) async fn pods_there(
        &self,
        asked: &LoadedQuestion,
        workload: &WorkloadPod,
    ) -> Result<Arc<PodsThere>> {
        let known = asked.there.get().filter(|it| it.of == workload.object);
        if let Some(there) = known {
            return Ok(Arc::clone(there));
        }
        let state = (self.state.snapshot(), self.at_least.min_revision);
        let there = stored::pods_there(&asked.client, state, workload, &asked.overlay).await;
        let there = Arc::new(there.map_err(|error| self.explain(error))?);
        let _ = asked.there.set(Arc::clone(&there));
        Ok(there)
    }

    /// Opens the question. Adds the objects that are created together with a workload that is not
    /// in the snapshot yet: its ReplicaSet or itself, and the Services of its namespace in the
    /// file.
    pub(crate) async fn open_new(&self, find: FindPods) -> Result<LoadedQuestion> {
        let mut asked = self.open(find).await?;
        let mut workloads = mem::take(&mut asked.others);
        workloads.insert(0, mem::take(&mut asked.workload));
        for workload in &mut workloads {
            let beside = self.beside(workload, &asked).await?;
            asked.overlay.suppose(beside);
        }
        asked.workload = workloads.remove(0);
        asked.others = workloads;
        Ok(asked)
    }

    /// Returns the objects that are created together with a workload that is not in the snapshot
    /// yet.
    async fn beside(
        &self,
        workload: &mut WorkloadPod,
        asked: &LoadedQuestion,
    ) -> Result<Vec<Change>> {
        let mut beside = mem::take(&mut workload.beside);
        if let Some(next) = workload.next_revision.take()
            && (next.has_others || self.pods_there(asked, workload).await?.is_empty())
        {
            workload.pod = next.pod;
            beside.push(next.replica_set);
        }
        let constraints = workload.pod.spec.as_ref();
        let constraints = constraints.map(|spec| &spec.topology_spread_constraints);
        // Only default constraints read these objects.
        let looks = constraints.is_none_or(Vec::is_empty) && workload.policy.is_none();
        Ok(if looks { beside } else { Vec::new() })
    }

    /// Reads the overlay: the changes that the question assumes.
    ///
    /// # Errors
    /// A file cannot be read, or standard input would be read twice.
    pub(crate) fn overlay(&self) -> Result<Overlay> {
        let readers = usize::from(self.file.as_deref() == Some(Path::new("-")))
            + usize::from(self.state.reads_standard_input())
            + usize::from(self.what_if.reads_standard_input());
        anyhow::ensure!(readers <= 1, manifest::ManifestError::StandardInputTwice);
        self.what_if.read().context("--overlay")
    }

    /// The request for Filter.
    pub(crate) fn filter_request(&self, pod: &Pod, overlay: &[Change]) -> FilterRequest {
        FilterRequest {
            snapshot: self.state.snapshot().to_owned(),
            pod: Some(pod.clone()),
            candidates: self.candidates(),
            node_checks: self.node_checks().into(),
            min_revision: self.at_least.min_revision,
            overlay: overlay.to_vec(),
            ..Default::default()
        }
    }

    /// The request for Explain; `for_person` is true if a person reads the answer.
    pub(crate) fn explain_request(
        &self,
        pod: &Pod,
        overlay: &[Change],
        for_person: bool,
    ) -> ExplainRequest {
        ExplainRequest {
            snapshot: self.state.snapshot().to_owned(),
            pod: Some(pod.clone()),
            candidates: self.candidates(),
            node_checks: self.node_checks().into(),
            view: View::Full.into(),
            min_revision: self.at_least.min_revision,
            overlay: overlay.to_vec(),
            max_domains: self.max_domains(for_person),
            ..Default::default()
        }
    }

    /// Returns how many pods like this one wait for a node.
    async fn waiting(&self, asked: &LoadedQuestion) -> Result<i32> {
        let workload = &asked.workload;
        match workload.replicas {
            None | Some(..=1) => Ok(1),
            Some(_) => Ok(self.pods_there(asked, workload).await?.alike(workload)),
        }
    }

    /// Sends a request to the source of the question. Adds the fields that are not checked to the
    /// answer.
    pub(crate) async fn ask<M>(&self, asked: &LoadedQuestion, request: M) -> Result<M::Answer>
    where
        M: UnaryRequest<Answer: Answer>,
    {
        let mut answer = self.call(&asked.client, &asked.overlay, request).await?;
        let schedulers = asked.workloads().filter_map(|it| it.scheduler.as_ref());
        let schedulers: BTreeSet<_> = schedulers.collect();
        for scheduler in schedulers {
            answer.unchecked().push(other_scheduler(scheduler));
        }
        for field in asked.not_counted().map(|it| it.field.to_owned()) {
            if !answer.unchecked().contains(&field) {
                answer.unchecked().push(field);
            }
        }
        Ok(answer)
    }

    /// Sends a request with an overlay to `client`.
    pub(crate) async fn call<M>(
        &self,
        client: &Client,
        overlay: &Overlay,
        request: M,
    ) -> Result<M::Answer>
    where
        M: UnaryRequest<Answer: Answer>,
    {
        let names = || overlay.names.clone();
        let answer = client.call_about(request, names).await;
        let mut answer = answer.map_err(|error| self.explain(error))?;
        Overlay::check_deleted(answer.unknown_deletes())?;
        if self.state.is_narrowed() {
            answer.unchecked().push(OTHER_NAMESPACES.to_owned());
        }
        Ok(answer)
    }

    /// Prints an answer. `page` and `names` return it in formats for a person, and by name.
    pub(crate) async fn print<T: Answer + Serialize>(
        &self,
        asked: &LoadedQuestion,
        format: Format,
        answer: &T,
        page: impl FnOnce(&render::Head<'_>, &T) -> Page,
        names: impl FnOnce(&T) -> Vec<String>,
    ) -> Result<()> {
        let head = render::Head {
            pod: &asked.workload.name,
            source: self.state.source(),
            all: self.all,
            taken_out: asked.taken_out,
            selected: asked.there.get().map_or(0, |there| there.selected),
        };
        let text = format.text(answer, || page(&head, answer), || names(answer))?;
        output::print(&text)?;
        let is_told = format.is_for_person();
        self.remark(asked, answer, is_told).await;
        Ok(())
    }

    /// Writes warnings about the question: unknown candidates, and, unless the answer says it
    /// (`is_told`), that the pod was taken out, and how the pods of its workload were found.
    async fn remark(&self, asked: &LoadedQuestion, answer: &impl Answer, is_told: bool) {
        if asked.taken_out && !is_told {
            output::warn(render::TAKEN_OUT);
        }
        let there = asked.there.get().filter(|_| !is_told);
        let selected = there.and_then(|there| render::found_by_selector(there.selected));
        selected.iter().for_each(|line| output::warn(line));
        let unknown = answer.unknown_candidates();
        if let Some(name) = unknown.first() {
            let nearest = about::nearest_nodes(&asked.client, self.state.snapshot(), name).await;
            let names = unknown.join(", ");
            output::warn(&format!("no such node in the snapshot: {names}{nearest}"));
        }
    }

    /// The nodes to decide about; `None` means all.
    pub(crate) fn candidates(&self) -> Option<NodeNames> {
        (!self.candidates.is_empty()).then(|| NodeNames {
            names: self.candidates.clone(),
        })
    }

    /// Returns the checks that nodes have to pass.
    pub(crate) fn node_checks(&self) -> NodeChecks {
        if self.spread_only {
            NodeChecks::SpreadOnly
        } else {
            NodeChecks::Unspecified
        }
    }

    /// Adds the awaited revision to the error of a call that was not answered in time.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match self.at_least.min_revision {
            revision if revision > 0 && error.is::<Unreachable>() => {
                error.context(format!("waiting for revision {revision}"))
            }
            _ => error,
        }
    }

    /// Returns the number of domains to request; `for_person` is true if a person reads the answer.
    pub(crate) fn max_domains(&self, for_person: bool) -> Option<i32> {
        match for_person {
            _ if self.all => Some(0),
            true => Some(TABLE_DOMAINS),
            false => None,
        }
    }
}

/// A question that is ready to be asked: its files are read, and the client is connected.
pub(crate) struct LoadedQuestion {
    /// The pod and the object that it comes from.
    pub(crate) workload: WorkloadPod,
    /// Other workloads of its file that are placed with it.
    pub(crate) others: Vec<WorkloadPod>,
    /// The changes that the question assumes.
    pub(crate) overlay: Overlay,
    /// The client that answers.
    pub(crate) client: Client,
    /// True if the pod is in the snapshot and is deleted by the overlay.
    pub(crate) taken_out: bool,
    /// The pods of the first workload that was asked for, once they are known.
    pub(crate) there: OnceLock<Arc<PodsThere>>,
}

impl LoadedQuestion {
    /// All workloads of the question, in the order of its file.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &WorkloadPod> {
        [&self.workload].into_iter().chain(&self.others)
    }

    /// The unknown additions of admission to the pods of all workloads.
    pub(crate) fn not_counted(&self) -> impl Iterator<Item = &NotCounted> {
        self.workloads().flat_map(|workload| &workload.missing)
    }
}

/// Flags of `evenkeel filter`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel filter -f pod.yaml
  evenkeel filter -f deployment.yaml --load cluster.json          (no server needed)
  evenkeel filter -f app.yaml --name statefulset/db --overlay-delete node/node-3
  evenkeel filter -f pod.yaml -o name | head -1")]
pub(crate) struct FilterCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
}

impl FilterCommand {
    /// Asks the question and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        let asked = question.open_one().await?;
        let view = match format {
            Format::Name => View::Basic,
            _ => View::Full,
        };
        let request = FilterRequest {
            dialect: asked.workload.dialect().into(),
            view: view.into(),
            max_domains: question.max_domains(format.is_table()),
            ..question.filter_request(&asked.workload.pod, &asked.overlay.changes)
        };
        let answer = question.ask(&asked, request).await?;
        question
            .print(&asked, format, &answer, render::filter, |answer| {
                answer.feasible.clone()
            })
            .await?;
        Ok(Exit::of(answer.feasible_count > 0))
    }
}

/// Flags of `evenkeel score`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel score -f pod.yaml
  evenkeel score -f deployment.yaml --load cluster.json --default-constraints system
  evenkeel score -f pod.yaml -o name | head -1")]
pub(crate) struct ScoreCommand {
    #[command(flatten)]
    question: QuestionArgs,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
}

impl ScoreCommand {
    /// Asks for scores and prints them, best first.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        let asked = question.open_one().await?;
        let request = ScoreRequest {
            snapshot: question.state.snapshot().to_owned(),
            dialect: asked.workload.dialect().into(),
            pod: Some(asked.workload.pod.clone()),
            candidates: question.candidates(),
            node_checks: question.node_checks().into(),
            view: View::Basic.into(),
            min_revision: question.at_least.min_revision,
            overlay: asked.overlay.changes.clone(),
            max_domains: question.max_domains(format.is_table()),
            // The service sorts the scores only if it gets a number, so there is always one.
            top: i32::MAX,
            ..Default::default()
        };
        let answer = question.ask(&asked, request).await?;
        let node = |score: &NodeScore| score.node.clone();
        question
            .print(&asked, format, &answer, render::score, |answer| {
                answer.scores.iter().map(node).collect()
            })
            .await?;
        Ok(Exit::of(!answer.scores.is_empty()))
    }
}

/// Flags of `evenkeel explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel explain -f pod.yaml
  evenkeel explain deploy/web -n shop --load cluster.json
  evenkeel explain --pending                                      every pod that waits for a node
  evenkeel explain -f deployment.yaml --load cluster.json         (no server needed)
  evenkeel explain -f deployment.yaml -o html > why.html")]
pub(crate) struct ExplainCommand {
    #[command(flatten)]
    question: QuestionArgs,

    /// Every pod that waits for a node, by workload, worst first
    ///
    /// Of all namespaces, or of --namespace. Of each workload the pod with the
    /// fewest nodes to go to is explained.
    #[arg(long, conflicts_with_all = ["object", "file", "name"], help_heading = "The pod")]
    pending: bool,

    /// With --pending: in all namespaces, which is what it does without --namespace
    #[arg(
        short = 'A',
        long,
        requires = "pending",
        conflicts_with = "namespace",
        help_heading = "The pod"
    )]
    all_namespaces: bool,

    /// With --pending: pods that match, in kubectl's syntax: app=web,tier in (a,b),!legacy
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        value_parser = parse_selector,
        requires = "pending",
        help_heading = "The pod"
    )]
    selector: Option<LabelSelector>,

    #[command(flatten, next_help_heading = ANSWER)]
    output: args::OutputFlag,
}

impl ExplainCommand {
    /// Asks the question and prints the answer.
    pub(crate) async fn run(self) -> Result<Exit> {
        let (question, format) = (self.question, self.output.output);
        if self.pending {
            return pending::explain(&question, self.selector.as_ref(), &self.output).await;
        }
        let asked = question.open_one().await?;
        let (pod, overlay) = (&asked.workload.pod, &asked.overlay.changes);
        let request = ExplainRequest {
            dialect: asked.workload.dialect().into(),
            waiting: question.waiting(&asked).await?,
            // A page gets all domains, because it folds long tables.
            ..question.explain_request(pod, overlay, format.is_table())
        };
        let answer = question.ask(&asked, request).await?;
        question
            .print(&asked, format, &answer, render::explain, |answer| {
                answer.feasible.clone()
            })
            .await?;
        Ok(Exit::of(answer.feasible_count > 0))
    }
}
