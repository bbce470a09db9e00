//! The rules: what lint looks for.

use clap::ValueEnum;
use serde::Serialize;

/// How bad a finding is.
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
    /// A DaemonSet has a hard constraint, which keeps its pods off nodes.
    DaemonSet,
    /// There is only one replica to spread.
    SingleReplica,
    /// A soft constraint has a maxSkew above 1, which is no limit.
    SoftMaxSkew,
    /// A placement has constraints that its type does not use.
    UnusedConstraints,
    /// A placement has several hard constraints, which greedy picking may miss.
    GreedyPicking,
    /// On the given cluster the pod fits nowhere.
    FitsNowhere,
    /// Two constraints exclude each other on the given cluster.
    Conflict,
    /// A domain that cannot be used holds the others back on the given cluster.
    UnusableDomain,
    /// The given cluster has fewer domains than minDomains.
    MinDomains,
    /// Nodes of the given cluster lack the topology key.
    MissingKey,
    /// Nodes of the given cluster have the topology key with an empty value.
    EmptyValue,
}

impl LintRule {
    /// The name.
    pub(crate) fn id(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What it looks for, in a sentence.
    pub(crate) fn help(self) -> String {
        let value = self.to_possible_value();
        let help = value.and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// How bad its findings are.
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Unreadable
            | Self::Invalid
            | Self::SelectorMismatch
            | Self::FitsNowhere
            | Self::Conflict => Severity::Error,
            Self::EmptySelector
            | Self::UnknownMatchLabelKey
            | Self::DeprecatedKey
            | Self::DaemonSet
            | Self::UnusedConstraints
            | Self::UnusableDomain
            | Self::MinDomains
            | Self::EmptyValue => Severity::Warning,
            Self::Unrendered
            | Self::MixedRevisions
            | Self::SingleReplica
            | Self::SoftMaxSkew
            | Self::GreedyPicking
            | Self::MissingKey => Severity::Note,
        }
    }
}

impl Severity {
    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
