//! `evenkeel lint`: finds the faults of spread constraints in manifests,
//! before anything is deployed.

mod checks;
mod cluster;
pub(super) mod fields;
pub(super) mod finding;
mod named;

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{ArgGroup, Args, ValueEnum};
use serde::Deserialize;
use serde_json::json;

use self::checks::Workloads;
use self::finding::{LintFinding, LintRule, Said, Severity};
use self::named::{FoundObjects, NamedObjects};
use super::exit::Exit;
use super::source::{self, Opened};
use super::{about, output, stored};
use crate::explain::plural;
use crate::manifest::{
    self, Admission, ConstraintPlace, CustomResources, InputSource, ManifestError, Positions,
    ReadTemplate, Template,
};
use crate::matching::names;
use crate::toml_fault::TomlFault;

/// Flags of `evenkeel lint`.
#[derive(Debug, Args)]
#[command(group(
    ArgGroup::new("checked")
        .required(true)
        .multiple(true)
        .args(["files", "objects"])
))]
#[command(after_help = "\
Examples:
  evenkeel lint -f deploy/
  helm template mychart | evenkeel lint -f -
  evenkeel lint -f app.yaml --load cluster.json --fail-on note
  evenkeel lint deploy,sts -A                   what a cluster has
  evenkeel lint -f deploy/ --ignore single-replica,mixed-revisions

The file .evenkeel-lint.toml in the current directory, or in one above it, says where custom resources have
constraints, besides those that are known (docs/explaining.md):

  [[resources]]
  group = \"db.example.com\"
  kinds = [\"Database\"]
  at = \"spec.podTemplate\"")]
pub(crate) struct LintCommand {
    /// A manifest, a directory of them, or - for standard input; repeatable
    ///
    /// Lint checks Pods, workloads with a pod template (Deployment, ReplicaSet,
    /// StatefulSet, DaemonSet, Job, CronJob, ReplicationController, and
    /// whatever else has a template.spec.containers), KubeFleet's placements,
    /// and custom resources and Helm values whose place of constraints is known,
    /// also in lists. It skips other kinds.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    named: NamedObjects,

    #[command(flatten, next_help_heading = "On a cluster")]
    state: source::SnapshotSource,

    /// Also check against the server's snapshot; implied by --load
    ///
    /// Each template is explained on the cluster: whether it fits somewhere,
    /// and what holds it back.
    #[arg(long, help_heading = "On a cluster")]
    on_server: bool,

    /// Least severe finding that gives exit code 1
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = Severity::Warning)]
    fail_on: Severity,

    /// Rules to turn off, joined by commas, or repeated
    #[arg(long, value_name = "RULE", value_enum, value_delimiter = ',')]
    ignore: Vec<LintRule>,

    /// Settings file [default: the nearest .evenkeel-lint.toml]
    #[arg(long = "config", value_name = "FILE")]
    settings_file: Option<PathBuf>,

    /// How to write the findings
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = LintFormat::Text)]
    output: LintFormat,
}

/// The formats of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LintFormat {
    /// One line per finding, as compilers write them.
    Text,
    /// One JSON object.
    Json,
    /// JUnit's XML, a test case per finding, which fails from --fail-on on.
    Junit,
}

/// The templates that were checked, and the findings.
#[derive(Default)]
struct Linted {
    files: usize,
    templates: usize,
    findings: Vec<LintFinding>,
    workloads: Workloads,
    /// The named objects that exist.
    named: FoundObjects,
    /// The rule and the topology key of each reported finding about nodes.
    told: BTreeSet<(LintRule, String)>,
    /// True if default constraints apply to one of the pods.
    has_default: bool,
    /// What admission reads, by namespace.
    admissions: HashMap<String, Admission>,
}

impl LintCommand {
    /// Checks the manifests and prints the findings.
    pub(crate) async fn run(mut self) -> Result<Exit> {
        // Only names need a cluster.
        self.state.asks_no_cluster_itself = true;
        let mut texts = self.named.texts(&mut self.state).await?;
        let scope =
            source::QuestionScope::of(self.named.namespace.as_deref(), source::QuestionScope::All);
        self.state.is_about(scope);
        let sources = manifest::expand(&self.files)?;
        anyhow::ensure!(
            !(sources.contains(&InputSource::StandardInput) && self.state.reads_standard_input()),
            ManifestError::StandardInputTwice
        );
        let opened = match self.on_server || self.state.is_local() {
            true => Some(self.state.open_for_pods().await?),
            false => None,
        };
        let opened = opened.as_ref();
        let resources = custom_resources(self.settings_file.as_deref())?;
        let mut linted = Linted::default();
        for source in sources {
            let text = source.read_to_string()?;
            texts.push((source, text));
        }
        let mut templates = Vec::new();
        for (source, text) in &texts {
            let (found, faults) = manifest::templates_in(source, text, &resources);
            let unread = faults.iter().filter_map(|it| unread(source, it, text));
            linted.findings.extend(unread);
            templates.push(found);
        }
        manifest::resolve_references(&mut templates);
        for ((source, text), mut templates) in texts.iter().zip(templates) {
            templates.retain(|template| self.named.is_meant(template, &mut linted.named));
            let positions = LazyCell::new(|| Positions::of(text));
            for template in &templates {
                self.lint_template(template, source, &positions, opened, &mut linted)
                    .await?;
            }
            linted.templates += templates.len();
            linted.files += 1;
        }
        let place = match self.state.asks_cluster() {
            true => self.state.title(),
            false => self.state.files(),
        };
        self.named.ensure_found(&linted.named, &place)?;
        let shared = std::mem::take(&mut linted.workloads).findings();
        linted.findings.extend(shared);
        let is_on = |finding: &LintFinding| !self.ignore.contains(&finding.rule);
        linted.findings.retain(is_on);
        // Equal findings by the manifest and by the cluster are reported once.
        linted.findings.sort();
        linted.findings.dedup();
        output::print(&self.text(&linted)?)?;
        let is_unrendered = |it: &LintFinding| it.message == checks::UNRENDERED;
        if linted.templates == 0 && linted.findings.iter().any(is_unrendered) {
            output::warn(
                "nothing could be checked: all that was found has placeholders; fill them in first, \
                 e.g. with helm template or envsubst, and check what comes of that",
            );
            return Ok(Exit::Refused);
        }
        let worst = linted.findings.iter().map(|f| f.severity).max();
        Ok(match worst {
            Some(worst) if worst >= self.fail_on => Exit::Negative,
            _ => Exit::Success,
        })
    }

    async fn lint_template(
        &self,
        template: &Template,
        source: &InputSource,
        positions: &LazyCell<Positions, impl FnOnce() -> Positions>,
        opened: Option<&Opened>,
        linted: &mut Linted,
    ) -> Result<()> {
        let mut said = fields::misplaced(template);
        let checked = checks::check(template, &self.state.local_limits());
        said.extend(checked.said);
        if let (Some(valid), Some(opened)) = (&checked.valid, opened) {
            let on_cluster = self.on_cluster(opened, template, &valid.read, linted);
            said.extend(on_cluster.await?);
        }
        said.retain(|said| {
            let key = cluster::key_of(template, said);
            key.is_none_or(|key| linted.told.insert((said.rule, key)))
        });
        let found = |said| LintFinding::of(said, template, source, positions);
        linted.findings.extend(said.into_iter().map(found));
        if let Some(valid) = checked.valid {
            let (read, constraints) = (&valid.read, &valid.constraints);
            linted.workloads.add(template, read, constraints, found);
        }
        Ok(())
    }

    /// The findings about a template on a cluster.
    async fn on_cluster(
        &self,
        opened: &Opened,
        template: &Template,
        read: &ReadTemplate,
        linted: &mut Linted,
    ) -> Result<Vec<Said>> {
        let (client, snapshot) = (&opened.client, self.state.snapshot());
        let namespace = names::namespace_or_default(template.object.namespace());
        if !linted.admissions.contains_key(namespace) {
            let admission = self.state.admission(opened, namespace).await?;
            linted.admissions.insert(namespace.to_owned(), admission);
        }
        let workload = template.workload(read, &linted.admissions[namespace]);
        if !linted.has_default && stored::has_no_constraints(&workload.pod) {
            linted.has_default = true;
            opened.warn_of_lack(std::iter::once(&workload.pod));
        }
        if let Some(told) = about::elsewhere(client, snapshot, &workload).await? {
            output::warn(&told);
        }
        cluster::check(client, snapshot, template, read, &workload).await
    }

    fn text(&self, linted: &Linted) -> Result<String> {
        Ok(match self.output {
            LintFormat::Text => {
                let place = match self.state.asks_cluster() && self.files.is_empty() {
                    true => self.state.title(),
                    false => plural(linted.files, "file"),
                };
                finding::text(&linted.findings, linted.templates, &place)
            }
            LintFormat::Json => {
                let value = json!({
                    "files": linted.files,
                    "templates": linted.templates,
                    "findings": linted.findings,
                });
                output::json(&value)?
            }
            LintFormat::Junit => finding::junit(&linted.findings, linted.templates, self.fail_on),
        })
    }
}

/// The finding that a text cannot be read. Files that are no manifests, such as values of a chart
/// or settings of an editor, are not reported.
fn unread(source: &InputSource, error: &ManifestError, text: &str) -> Option<LintFinding> {
    let at = match error {
        ManifestError::Syntax { at, .. } => *at,
        _ => None,
    };
    let (rule, message) = match error {
        ManifestError::NotAnObject { .. } => return None,
        ManifestError::Patches(_) => (LintRule::Unrendered, checks::PATCHES.into()),
        _ if !text.contains("apiVersion") => return None,
        _ if checks::has_placeholder_near(text, at) => {
            (LintRule::Unrendered, checks::UNRENDERED.into())
        }
        ManifestError::Syntax {
            format, message, ..
        } => (
            LintRule::Unreadable,
            format!("not valid {format}: {message}"),
        ),
        ManifestError::Io { error, .. } => (LintRule::Unreadable, error.to_string()),
        error => (LintRule::Unreadable, error.to_string()),
    };
    Some(LintFinding::of_file(source, rule, message, at))
}

/// The name of the file. It is searched in the current directory and its ancestors.
const FILE_NAME: &str = ".evenkeel-lint.toml";

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    /// More places of constraints in custom resources.
    #[serde(default)]
    resources: Vec<ConstraintPlace>,
}

/// The places of constraints in custom resources: those that are known, and those of a named file, else of
/// the nearest settings file.
pub(super) fn custom_resources(named: Option<&Path>) -> Result<CustomResources> {
    let file = match named.map(Path::to_owned).or_else(nearest_settings) {
        None => SettingsFile::default(),
        Some(path) => read_settings(&path).with_context(|| path.display().to_string())?,
    };
    Ok(CustomResources::with(file.resources))
}

fn read_settings(path: &Path) -> Result<SettingsFile> {
    let text = fs::read_to_string(path)?;
    let file: SettingsFile =
        toml::from_str(&text).map_err(|error| TomlFault::new(&text, &error))?;
    for (index, row) in file.resources.iter().enumerate() {
        if let Some(fault) = row.fault() {
            anyhow::bail!("resources[{index}]: {fault}");
        }
    }
    Ok(file)
}

fn nearest_settings() -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?;
    let above = current.ancestors();
    let mut files = above.map(|directory| directory.join(FILE_NAME));
    files.find(|path| path.is_file())
}
