//! The rules of lint.

use clap::ValueEnum;
use serde::Serialize;

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
    /// The name.
    pub(crate) fn id(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

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

impl Severity {
    /// The name of the severity.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
