//! What `filter`, `score`, `place` and `explain` have in common: the question.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status};

use super::args;
use super::backend::Rpc;
use super::errors::Unreachable;
use super::output::{self, AnswerFormat};
use super::render;
use crate::manifest::{self, LoadedObjects, WorkloadPod};
use crate::proto::v1::change::Object;
use crate::proto::v1::{Change, NodeChecks, NodeNames, ObjectReference};
use crate::snapshot::ObjectKind;

/// Domains of a constraint that a table lists by default.
const TABLE_DOMAINS: i32 = 20;

/// Headings of the flags in `--help`.
const QUESTION: &str = "The question";
const WHAT_IF: &str = "What if";
pub(super) const ANSWER: &str = "The answer";

/// Flags of a question.
#[derive(Debug, Args)]
pub(crate) struct QuestionArgs {
    /// The pod: a Pod, a workload with a pod template, or a placement; - for standard input
    ///
    /// A workload is a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job,
    /// CronJob or ReplicationController. The pod gets the labels of its
    /// template and its namespace. The pod of a ReplicaSet, StatefulSet or
    /// ReplicationController has it as its owner, so that default constraints
    /// find their selector as for the real pods; other pods have no owner. For
    /// a ClusterResourcePlacement or ResourcePlacement of KubeFleet,
    /// KubeFleet's rules apply, with MemberClusters as nodes.
    #[arg(short, long, value_name = "FILE", help_heading = "The pod")]
    file: PathBuf,

    /// Which pod or workload of the file: KIND/NAME, KIND/NAMESPACE/NAME or NAME
    #[arg(long, value_name = "NAME", help_heading = "The pod")]
    name: Option<String>,

    /// Decide as if the pod were in this namespace
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "The pod")]
    namespace: Option<String>,

    #[command(flatten, next_help_heading = "Cluster state")]
    pub(super) state: args::SnapshotSource,

    /// Check only the spread constraints
    ///
    /// Without this flag a node must also be schedulable, match the pod's node
    /// affinity and have no taint that the pod does not tolerate.
    #[arg(long, help_heading = QUESTION)]
    spread_only: bool,

    /// Decide only about these nodes; names joined by commas, or repeated
    #[arg(long = "candidate", value_name = "NODE", value_delimiter = ',', help_heading = QUESTION)]
    candidates: Vec<String>,

    /// What if these objects were added or updated; nothing is stored
    ///
    /// A file, directory or - as for --load. Can be repeated. No other call
    /// waits for this one, or sees its objects.
    #[arg(long, value_name = "FILE", help_heading = WHAT_IF)]
    overlay: Vec<PathBuf>,

    /// What if this object were gone: node/NAME, or KIND/[NAMESPACE/]NAME
    #[arg(long, value_name = "OBJECT", help_heading = WHAT_IF)]
    overlay_delete: Vec<Deletion>,

    /// Wait until the snapshot has reached this revision
    ///
    /// `evenkeel load` prints the revision that it made. The wait ends with
    /// --timeout.
    #[arg(
        long,
        value_name = "REVISION", value_parser = clap::value_parser!(i64).range(0..), allow_negative_numbers = true, help_heading = QUESTION,
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(super) min_revision: i64,

    /// How many domains of a constraint to list, fewest pods first; 0 for all
    ///
    /// The default is 20 in a table and 100 otherwise.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(i32).range(0..),
        allow_negative_numbers = true,
        help_heading = ANSWER
    )]
    max_domains: Option<i32>,

    /// List all nodes and domains, however many
    #[arg(long, help_heading = ANSWER)]
    pub(super) all: bool,
}

/// A question with its files read.
pub(crate) struct LoadedQuestion {
    /// The pod and where it is from.
    pub(crate) workload: WorkloadPod,
    /// The changes of the overlay, deletions last.
    pub(crate) overlay: Vec<Change>,
    /// Names of the overlay's objects, for errors.
    pub(crate) overlay_names: Vec<String>,
}

impl QuestionArgs {
    /// Reads the pod and the overlay.
    pub(crate) fn read(&self) -> Result<LoadedQuestion> {
        let standard_input = Path::new("-");
        let readers = usize::from(self.file == standard_input)
            + usize::from(self.state.reads_standard_input())
            + usize::from(self.overlay.iter().any(|path| path == standard_input));
        anyhow::ensure!(readers <= 1, manifest::ManifestError::StandardInputTwice);

        let (name, namespace) = (self.name.as_deref(), self.namespace.as_deref());
        let workload = manifest::read_workload(&self.file, name, namespace)?;
        let objects = self.read_overlay().context("--overlay")?;
        let mut overlay_names: Vec<String> = (0..objects.changes.len())
            .map(|index| objects.describe(index))
            .collect();
        let mut overlay = objects.changes;
        for deletion in &self.overlay_delete {
            let object = Object::Delete(deletion.0.clone());
            overlay_names.push(format!(
                "--overlay-delete {}",
                manifest::object_name(&object)
            ));
            overlay.push(Change {
                object: Some(object),
            });
        }
        Ok(LoadedQuestion {
            workload,
            overlay,
            overlay_names,
        })
    }

    fn read_overlay(&self) -> Result<LoadedObjects> {
        let sources = manifest::expand(&self.overlay)?;
        let objects = manifest::read_objects(sources, &ProgressBar::hidden())?;
        for line in &objects.repeated {
            output::warn(line);
        }
        if !objects.skipped.is_empty() {
            let kinds: Vec<&str> = objects.skipped.keys().map(String::as_str).collect();
            output::warn(&format!(
                "--overlay: no decision reads {}",
                kinds.join(", ")
            ));
        }
        Ok(objects)
    }

    /// Asks what the question is asked about; `overlay` names the objects of
    /// the overlay for an error.
    pub(crate) async fn ask<M, R, F>(
        &self,
        request: M,
        overlay: Vec<String>,
        rpc: impl FnOnce(Rpc, Request<M>) -> F,
    ) -> Result<R>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let client = self.state.client().await?;
        let answer = client.call_about(request, || overlay, rpc).await;
        answer.map_err(|error| self.explain(error))
    }

    /// Prints an answer about the pod called `pod`: `table` and `names` write
    /// it in these formats, `unknown` are candidates that do not exist.
    pub(crate) fn print<T: Serialize + DeserializeOwned>(
        &self,
        format: AnswerFormat,
        pod: &str,
        answer: &T,
        table: impl FnOnce(&render::Head<'_>, &T) -> String,
        names: impl FnOnce(&T) -> Vec<String>,
        unknown: &[String],
    ) -> Result<()> {
        let head = self.head(pod);
        output::print(&format.render(answer, |answer| table(&head, answer), names)?)?;
        self.warn_of_unknown(unknown);
        Ok(())
    }

    /// What is said above an answer about the pod called `pod`.
    pub(crate) fn head<'a>(&'a self, pod: &'a str) -> render::Head<'a> {
        render::Head {
            pod,
            snapshot: self.state.snapshot(),
            all: self.all,
        }
    }

    /// Tells which candidates do not exist.
    pub(crate) fn warn_of_unknown(&self, unknown: &[String]) {
        if !unknown.is_empty() {
            let names = unknown.join(", ");
            output::warn(&format!("no such node in the snapshot: {names}"));
        }
    }

    /// The nodes to decide about, if not all.
    pub(crate) fn candidates(&self) -> Option<NodeNames> {
        (!self.candidates.is_empty()).then(|| NodeNames {
            names: self.candidates.clone(),
        })
    }

    /// What nodes are checked for.
    pub(crate) fn node_checks(&self) -> NodeChecks {
        if self.spread_only {
            NodeChecks::SpreadOnly
        } else {
            NodeChecks::Unspecified
        }
    }

    /// Says what a call that was not answered in time waited for.
    pub(crate) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match self.min_revision {
            revision if revision > 0 && error.is::<Unreachable>() => {
                error.context(format!("waiting for revision {revision}"))
            }
            _ => error,
        }
    }

    /// How many domains to ask for; `for_person` when a person reads them.
    pub(crate) fn max_domains(&self, for_person: bool) -> Option<i32> {
        match self.max_domains {
            None if self.all => Some(0),
            None if for_person => Some(TABLE_DOMAINS),
            asked => asked,
        }
    }
}

/// An object to delete, as `--overlay-delete` names it.
#[derive(Debug, Clone, PartialEq)]
struct Deletion(ObjectReference);

impl FromStr for Deletion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, namespace, name) = match parts[..] {
            [kind, name] => (kind, "", name),
            [kind, namespace, name] => (kind, namespace, name),
            _ => return Err("want KIND/NAME or KIND/NAMESPACE/NAME".to_owned()),
        };
        let known = ObjectKind::all().find(|known| known.as_str().eq_ignore_ascii_case(kind));
        let known = known.ok_or_else(|| format!("{kind:?} is none of {}", ObjectKind::list()))?;
        if name.is_empty() {
            return Err("the name is empty".to_owned());
        }
        Ok(Deletion(ObjectReference {
            kind: known.as_str().to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
        }))
    }
}
