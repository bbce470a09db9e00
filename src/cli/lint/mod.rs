//! `evenkeel lint`: what is wrong with the spread constraints of manifests,
//! before anything is deployed.

mod checks;
mod cluster;
pub(super) mod finding;
pub(super) mod rule;
mod sarif;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

use self::finding::{LintFinding, Said};
use self::rule::{LintRule, Severity};
use super::args;
use super::backend::Client;
use super::exit::Exit;
use super::{output, render};
use crate::manifest::{self, InputSource, ManifestError, Position, Positions, Template};

/// Flags of `evenkeel lint`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel lint -f deploy/
  helm template mychart | evenkeel lint -f -
  evenkeel lint -f app.yaml --load cluster.json --fail-on note
  evenkeel lint -f deploy/ -o sarif > evenkeel.sarif

Exit codes:
  0  nothing found, or nothing as bad as --fail-on
  1  something as bad as --fail-on was found
  2  the input could not be read, or was refused
  3  the server could not be reached, or did not answer in time")]
pub(crate) struct LintCommand {
    /// A manifest, a directory of them, or - for standard input; repeatable
    ///
    /// Lint checks Pods, workloads with a pod template (Deployment, ReplicaSet,
    /// StatefulSet, DaemonSet, Job, CronJob, ReplicationController) and
    /// KubeFleet's placements, also in lists. It skips other kinds.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten, next_help_heading = "On a cluster")]
    state: args::SnapshotSource,

    /// Also check against the server's snapshot; implied by --load
    ///
    /// Each template is explained on the cluster: whether it fits somewhere,
    /// and what holds it back.
    #[arg(long, help_heading = "On a cluster")]
    on_server: bool,

    /// Least severe finding that gives exit code 1
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = Severity::Warning)]
    fail_on: Severity,

    /// Rule to turn off; repeatable
    #[arg(long, value_name = "RULE", value_enum)]
    ignore: Vec<LintRule>,

    /// How to write the findings
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = LintFormat::Text)]
    output: LintFormat,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LintFormat {
    /// One line per finding, as compilers write them.
    Text,
    /// One JSON object.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// What was looked at, and found.
#[derive(Debug, Default)]
struct Linted {
    files: usize,
    templates: usize,
    findings: Vec<LintFinding>,
}

impl LintCommand {
    /// Looks and prints.
    pub(crate) async fn run(self) -> Result<Exit> {
        let sources = manifest::expand(&self.files)?;
        anyhow::ensure!(
            !(sources.contains(&InputSource::StandardInput) && self.state.reads_standard_input()),
            ManifestError::StandardInputTwice
        );
        let client = match self.on_server || self.state.is_loaded() {
            true => Some(self.state.client().await?),
            false => None,
        };
        let mut linted = Linted::default();
        for source in &sources {
            self.lint(source, client.as_ref(), &mut linted).await?;
        }
        linted.findings.retain(|f| !self.ignore.contains(&f.rule));
        // Found by a rule of the manifest and by one of the cluster: said once.
        linted.findings.sort();
        linted.findings.dedup();
        output::print(&self.text(&linted)?)?;
        let worst = linted.findings.iter().map(|f| f.severity).max();
        Ok(match worst {
            Some(worst) if worst >= self.fail_on => Exit::Negative,
            _ => Exit::Success,
        })
    }

    async fn lint(
        &self,
        source: &InputSource,
        client: Option<&Client>,
        linted: &mut Linted,
    ) -> Result<()> {
        let text = source.read_to_string()?;
        let mut templates: Vec<Template> = Vec::new();
        let positions = Positions::of(&text);
        let read = manifest::for_each_template(source, &text, &mut |template| {
            templates.push(template);
        });
        let stopped = positions.stopped();
        linted
            .findings
            .extend(read.err().and_then(|e| unread(source, &e, &text, stopped)));
        for template in &templates {
            let mut said = checks::check(template);
            let unfit = |said: &Said| matches!(said.rule, LintRule::Invalid | LintRule::Unrendered);
            let valid = !said.iter().any(unfit);
            if let Some(client) = client.filter(|_| valid) {
                said.extend(cluster::check(client, self.state.snapshot(), template).await?);
            }
            let found = said.into_iter();
            let found = found.map(|said| LintFinding::of(said, template, source, &positions));
            linted.findings.extend(found);
        }
        linted.files += 1;
        linted.templates += templates.len();
        Ok(())
    }

    fn text(&self, linted: &Linted) -> Result<String> {
        Ok(match self.output {
            LintFormat::Text => render::lint(&linted.findings, linted.templates, linted.files),
            LintFormat::Json => {
                let value = json!({
                    "files": linted.files,
                    "templates": linted.templates,
                    "findings": linted.findings,
                });
                output::json(&value)?
            }
            LintFormat::Sarif => output::json(&sarif::log(&linted.findings))?,
        })
    }
}

/// Why a file cannot be read. Values of a chart, settings of an editor and the
/// like are no manifests, and are not reported.
fn unread(
    source: &InputSource,
    error: &ManifestError,
    text: &str,
    stopped: Option<Position>,
) -> Option<LintFinding> {
    let (rule, message) = match error {
        ManifestError::NotAnObject { .. } => return None,
        _ if !text.contains("apiVersion") => return None,
        _ if text.contains(checks::PLACEHOLDER) => {
            (LintRule::Unrendered, checks::UNRENDERED.into())
        }
        ManifestError::Syntax {
            format, message, ..
        } => (
            LintRule::Unreadable,
            format!("not valid {format}: {message}"),
        ),
        error => (LintRule::Unreadable, error.to_string()),
    };
    Some(LintFinding::of_file(source, rule, message, stopped))
}
