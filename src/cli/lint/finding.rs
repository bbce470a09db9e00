//! The rules of lint, their findings with their positions, and the formats of findings: that of
//! compilers, and JUnit's XML for CI systems.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::cli::render::{Look, styled};
use crate::explain::plural;
use crate::manifest::{InputSource, Position, Positions, Template};
use crate::visible;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct LintFinding {
    pub(crate) file: String,
    /// The line, from 1; 0 if unknown.
    pub(crate) line: usize,
    /// The column, from 1; 0 if unknown.
    pub(crate) column: usize,
    /// The severity of the finding.
    pub(crate) severity: Severity,
    /// The rule that found it.
    pub(crate) rule: LintRule,
    /// Kind, namespace and name of the object; empty when there is none.
    pub(crate) object: String,
    /// Path of the field in its document; empty when there is none.
    pub(crate) path: String,
    /// The fault.
    pub(crate) message: String,
}

/// A finding of a rule in a template: the field in the object, and the fault.
pub(crate) struct Said {
    pub(crate) rule: LintRule,
    /// Path of the field in the object.
    pub(crate) field: String,
    /// The fault.
    pub(crate) message: String,
}

impl LintFinding {
    /// The file, with the position if that is known.
    pub(crate) fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, self.column),
        }
    }

    /// A finding about a file that cannot be read, at the position where reading stopped.
    pub(crate) fn of_file(
        file: &InputSource,
        rule: LintRule,
        message: String,
        at: Option<Position>,
    ) -> Self {
        let (line, column) = at.map_or((0, 0), |at| (at.line, at.column));
        Self {
            file: file.to_string(),
            line,
            column,
            severity: rule.severity(),
            rule,
            object: String::new(),
            path: String::new(),
            message,
        }
    }

    /// A finding about a field of a template's object.
    pub(crate) fn of(said: Said, template: &Template, file: &InputSource, all: &Positions) -> Self {
        let object = &template.object;
        // The user does not see the text from a cluster, so a position in it would not help.
        let in_cluster = matches!(file, InputSource::Cluster(_));
        let path = match (&*object.path, &*said.field) {
            (_, field) if in_cluster => field.to_owned(),
            (item, "") => item.to_owned(),
            ("", field) => field.to_owned(),
            (item, field) => format!("{item}.{field}"),
        };
        let at = (!in_cluster).then(|| object.position(all, &path)).flatten();
        Self {
            object: object.name.clone(),
            path,
            ..Self::of_file(file, said.rule, said.message, at)
        }
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not intended.
    Warning,
    /// Refused, or does not do what it says.
    Error,
}

/// A rule, by the name that findings and `--ignore` use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LintRule {
    /// The file cannot be read as Kubernetes objects.
    Unreadable,
    /// It is a template with placeholders: lint what `helm template` prints.
    Unrendered,
    /// Kubernetes, or KubeFleet, would refuse it.
    Invalid,
    /// A field of a constraint is unknown, or its name is misspelt.
    UnknownField,
    /// Constraints are where nobody reads them.
    MisplacedConstraints,
    /// The selector of a constraint does not match the pod's own labels.
    SelectorMismatch,
    /// The selector is empty or absent, and counts no pod.
    EmptySelector,
    /// A key of matchLabelKeys is not a label of the pod, and is ignored.
    UnknownMatchLabelKey,
    /// Pods of all revisions of a Deployment are counted together.
    MixedRevisions,
    /// The topology key was replaced long ago, and new nodes lack it.
    DeprecatedKey,
    /// A DaemonSet has a hard constraint, which does nothing or keeps its pods off nodes.
    DaemonSet,
    /// There is only one replica to spread.
    SingleReplica,
    /// A soft constraint has a maxSkew above 1, which is no limit.
    SoftMaxSkew,
    /// A placement has constraints that its type does not use.
    UnusedConstraints,
    /// A placement has several hard constraints, which greedy picking may miss.
    GreedyPicking,
    /// The selector of a constraint selects the pods of other workloads too.
    SharedSelector,
    /// No node of the given cluster has the topology key.
    UnknownTopologyKey,
    /// On the given cluster the pod fits nowhere.
    FitsNowhere,
    /// Two constraints exclude each other on the given cluster.
    Conflict,
    /// A domain that cannot be used holds the others back on the given cluster.
    UnusableDomain,
    /// A constraint refuses no node of the given cluster, because it counts one domain only.
    OneDomain,
    /// The given cluster has fewer domains than minDomains.
    MinDomains,
    /// Nodes of the given cluster lack the topology key.
    MissingKey,
    /// Nodes of the given cluster have the topology key with an empty value.
    EmptyValue,
}

impl LintRule {
    /// Returns the severity of the rule's findings.
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Unreadable
            | Self::Invalid
            | Self::UnknownField
            | Self::MisplacedConstraints
            | Self::SelectorMismatch
            | Self::UnknownTopologyKey
            | Self::FitsNowhere
            | Self::Conflict => Severity::Error,
            Self::EmptySelector
            | Self::UnknownMatchLabelKey
            | Self::DeprecatedKey
            | Self::DaemonSet
            | Self::UnusedConstraints
            | Self::UnusableDomain
            | Self::OneDomain
            | Self::MinDomains
            | Self::EmptyValue => Severity::Warning,
            Self::Unrendered
            | Self::MixedRevisions
            | Self::SingleReplica
            | Self::SoftMaxSkew
            | Self::GreedyPicking
            | Self::SharedSelector
            | Self::MissingKey => Severity::Note,
        }
    }
}

/// The name of a rule or a severity, as flags and findings write it.
fn name_of(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The findings, two lines each, and their number. `place` names the source of the checked pod
/// templates.
pub(crate) fn text(findings: &[LintFinding], templates: usize, place: &str) -> String {
    let mut text: String = findings.iter().map(lines).collect();
    if !findings.is_empty() {
        text.push('\n');
    }
    text + &totals(findings, templates, place)
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Note => AnsiColor::Cyan.on_default(),
        Severity::Warning => Look::Fair.style(),
        Severity::Error => Look::Bad.style(),
    }
    .bold()
}

fn lines(finding: &LintFinding) -> String {
    let place = finding.place();
    let mut text = format!(
        "{}: {}: {} [{}]\n",
        Look::Strong.paint(&place),
        styled(style(finding.severity), &name_of(finding.severity)),
        visible::text(&finding.message),
        name_of(finding.rule),
    );
    if !finding.object.is_empty() {
        let at = match finding.path.is_empty() {
            true => String::new(),
            false => format!(", {}", visible::text(&finding.path)),
        };
        let object = visible::text(&finding.object);
        text.push_str(&format!("    {object}{at}\n"));
    }
    text
}

fn totals(findings: &[LintFinding], templates: usize, place: &str) -> String {
    let looked_at = format!("{} in {place}", plural(templates, "pod template"));
    if findings.is_empty() && templates == 0 {
        return format!("nothing to check: no pod template in {place}\n");
    }
    if findings.is_empty() {
        return format!("{}: {looked_at}\n", Look::Good.paint("nothing found"));
    }
    let of = |severity: Severity| {
        let count = findings.iter().filter(|f| f.severity == severity).count();
        (count > 0).then(|| plural(count as i64, &name_of(severity)))
    };
    let worst_first = [Severity::Error, Severity::Warning, Severity::Note];
    let said: Vec<String> = worst_first.into_iter().filter_map(of).collect();
    format!("{}: {looked_at}\n", said.join(", "))
}

/// Returns the message of a finding, with its object.
fn named_message(finding: &LintFinding) -> String {
    match &*finding.object {
        "" => finding.message.clone(),
        object => format!("{object}: {}", finding.message),
    }
}

/// Writes a test case for each finding, or one that passes if there are no findings. The findings of
/// at least the severity `fail_on` fail.
pub(super) fn junit(findings: &[LintFinding], templates: usize, fail_on: Severity) -> String {
    let failed = findings.iter().filter(|it| it.severity >= fail_on);
    let suites = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites {
            testsuite name="evenkeel lint" tests=(findings.len().max(1)) failures=(failed.count()) {
                @for finding in findings { (junit_case(finding, fail_on)) }
                @if findings.is_empty() {
                    testcase classname="evenkeel" name={ (templates) " pod templates" } {}
                }
            }
        }
    };
    suites.into_string() + "\n"
}

fn junit_case(finding: &LintFinding, fail_on: Severity) -> Markup {
    let place = finding.place();
    let place = visible::text(&place);
    let (severity, message) = (name_of(finding.severity), visible::text(&finding.message));
    let name = format!("{}: {}", name_of(finding.rule), named_message(finding));
    html! {
        testcase classname=(visible::text(&finding.file)) name=(visible::text(&name)) {
            @match finding.severity >= fail_on {
                true => failure type=(severity) message=(message) { (place) },
                false => system-out { (severity) ": " (place) ": " (message) },
            }
        }
        "\n"
    }
}
