//! The input of a snapshot from files or a cluster: reads, checks, sends and summarizes it; and the command
//! `load`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use prost::Message;
use serde::Serialize;

use super::args::{self, RulesFlags, dumped_kinds};
use super::backend::Client;
use super::exit::{Exit, RefusedCall};
use super::{output, render, stored};
use crate::explain::{number, plural};
use crate::manifest::{self, LoadedObjects, WorkloadFinder};
use crate::matching::{Path, Violation};
use crate::proto::v1::stream_snapshot_request::Step;
use crate::proto::v1::{
    BeginReplace, Change, CommitReplace, DefaultConstraints, StreamSnapshotRequest,
    UpdateSnapshotRequest, UpdateSnapshotResponse,
};
use crate::snapshot::{Batch, Limits, ObjectKind};

/// The most repeated objects that are named.
const NAMED_REPEATS: usize = 5;
/// The most objects that are named of those that cannot be judged.
const NAMED_FAULTY: usize = 5;

/// The objects and settings for a snapshot.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) objects: Arc<LoadedObjects>,
    /// The default constraints: those of the flag, else those of the files.
    pub(crate) default_constraints: Option<DefaultConstraints>,
    /// The version of Kubernetes: that of the flag, else that of the objects' origin; empty if
    /// unknown.
    kubernetes_version: String,
    /// True if the default constraints are only assumed, because kube-scheduler has them.
    is_supposed: bool,
    /// True if all kinds were searched, so that missing objects do not exist.
    is_complete: bool,
}

impl Input {
    /// Reads `files`, and the default constraints that `--default-constraints` names. Offers each
    /// object to `finder`.
    pub(crate) fn read(
        files: &[PathBuf],
        rules: &RulesFlags,
        finder: Option<&mut WorkloadFinder>,
    ) -> Result<Self> {
        let sources = manifest::expand(files)?;
        Self::new(manifest::read_objects(sources, finder)?, rules, false)
    }

    /// Returns the listed objects of a cluster as input.
    pub(crate) fn of_cluster(objects: LoadedObjects, rules: &RulesFlags) -> Result<Self> {
        Self::new(objects, rules, true)
    }

    fn new(mut objects: LoadedObjects, rules: &RulesFlags, is_complete: bool) -> Result<Self> {
        let named = rules.default_constraints.as_deref();
        let named = named.map(manifest::read_default_constraints).transpose();
        let named = named.context("--default-constraints")?;
        let version = rules.kubernetes_version.map(|it| it.to_string());
        Ok(Self {
            default_constraints: named.or(objects.default_constraints.take()),
            kubernetes_version: version.unwrap_or_else(|| objects.kubernetes_version.clone()),
            objects: Arc::new(objects),
            is_supposed: false,
            is_complete,
        })
    }

    /// A part of a cluster, with the settings of this input.
    pub(crate) fn part(&self, objects: LoadedObjects) -> Self {
        Self {
            objects: Arc::new(objects),
            ..self.clone()
        }
    }

    /// The same input, with Kubernetes' own default constraints if it has none, as in
    /// kube-scheduler.
    pub(crate) fn or_system_defaults(mut self) -> Self {
        if self.default_constraints.is_none() {
            let is_fleet = self.objects.is_fleet;
            self.is_supposed = !is_fleet;
            // Fleets have no default constraints.
            self.default_constraints = Some(match is_fleet {
                true => DefaultConstraints::default(),
                false => manifest::system_default_constraints(),
            });
        }
        self
    }

    /// Returns the number of objects of each kind, e.g. `3 Node, 58 Pod`.
    pub(crate) fn loaded(&self) -> String {
        counted(&self.objects.kinds())
    }

    /// Returns the number of objects of each kind that no decision reads.
    pub(crate) fn skipped(&self) -> String {
        counted(&self.objects.skipped)
    }

    /// Leaves out the objects that cannot be judged, and returns each with its faults. An API server
    /// has admitted what a cluster has, but files may be written by hand: there, only values count
    /// that a newer version of Kubernetes may know. `None` if an object has another fault.
    fn leave_out_faulty(&mut self, limits: &Limits) -> Option<Vec<String>> {
        let mut faulty = Vec::new();
        let is_admitted = self.is_complete;
        let objects = Arc::make_mut(&mut self.objects);
        let mut kept = vec![true; objects.changes.len()];
        for (index, kept) in kept.iter_mut().enumerate() {
            let change = vec![objects.changes[index].clone()];
            if let Err(faults) = Batch::check(change, limits, Path::root("changes")) {
                if !is_admitted && !faults.iter().all(|fault| fault.is_unknown_value) {
                    return None;
                }
                *kept = false;
                let faults: Vec<String> = faults.iter().map(of_object).collect();
                faulty.push(format!(
                    "{}: {}",
                    objects.describe(index),
                    faults.join(", ")
                ));
            }
        }
        objects.keep(&kept);
        (!faulty.is_empty()).then_some(faulty)
    }

    /// Returns warnings about the files, one sentence each. With `replace` the files are the whole
    /// state, otherwise a part of it.
    pub(crate) fn warnings(&self, replace: bool) -> Vec<String> {
        let mut warnings = self.oddities(replace);
        warnings.extend(self.lack_of_owners().filter(|_| replace));
        warnings
    }

    /// The warnings that are true of every question.
    pub(crate) fn oddities(&self, replace: bool) -> Vec<String> {
        let repeated = &self.objects.repeated;
        let mut warnings: Vec<String> = repeated.iter().take(NAMED_REPEATS).cloned().collect();
        if repeated.len() > NAMED_REPEATS {
            let more = repeated.len() - NAMED_REPEATS;
            warnings.push(format!(
                "repeated besides these: {}",
                plural(more, "object")
            ));
        }
        if replace && !self.is_complete && !self.objects.kinds().contains_key("Node") {
            warnings.push("no Node in the files".to_owned());
        }
        warnings
    }

    /// The warning that default constraints select pods by objects that the files lack, which are the
    /// whole state.
    pub(crate) fn lack_of_owners(&self) -> Option<String> {
        let missing = self.missing_kinds();
        (!self.is_complete && !missing.is_empty()).then(|| {
            format!(
                "the files have no {}; default constraints apply only to pods that one of these selects",
                missing.join(", ")
            )
        })
    }

    /// The kinds that default constraints need but the files lack: Services, and the kinds of the
    /// pods' controllers.
    fn missing_kinds(&self) -> Vec<&'static str> {
        let defaults = self.default_constraints.as_ref();
        let kinds = self.objects.kinds();
        if !defaults.is_some_and(|it| it.system || !it.constraints.is_empty()) {
            return Vec::new();
        }
        // Default constraints do not apply to other pods.
        let pods =
            stored::pods_of(&self.objects.changes).filter(|pod| stored::has_no_constraints(pod));
        let metadata = pods.filter_map(|pod| pod.metadata.as_ref());
        let owners = metadata.flat_map(|metadata| &metadata.owner_references);
        let controllers = owners.filter(|owner| owner.controller == Some(true));
        let named: BTreeSet<&str> = controllers.map(|owner| &*owner.kind).collect();
        let any_named = || ObjectKind::all().any(|kind| named.contains(kind.as_str()));
        ObjectKind::all()
            .filter(|kind| matches!(kind, ObjectKind::Owner(owner) if owner.deduces()))
            .map(ObjectKind::as_str)
            .filter(|kind| !kinds.contains_key(kind))
            .filter(|kind| match *kind {
                // If the user did not ask for default constraints, a file of a few pods without
                // controllers may well have no Services.
                "Service" if self.is_supposed => any_named(),
                "Service" => kinds.contains_key("Pod"),
                kind => named.contains(kind),
            })
            .collect()
    }
}

/// What became of input that was sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadOutcome {
    #[serde(flatten)]
    pub(crate) answer: UpdateSnapshotResponse,
    /// The objects that were left out because they cannot be judged, each with its faults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
}

/// The warning that these objects were left out, if there are any.
pub(crate) fn left_out_warning(left_out: &[String]) -> Option<String> {
    let named = &left_out[..left_out.len().min(NAMED_FAULTY)];
    let more = match left_out.len() - named.len() {
        0 => String::new(),
        more => format!("; and {} more", number(more)),
    };
    (!named.is_empty()).then(|| {
        let named = named.join("; ");
        format!("left out, because they cannot be judged: {named}{more}")
    })
}

/// Sends `input` to a snapshot, as its whole state (`replace`) or a part of it. Objects that cannot
/// be judged are taken out of `input`: those of files alone, or by the limits those of a cluster.
pub(crate) async fn send(
    client: &Client,
    input: &mut Input,
    snapshot: &str,
    replace: bool,
    limits: &Limits,
) -> Result<LoadOutcome> {
    let mut left_out = Vec::new();
    loop {
        // Objects are checked one by one only if some were refused, because this takes as long again.
        match send_all(client, input, snapshot, replace).await {
            Ok(answer) => return Ok(LoadOutcome { answer, left_out }),
            Err(refused) if left_out.is_empty() => {
                left_out = input.leave_out_faulty(limits).ok_or(refused)?;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Returns the last acknowledgement, with the counts of all batches.
async fn send_all(
    client: &Client,
    input: &Input,
    snapshot: &str,
    replace: bool,
) -> Result<UpdateSnapshotResponse> {
    let ranges = ranges(&input.objects.changes);
    let count = ranges.len() + if replace { 2 } else { 0 };
    // Steps are acknowledged in order, so the first step without an acknowledgement was refused.
    let refused = |status, step: usize| {
        let batch = step.checked_sub(usize::from(replace));
        let range = batch.and_then(|batch| ranges.get(batch)).cloned();
        let named = range.into_iter().flatten();
        let named = named.map(|index| input.objects.describe(index)).collect();
        let refused = RefusedCall::or_unreachable(status, named);
        refused.context(format!("loading snapshot {snapshot:?}"))
    };

    let steps = steps(input.clone(), ranges.clone(), snapshot.to_owned(), replace);
    let answer = client
        .rpc()
        .stream_snapshot(tokio_stream::iter(steps))
        .await;
    let mut answers = answer.map_err(|status| refused(status, 0))?.into_inner();
    let mut total = UpdateSnapshotResponse::default();
    let mut done = 0;
    while let Some(answer) = answers
        .message()
        .await
        .map_err(|status| refused(status, done))?
    {
        let update = answer.update.unwrap_or_default();
        // In a replace, the last acknowledgement is that of the commit, which counts all changes.
        total = match replace {
            true => update,
            false => UpdateSnapshotResponse {
                changed_count: total.changed_count + update.changed_count,
                unchanged_count: total.unchanged_count + update.unchanged_count,
                skipped_count: total.skipped_count + update.skipped_count,
                ..update
            },
        };
        done += 1;
    }
    anyhow::ensure!(
        done == count,
        "loading snapshot {snapshot:?}: the server ended the stream after {done} of {count} steps"
    );
    Ok(total)
}

/// The steps that load these ranges of the changes. A batch is copied only when it is sent.
fn steps(
    input: Input,
    ranges: Vec<Range<usize>>,
    snapshot: String,
    replace: bool,
) -> impl Iterator<Item = StreamSnapshotRequest> + Send + 'static {
    let begin = BeginReplace {
        snapshot: snapshot.clone(),
    };
    let commit = CommitReplace {
        snapshot: snapshot.clone(),
        expected_revision: None,
    };
    let updates = ranges.into_iter().enumerate().map(move |(number, range)| {
        Step::Update(UpdateSnapshotRequest {
            snapshot: snapshot.clone(),
            changes: input.objects.changes[range].to_vec(),
            default_constraints: input.default_constraints.clone().filter(|_| number == 0),
            // The version applies to the changes of this batch and later ones.
            kubernetes_version: input.kubernetes_version.clone(),
            resource_versions: input.objects.listed.to_wire(),
            ..Default::default()
        })
    });
    let begin = replace.then_some(Step::BeginReplace(begin));
    let commit = replace.then_some(Step::CommitReplace(commit));
    let steps = begin.into_iter().chain(updates).chain(commit);
    steps.map(|step| StreamSnapshotRequest { step: Some(step) })
}

/// The fault of a single change, by its field in the object.
fn of_object(fault: &Violation) -> String {
    let in_object = fault.field.splitn(3, '.').nth(2);
    let field = in_object.unwrap_or(&fault.field);
    format!("{field}: {}", fault.description)
}

/// The counts in words, e.g. `3 Node, 58 Pod`.
fn counted<K: std::fmt::Display>(kinds: &BTreeMap<K, u64>) -> String {
    let counts: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{} {kind}", number(*count)))
        .collect();
    counts.join(", ")
}

/// The most changes in a batch. A server's limits allow this number.
const BATCH_CHANGES: usize = 1_000;
/// The most bytes in a batch, well below gRPC's default limit of 4 MiB for a message.
const BATCH_BYTES: usize = 1 << 20;

/// Returns the ranges of changes that become batches. There is at least one range, perhaps empty,
/// because the first batch carries the default constraints.
fn ranges(changes: &[Change]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let mut size_bytes = 0;
    for (index, change) in changes.iter().enumerate() {
        let change_bytes = change.encoded_len();
        let full = index - start == BATCH_CHANGES || size_bytes + change_bytes > BATCH_BYTES;
        if full && index > start {
            ranges.push(start..index);
            start = index;
            size_bytes = 0;
        }
        size_bytes += change_bytes;
    }
    ranges.push(start..changes.len());
    ranges
}

/// Flags of `evenkeel load`.
#[derive(Debug, Args)]
#[command(after_help = concat!("\
Examples:
  kubectl get ", dumped_kinds!(), " \\
    -A -o json | evenkeel load -
  evenkeel load cluster.yaml --default-constraints system
  evenkeel load manifests/ --merge --snapshot staging

It reads Node, Namespace, Pod, Service, ReplicaSet, StatefulSet, ReplicationController,
PodDisruptionBudget, PersistentVolumeClaim, PersistentVolume and StorageClass.
Other kinds are skipped and counted in the summary."))]
pub(crate) struct LoadCommand {
    /// Files of kubectl's JSON or YAML, directories of such files, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    target: args::ServedSnapshot,

    #[command(flatten)]
    rules: args::RulesFlags,

    /// Add to what the snapshot holds
    ///
    /// Without this flag the files replace the whole state at once. With it,
    /// each batch of 1,000 objects becomes visible by itself.
    #[arg(long)]
    merge: bool,

    /// Replace the snapshot even if the files hold nothing that decisions read
    #[arg(long)]
    allow_empty: bool,

    #[command(flatten)]
    output: args::OutputFlag,
}

impl LoadCommand {
    /// Reads the files and sends them.
    pub(crate) async fn run(self) -> Result<Exit> {
        let mut input = Input::read(&self.files, &self.rules, None)?;
        let nothing = input.objects.changes.is_empty()
            && input.default_constraints.is_none()
            && self.rules.kubernetes_version.is_none();
        anyhow::ensure!(
            self.allow_empty || !nothing,
            "no object that decisions read in the files (skipped: {}); --allow-empty loads \
             nothing all the same",
            match input.skipped().as_str() {
                "" => "nothing",
                skipped => skipped,
            }
        );
        let (target, replace) = (&self.target, !self.merge);
        let (client, snapshot) = (target.server.client().await?, &target.name.snapshot);
        let warnings = input.warnings(replace);
        warnings.iter().for_each(|it| output::warn(it));
        let sent = send(&client, &mut input, snapshot, replace, &Limits::none()).await?;
        let warning = left_out_warning(&sent.left_out);
        warning.iter().for_each(|it| output::warn(it));
        self.output.print(
            &sent,
            || render::loaded(&sent, snapshot, &input.loaded(), &input.skipped()),
            || vec![snapshot.clone()],
        )?;
        Ok(Exit::Success)
    }
}
