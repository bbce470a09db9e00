//! Node selectors and required node affinity (`docs/semantics.md`,
//! "Matching").

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names;
use super::selector::{LabelsOf, Operator, Requirement, set_of};
use super::violations::{Path, Violations};
use crate::limits::{Limit, Limits};
use crate::proto::v1;

/// A term of required node affinity. A node matches it when it meets all of its
/// requirements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct NodeTerm {
    /// Requirements on the node's labels.
    labels: Box<[Requirement<Box<str>>]>,
    /// Requirements on the node's name.
    names: Box<[Requirement<Box<str>>]>,
}

/// The rule for the nodes that a pod may run on. A node must have all labels of the pod's
/// `nodeSelector` and match a term of its required node affinity. Copies share one value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeAffinity(Arc<AffinityRules>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AffinityRules {
    /// The `nodeSelector`.
    labels: Box<[Requirement<Box<str>>]>,
    /// The terms that can match a node; `None` without required affinity.
    terms: Option<Box<[NodeTerm]>>,
}

impl NodeAffinity {
    /// Compiles the node selector and required affinity of a pod; `path` is
    /// that of its spec. Preferred terms are checked and dropped.
    pub fn compile(
        spec: &v1::PodSpec,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        names::check_labels(&spec.node_selector, path.field("nodeSelector"), faults);
        let affinity = spec
            .affinity
            .as_ref()
            .and_then(|a| a.node_affinity.as_ref());
        let path = path.field("affinity.nodeAffinity");
        let terms = affinity
            .and_then(|a| {
                a.required_during_scheduling_ignored_during_execution
                    .as_ref()
            })
            .map(|wire| {
                let path = path.field("requiredDuringSchedulingIgnoredDuringExecution");
                compile_terms(wire, limits, path, faults)
            });
        let preferred = affinity.map_or(&[][..], |a| {
            &a.preferred_during_scheduling_ignored_during_execution
        });
        let list = path.field("preferredDuringSchedulingIgnoredDuringExecution");
        for (path, term) in list.each(preferred) {
            check_preferred(term, path, faults);
        }
        let labels = Requirement::pairs(&spec.node_selector).collect();
        Self(Arc::new(AffinityRules { labels, terms }))
    }

    /// Compiles the rule for the nodes that reach a volume; `path` is that of the node selector.
    pub fn of_volume(
        wire: &v1::NodeSelector,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        Self(Arc::new(AffinityRules {
            labels: Box::default(),
            terms: Some(compile_terms(wire, limits, path, faults)),
        }))
    }
}

/// Values of labels, of which a node has one if it matches an affinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededLabels<'a> {
    /// The pairs of a key and a value.
    pub pairs: BTreeSet<(&'a str, &'a str)>,
    /// True if every node with one of the pairs matches.
    pub suffice: bool,
}

impl NodeAffinity {
    /// Returns the labels of which a node without a name needs one. `None` if it needs none. Of the
    /// labels that a term needs, the one with the lowest rank and the fewest values is returned.
    pub fn needed_labels(&self, rank: impl Fn(&str) -> u8) -> Option<NeededLabels<'_>> {
        let terms = self.0.terms.as_ref()?;
        let mut needed = NeededLabels {
            pairs: BTreeSet::new(),
            suffice: self.0.labels.is_empty(),
        };
        let is_nameless = |term: &&NodeTerm| {
            let mut names = term.names.iter();
            names.all(|requirement| requirement.holds(Some(""), |name| name))
        };
        for term in terms.iter().filter(is_nameless) {
            let of = |it: &'_ Requirement<Box<str>>| match &it.operator {
                Operator::In(values) => Some(values.len()),
                _ => None,
            };
            let listed = term.labels.iter();
            let listed = listed.filter_map(|it| Some(((rank(&it.key), of(it)?), it)));
            let (_, best) = listed.min_by_key(|(cost, _)| *cost)?;
            let Operator::In(values) = &best.operator else {
                return None;
            };
            needed.suffice &= term.labels.len() == 1;
            let pairs = values.iter().map(|value| (&*best.key, &**value));
            needed.pairs.extend(pairs);
        }
        Some(needed)
    }

    /// Returns whether every node matches.
    pub fn is_any(&self) -> bool {
        self.0.labels.is_empty() && self.0.terms.is_none()
    }

    /// Upper estimate of how many requirements a node is checked against.
    pub fn per_node(&self) -> usize {
        let rules = &*self.0;
        let terms = rules.terms.iter().flatten();
        let of_terms = terms.map(|term| term.labels.len() + term.names.len());
        rules.labels.len() + of_terms.sum::<usize>()
    }

    /// Returns whether a node of this name matches; `label` returns its labels.
    pub fn matches<'n>(&self, name: &str, label: impl Fn(&str) -> Option<&'n str>) -> bool {
        let labels = |all: &[Requirement<Box<str>>]| {
            let mut all = all.iter();
            all.all(|it| it.holds(label(&it.key), |value| value))
        };
        let names = |all: &[Requirement<Box<str>>]| {
            let mut all = all.iter();
            all.all(|it| it.holds(Some(name), |value| value))
        };
        let term = |term: &NodeTerm| labels(&term.labels) && names(&term.names);
        let terms = self.0.terms.as_ref();
        labels(&self.0.labels) && terms.is_none_or(|terms| terms.iter().any(term))
    }
}

/// Compiles the terms that can match. A term without requirements, or with a value that does not
/// parse, matches no node and is left out.
fn compile_terms(
    wire: &v1::NodeSelector,
    limits: &Limits,
    path: Path<'_>,
    faults: &mut Violations,
) -> Box<[NodeTerm]> {
    let list = path.field("nodeSelectorTerms");
    if wire.node_selector_terms.is_empty() {
        faults.add(list, "must have at least one term");
    }
    let count = wire.node_selector_terms.len();
    if !faults.within(list, limits, Limit::NodeAffinityTerms, count) {
        return Box::default();
    }
    let compile = |(path, wire)| compile_term(wire, path, faults);
    set_of(list.each(&wire.node_selector_terms).filter_map(compile))
}

fn compile_term(
    wire: &v1::NodeSelectorTerm,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<NodeTerm> {
    let expressions = path.field("matchExpressions");
    let labels = expressions.each(&wire.match_expressions);
    let labels: Vec<_> = labels
        .map(|(path, wire)| compile_expression(wire, path, faults))
        .collect();
    let fields = path.field("matchFields");
    let names = fields.each(&wire.match_fields);
    let names: Vec<_> = names
        .map(|(path, wire)| compile_field(wire, path, faults))
        .collect();
    if labels.is_empty() && names.is_empty() {
        return None;
    }
    Some(NodeTerm {
        labels: set_of(labels.into_iter().collect::<Option<Vec<_>>>()?),
        names: set_of(names.into_iter().collect::<Option<Vec<_>>>()?),
    })
}

/// Compiles a requirement on labels. `None` if it is invalid or a value does not parse.
fn compile_expression(
    wire: &v1::NodeSelectorRequirement,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<Requirement<Box<str>>> {
    names::check_label_key(&wire.key, path.field("key"), faults);
    let operator = Operator::compile(&wire.operator, &wire.values, LabelsOf::Nodes, path, faults)?;
    Some(Requirement {
        key: wire.key.as_str().into(),
        operator,
    })
}

fn compile_field(
    wire: &v1::NodeSelectorRequirement,
    path: Path<'_>,
    faults: &mut Violations,
) -> Option<Requirement<Box<str>>> {
    if wire.key != "metadata.name" {
        faults.add(path.field("key"), "must be metadata.name");
    }
    let known = matches!(&*wire.operator, "In" | "NotIn");
    if known && wire.values.len() != 1 {
        faults.add(path.field("values"), "must be exactly one for a field");
    }
    let values = set_of(wire.values.iter().map(|value| value.as_str().into()));
    let operator = match &*wire.operator {
        "In" => Operator::In(values),
        "NotIn" => Operator::NotIn(values),
        _ => {
            faults.add(path.field("operator"), "must be In or NotIn for a field");
            return None;
        }
    };
    Some(Requirement {
        key: wire.key.as_str().into(),
        operator,
    })
}

fn check_preferred(wire: &v1::PreferredSchedulingTerm, path: Path<'_>, faults: &mut Violations) {
    if !(1..=100).contains(&wire.weight) {
        faults.add(path.field("weight"), "must be 1 to 100");
    }
    match &wire.preference {
        Some(term) => {
            compile_term(term, path.field("preference"), faults);
        }
        None => faults.add(path.field("preference"), "is required"),
    }
}
