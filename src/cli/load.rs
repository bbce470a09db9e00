//! `evenkeel load`: files into a snapshot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use super::args;
use super::backend::Client;
use super::exit::Exit;
use super::feed::{self, Target};
use super::output::{self, Format};
use crate::manifest::{self, Objects};
use crate::proto::v1::{DefaultConstraints, UpdateSnapshotResponse};
use crate::visible;

/// Files and transfers below these sizes are over before a bar is read.
const BAR_FROM_BYTES: u64 = 4 << 20;
const BAR_FROM_CHANGES: usize = 5_000;
/// How many repeated objects are named.
const NAMED_REPEATS: usize = 5;

/// Flags of `evenkeel load`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kubectl get nodes,pods,services,replicasets,statefulsets,replicationcontrollers -A -o json \\
    | evenkeel load -
  evenkeel load cluster.yaml --default-constraints system
  evenkeel load manifests/ --merge --snapshot staging

It reads Node, Pod, Service, ReplicaSet, StatefulSet and ReplicationController. Other kinds
are skipped and counted in the summary.")]
pub(crate) struct Load {
    /// Files of kubectl's JSON or YAML, directories of such files, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    server: args::Server,

    #[command(flatten)]
    name: args::SnapshotName,

    #[command(flatten)]
    defaults: args::DefaultConstraints,

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
    output: args::Output,
}

impl Load {
    /// Reads the files and sends them.
    pub(crate) async fn run(self) -> Result<Exit> {
        let input = Input::read(&self.files, &self.defaults)?;
        let nothing = input.objects.changes.is_empty() && input.default_constraints.is_none();
        anyhow::ensure!(
            self.allow_empty || !nothing,
            "no object that decisions read in the files (skipped: {}); --allow-empty loads \
             nothing all the same",
            match input.skipped().as_str() {
                "" => "nothing",
                skipped => skipped,
            }
        );
        replace_or_merge(
            &self.server,
            &self.name,
            input,
            !self.merge,
            self.output.output,
        )
        .await
    }
}

/// Flags of `evenkeel snapshot restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  evenkeel snapshot save saved.json && evenkeel snapshot restore saved.json --snapshot copy")]
pub(crate) struct Restore {
    /// File that `evenkeel snapshot save` wrote, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    server: args::Server,

    #[command(flatten)]
    name: args::SnapshotName,

    #[command(flatten)]
    output: args::Output,
}

impl Restore {
    /// Replaces the snapshot with the saved one.
    pub(crate) async fn run(self) -> Result<Exit> {
        let none = args::DefaultConstraints {
            default_constraints: None,
        };
        let input = Input::read(std::slice::from_ref(&self.file), &none)?;
        anyhow::ensure!(
            input.default_constraints.is_some(),
            "{}: no saved snapshot (it has no DefaultConstraints in it); use `evenkeel load` for \
             other files",
            self.file.display()
        );
        replace_or_merge(&self.server, &self.name, input, true, self.output.output).await
    }
}

async fn replace_or_merge(
    server: &args::Server,
    name: &args::SnapshotName,
    input: Input,
    replace: bool,
    format: Format,
) -> Result<Exit> {
    let client = server.client().await?;
    input
        .warnings(replace)
        .iter()
        .for_each(|warning| output::warn(warning));
    let (loaded, skipped) = (input.loaded(), input.skipped());
    let answer = send(&client, input, &name.snapshot, replace).await?;
    let text = format.render(
        &answer,
        |answer| summary(&name.snapshot, &loaded, &skipped, answer),
        |_| vec![name.snapshot.clone()],
    )?;
    output::print(&text)?;
    Ok(Exit::Success)
}

/// What files hold for a snapshot.
pub(crate) struct Input {
    /// The objects.
    pub(crate) objects: Arc<Objects>,
    /// Default constraints: those of the flag, else of the files.
    pub(crate) default_constraints: Option<DefaultConstraints>,
}

impl Input {
    /// Reads `files`, and default constraints from their own file.
    pub(crate) fn read(files: &[PathBuf], defaults: &args::DefaultConstraints) -> Result<Self> {
        let sources = manifest::expand(files)?;
        let progress = ProgressBar::no_length();
        if sources
            .iter()
            .filter_map(manifest::Source::size_bytes)
            .sum::<u64>()
            < BAR_FROM_BYTES
        {
            progress.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        progress.set_style(style(
            "reading {bar:30} {binary_bytes}/{binary_total_bytes} {eta}",
        ));
        let mut objects = manifest::read_objects(sources, &progress)?;
        progress.finish_and_clear();
        let of_flag = defaults.default_constraints.as_deref();
        let of_flag = of_flag.map(manifest::read_default_constraints).transpose();
        let of_flag = of_flag.context("--default-constraints")?;
        Ok(Self {
            default_constraints: of_flag.or(objects.default_constraints.take()),
            objects: Arc::new(objects),
        })
    }

    /// How many objects of each kind, e.g. `3 Node, 58 Pod`.
    pub(crate) fn loaded(&self) -> String {
        counted(&self.objects.kinds())
    }

    /// The same of the kinds that no decision reads.
    pub(crate) fn skipped(&self) -> String {
        counted(&self.objects.skipped)
    }

    /// What is odd about the files, as the whole state (`replace`) or a part
    /// of it; a sentence each.
    pub(crate) fn warnings(&self, replace: bool) -> Vec<String> {
        let repeated = &self.objects.repeated;
        let mut warnings: Vec<String> = repeated.iter().take(NAMED_REPEATS).cloned().collect();
        if repeated.len() > NAMED_REPEATS {
            let more = HumanCount((repeated.len() - NAMED_REPEATS) as u64);
            warnings.push(format!("{more} more objects occur more than once"));
        }
        if replace && !self.objects.kinds().contains_key("Node") {
            warnings.push("no Node in the files".to_owned());
        }
        warnings
    }
}

/// Sends `input` into a snapshot.
pub(crate) async fn send(
    client: &Client,
    input: Input,
    snapshot: &str,
    replace: bool,
) -> Result<UpdateSnapshotResponse> {
    let objects = input.objects;
    let progress = transfer_bar(objects.changes.len());
    let target = Target {
        snapshot: snapshot.to_owned(),
        replace,
        default_constraints: input.default_constraints,
    };
    let ranges = Arc::new(feed::ranges(&objects.changes));
    let batches = feed::batches_of(&objects, Arc::clone(&ranges));
    let describe = |batch: usize| {
        let range = ranges.get(batch).cloned().unwrap_or_default();
        range.map(|index| objects.describe(index)).collect()
    };
    let answer = feed::send(client, batches, describe, &target, &progress).await;
    progress.finish_and_clear();
    answer.with_context(|| format!("loading snapshot {snapshot:?}"))
}

/// A progress bar for sending so many changes.
pub(crate) fn transfer_bar(changes: usize) -> ProgressBar {
    let progress = ProgressBar::new(changes as u64);
    if changes < BAR_FROM_CHANGES {
        progress.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    progress.set_style(style(
        "loading {bar:30} {human_pos}/{human_len} objects {eta}",
    ));
    progress
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}

/// What a load did, for a person.
pub(crate) fn summary(
    snapshot: &str,
    loaded: &str,
    skipped: &str,
    answer: &UpdateSnapshotResponse,
) -> String {
    let loaded = if loaded.is_empty() { "nothing" } else { loaded };
    let mut text = format!(
        "snapshot {snapshot:?}, revision {}\n  loaded   {loaded}\n  changed  {}, unchanged {}\n",
        answer.revision,
        HumanCount(answer.changed_count as u64),
        HumanCount(answer.unchanged_count as u64)
    );
    if !skipped.is_empty() {
        text.push_str(&format!("  skipped  {}\n", visible::text(skipped)));
    }
    text
}

/// E.g. `3 Node, 58 Pod`.
fn counted<K: std::fmt::Display>(kinds: &BTreeMap<K, u64>) -> String {
    let counts: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{} {kind}", HumanCount(*count)))
        .collect();
    counts.join(", ")
}
