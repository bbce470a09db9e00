//! The rules that are on: by the settings file, `.evenkeel-lint.toml`, and by annotations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::finding::Said;
use super::rule::{LintRule, Severity};
use crate::manifest::{ConstraintPlace, CustomResources, Template};

/// The name of the file. It is searched in the current directory and its ancestors.
const FILE_NAME: &str = ".evenkeel-lint.toml";

/// The annotation of a workload or its pod template, with names of rules, separated by commas.
const ANNOTATION: &str = "evenkeel.dev/lint-ignore";

/// The setting of a rule.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RuleLevel {
    Off,
    /// The rule is on, with its default severity.
    On,
    Note,
    Warning,
    Error,
}

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SettingsFile {
    #[serde(alias = "fail_on")]
    fail_on: Option<Severity>,
    #[serde(default)]
    rules: BTreeMap<String, RuleLevel>,
    /// More places of constraints in custom resources.
    #[serde(default)]
    resources: Vec<ConstraintPlace>,
}

/// The rules that are on, the severity of their findings, and where constraints are looked for.
#[derive(Debug)]
pub(super) struct LintSettings {
    /// The least severe finding that fails; `None` if not set.
    pub(super) fail_on: Option<Severity>,
    /// The severity of a rule's findings; `None` if the rule is off. Missing rules have their
    /// defaults.
    levels: BTreeMap<LintRule, Option<Severity>>,
    /// The places of constraints in custom resources.
    pub(super) resources: CustomResources,
}

impl LintSettings {
    /// Reads the settings of a named file, else of the nearest settings file.
    pub(super) fn read(named: Option<&Path>) -> Result<Self> {
        match named.map(Path::to_owned).or_else(find) {
            None => Self::of(SettingsFile::default()),
            Some(path) => Self::of_file(&path).with_context(|| path.display().to_string()),
        }
    }

    fn of_file(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        let file: SettingsFile = toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text[..start].matches('\n').count() + 1;
            anyhow!("line {line}: {}", error.message().replace('\n', ", "))
        })?;
        Self::of(file)
    }

    fn of(file: SettingsFile) -> Result<Self> {
        for (index, row) in file.resources.iter().enumerate() {
            if let Some(fault) = row.fault() {
                anyhow::bail!("resources[{index}]: {fault}");
            }
        }
        let mut settings = Self {
            fail_on: file.fail_on,
            levels: BTreeMap::new(),
            resources: CustomResources::with(file.resources),
        };
        for (name, level) in file.rules {
            let rule = LintRule::named(&name).context("rules")?;
            settings.levels.insert(rule, level.severity_of(rule));
        }
        Ok(settings)
    }

    /// Turns a rule on, with its default severity, or off.
    pub(super) fn set(&mut self, rule: LintRule, is_on: bool) {
        self.levels.insert(rule, is_on.then(|| rule.severity()));
    }

    /// Returns the severity of a rule's findings; `None` if the rule is off.
    pub(super) fn severity(&self, rule: LintRule) -> Option<Severity> {
        let of_table = rule.is_on().then(|| rule.severity());
        self.levels.get(&rule).copied().unwrap_or(of_table)
    }
}

impl RuleLevel {
    fn severity_of(self, rule: LintRule) -> Option<Severity> {
        match self {
            Self::Off => None,
            Self::On => Some(rule.severity()),
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
        }
    }
}

fn find() -> Option<PathBuf> {
    let current = std::env::current_dir().ok()?;
    let above = current.ancestors();
    let mut files = above.map(|directory| directory.join(FILE_NAME));
    files.find(|path| path.is_file())
}

/// The rules that a manifest turns off for one template, and the faults of the lists. It does so by
/// an annotation, because JSON has no comments.
pub(super) fn ignored_by(template: &Template) -> (BTreeSet<LintRule>, Vec<Said>) {
    let object = &template.object.value["metadata"];
    let mut lists = vec![("metadata".to_owned(), object)];
    if !template.place.field.is_empty() {
        lists.push((template.field("metadata"), template.written_metadata()));
    }
    let mut ignored = BTreeSet::new();
    let mut said = Vec::new();
    for (path, metadata) in lists {
        let list = metadata["annotations"][ANNOTATION].as_str();
        let names = list.unwrap_or_default().split(',');
        for name in names.map(str::trim).filter(|name| !name.is_empty()) {
            match LintRule::named(name) {
                Ok(rule) => _ = ignored.insert(rule),
                Err(fault) => said.push(Said {
                    rule: LintRule::UnknownRule,
                    field: format!("{path}.annotations.{ANNOTATION}"),
                    message: fault.to_string(),
                }),
            }
        }
    }
    (ignored, said)
}
