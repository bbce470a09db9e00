//! The lint rule about selectors of constraints that also select the pods of other workloads.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::checks::counts_alone;
use super::finding::{LintFinding, Said};
use super::rule::LintRule;
use crate::explain;
use crate::manifest::{ReadTemplate, Template};
use crate::matching::{Selector, names, selector_text};
use crate::spread::Active;

type PodLabels = BTreeMap<String, String>;

/// The workloads of all files, and the pods that their constraints select.
#[derive(Default)]
pub(super) struct Workloads {
    namespaces: BTreeMap<String, NamespaceWorkloads>,
}

#[derive(Default)]
struct NamespaceWorkloads {
    /// The names of the workloads, by the labels of their pods.
    by_labels: BTreeMap<PodLabels, BTreeSet<String>>,
    selecting: Vec<Selecting>,
}

/// A constraint with a selector.
struct Selecting {
    object: String,
    selector: Selector,
    /// The finding with its position, but without a message.
    finding: LintFinding,
}

impl Workloads {
    /// Adds a workload with its constraints. Single pods and placements are left out, and patches
    /// and charts.
    pub(super) fn add(
        &mut self,
        template: &Template,
        read: &ReadTemplate,
        constraints: &[Active],
        finding: impl Fn(Said) -> LintFinding,
    ) {
        let is_single = template.object.kind() == "Pod";
        if is_single || read.policy.is_some() || template.unsaid().fields {
            return;
        }
        let pod = &read.pod;
        let object = &template.object.name;
        let namespace = names::namespace_or_default(template.object.namespace());
        let namespace = self.namespaces.entry(namespace.to_owned()).or_default();
        let labels = pod.metadata.as_ref().map(|metadata| &metadata.labels);
        let of_labels = namespace
            .by_labels
            .entry(labels.cloned().unwrap_or_default());
        of_labels.or_default().insert(object.clone());
        let counts_others =
            |active: &&Active| !active.selector.is_empty() && !counts_alone(template, active);
        for active in constraints.iter().filter(counts_others) {
            let field = format!(
                "spec.topologySpreadConstraints[{}].labelSelector",
                active.index
            );
            namespace.selecting.push(Selecting {
                object: object.clone(),
                selector: active.selector.clone(),
                finding: finding(Said {
                    rule: LintRule::SharedSelector,
                    field: template.field(&field),
                    message: String::new(),
                }),
            });
        }
    }

    /// Returns the findings, after all workloads were added.
    pub(super) fn findings(self) -> Vec<LintFinding> {
        let namespaces = self.namespaces.into_values();
        namespaces.flat_map(NamespaceWorkloads::findings).collect()
    }
}

impl NamespaceWorkloads {
    fn findings(self) -> Vec<LintFinding> {
        // Most selectors require a label with a value that few workloads have.
        let mut by_pair: HashMap<(&str, &str), Vec<&PodLabels>> = HashMap::new();
        for labels in self.by_labels.keys() {
            for (key, value) in labels {
                by_pair.entry((key, value)).or_default().push(labels);
            }
        }
        let everyone: Vec<&PodLabels> = self.by_labels.keys().collect();
        let nobody = Vec::new();
        let mut findings = Vec::new();
        for selecting in &self.selecting {
            let candidates = match selecting.selector.required_pair() {
                Some(pair) => by_pair.get(&pair).unwrap_or(&nobody),
                None => &everyone,
            };
            let selected = candidates.iter().copied();
            let selected = selected.filter(|labels| selecting.selector.matches_labels(labels));
            let others: BTreeSet<&String> = selected
                .flat_map(|labels| &self.by_labels[labels])
                .filter(|object| **object != selecting.object)
                .collect();
            let wire = selecting.selector.to_wire();
            let Some(wire) = wire.filter(|_| !others.is_empty()) else {
                continue;
            };
            let message = format!(
                "{} selects the pods of {} too: they are counted and spread together",
                selector_text(&wire),
                explain::among(&others.into_iter().collect::<Vec<_>>()),
            );
            findings.push(LintFinding {
                message,
                ..selecting.finding.clone()
            });
        }
        findings
    }
}
