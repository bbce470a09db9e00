//! Affinity and anti-affinity between pods (`docs/semantics.md`,
//! "Affinity between pods").

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names;
use super::selector::set_of;
use super::selector::{Operator, Requirement, Selector};
use super::version::VersionRules;
use super::violations::{Path, Violations};
use crate::limits::{Limit, Limits};
use crate::proto::v1;

/// The field with the terms that a pod requires.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A term of required affinity or anti-affinity: it selects pods, and its topology key defines the
/// domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Label key of nodes whose values are the domains.
    pub topology_key: Arc<str>,
    /// Selects the pods by their labels.
    pub selector: Selector,
    /// The names of the namespaces that the term covers; sorted, without repetitions.
    pub namespaces: Box<[Box<str>]>,
    /// Selects further namespaces by their labels.
    pub namespace_selector: Selector,
}

/// The required terms of an incoming pod.
#[derive(Debug, Clone, Default)]
pub struct PodAffinity {
    /// The terms of its affinity.
    pub near: Box<[PodTerm]>,
    /// The terms of its anti-affinity.
    pub apart: Box<[PodTerm]>,
}

impl PodAffinity {
    /// Checks and compiles the terms of an incoming pod; `path` is that of its spec.
    pub fn compile(
        metadata: &v1::ObjectMeta,
        spec: &v1::PodSpec,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let affinity = path.field("affinity");
        let mut compile = |rules: Option<&v1::PodAffinity>, field| {
            let rules_path = affinity.field(field);
            let list = rules_path.field(REQUIRED);
            let wire = required(rules);
            if !faults.within(list, limits, Limit::ConstraintsPerPod, wire.len()) {
                return Box::default();
            }
            let terms = list.each(wire);
            terms
                .map(|(path, term)| PodTerm::compile(term, metadata, path, faults))
                .collect()
        };
        let rules = spec.affinity.as_ref();
        Self {
            near: compile(rules.and_then(|r| r.pod_affinity.as_ref()), "podAffinity"),
            apart: compile(
                rules.and_then(|r| r.pod_anti_affinity.as_ref()),
                "podAntiAffinity",
            ),
        }
    }

    /// Returns whether the pod requires nothing of other pods.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && self.apart.is_empty()
    }

    /// Returns whether a term covers other namespaces than `own`, that of the pod.
    pub fn covers_others(&self, own: &str) -> bool {
        let mut terms = self.near.iter().chain(&self.apart);
        terms.any(|term| {
            let mut names = term.namespaces.iter();
            term.namespace_selector != Selector::Nothing || names.any(|name| **name != *own)
        })
    }

    /// The fields of the pod in which terms select namespaces by their labels.
    pub fn namespace_selectors(&self) -> [Option<&'static str>; 2] {
        let selects = |term: &PodTerm| {
            let selector = &term.namespace_selector;
            !selector.is_empty() && *selector != Selector::Nothing
        };
        let of = |terms: &[PodTerm], field| terms.iter().any(selects).then_some(field);
        [
            of(&self.near, "spec.affinity.podAffinity.namespaceSelector"),
            of(
                &self.apart,
                "spec.affinity.podAntiAffinity.namespaceSelector",
            ),
        ]
    }
}

impl PodTerm {
    /// Checks and compiles the terms of the required anti-affinity of an existing pod; `path` is
    /// that of the pod. The API server merged the keys of `matchLabelKeys` into the selectors when
    /// the pod was created.
    pub fn compile_existing(
        pod: &v1::Pod,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Arc<[Self]>> {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
        let wire = required(affinity.pod_anti_affinity.as_ref());
        if wire.is_empty() {
            return None;
        }
        let path = path.field("spec.affinity.podAntiAffinity");
        let list = path.field(REQUIRED);
        // A term has no effect on nodes without its topology key.
        let terms = list
            .each(wire)
            .filter(|(_, term)| !term.topology_key.is_empty());
        let terms = terms.map(|(path, term)| Self::checked(term, Vec::new(), path, faults));
        let terms: Arc<[Self]> = terms.collect();
        (!terms.is_empty()).then_some(terms)
    }

    /// The terms of an existing pod by which kube-scheduler scores nodes for other pods: its
    /// preferred terms, and those of its required affinity.
    pub fn scored(pod: &v1::Pod) -> Option<Arc<[Self]>> {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
        let near = required(affinity.pod_affinity.as_ref()).iter();
        let rules = [&affinity.pod_affinity, &affinity.pod_anti_affinity];
        let preferred = rules
            .into_iter()
            .flatten()
            .flat_map(|rules| &rules.preferred_during_scheduling_ignored_during_execution)
            .filter_map(|weighted| weighted.pod_affinity_term.as_ref());
        let terms = near
            .chain(preferred)
            .filter(|term| !term.topology_key.is_empty());
        let terms: Arc<[Self]> = terms.map(Self::trusted).collect();
        (!terms.is_empty()).then_some(terms)
    }

    fn compile(
        wire: &v1::PodAffinityTerm,
        metadata: &v1::ObjectMeta,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        let mut merged = Vec::new();
        for (field, keys, is_match) in [
            ("matchLabelKeys", &wire.match_label_keys, true),
            ("mismatchLabelKeys", &wire.mismatch_label_keys, false),
        ] {
            let list = path.field(field);
            if !keys.is_empty() && wire.label_selector.is_none() {
                faults.add(list, "can only be set with a labelSelector");
            }
            for (path, key) in list.each(keys) {
                names::check_label_key(key, path, faults);
                if is_match && wire.mismatch_label_keys.contains(key) {
                    faults.add(path, "is in mismatchLabelKeys too");
                }
                // A pod with a uid exists already: the API server merged the keys into its terms.
                let value = metadata.labels.get(key).filter(|_| metadata.uid.is_empty());
                let (Some(value), Some(selector)) = (value, &wire.label_selector) else {
                    continue;
                };
                if is_match && is_merged(key, selector) {
                    continue;
                }
                if is_match && uses(key, selector) {
                    faults.add(path, "is used by the labelSelector already");
                    continue;
                }
                let operator = if is_match {
                    Operator::In
                } else {
                    Operator::NotIn
                };
                merged.push(Requirement {
                    key: key.as_str().into(),
                    operator: operator([value.as_str().into()].into()),
                });
            }
        }
        Self::checked(wire, merged, path, faults)
    }

    /// A term with `requirements` ANDed to its selector.
    fn checked(
        wire: &v1::PodAffinityTerm,
        requirements: Vec<Requirement<Box<str>>>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        names::check_label_key(&wire.topology_key, path.field("topologyKey"), faults);
        let list = path.field("namespaces");
        for (path, name) in list.each(&wire.namespaces) {
            match name.is_empty() {
                true => faults.add(path, "is required"),
                false => names::check_namespace(name, path, faults),
            }
        }
        let mut selector = |wire: &Option<v1::LabelSelector>, field| {
            Selector::compile(wire.as_ref(), path.field(field), faults)
        };
        Self {
            topology_key: wire.topology_key.as_str().into(),
            selector: selector(&wire.label_selector, "labelSelector").and(requirements),
            namespaces: set_of(wire.namespaces.iter().map(|name| name.as_str().into())),
            namespace_selector: selector(&wire.namespace_selector, "namespaceSelector"),
        }
    }

    /// Compiles a term that is known to be valid, or whose faults do not matter.
    pub fn trusted(wire: &v1::PodAffinityTerm) -> Self {
        let no_faults = &mut Violations::default();
        Self::checked(wire, Vec::new(), Path::root("term"), no_faults)
    }

    /// Returns whether the term covers only the namespace of the pod that has it.
    pub fn is_about_own(&self) -> bool {
        self.namespaces.is_empty() && self.namespace_selector == Selector::Nothing
    }

    /// Returns whether the term covers pods of a namespace with these labels; `own` is the
    /// namespace of the pod that has the term. A namespace without labels is found only by the
    /// selector `{}`.
    pub fn is_about(
        &self,
        own: &str,
        namespace: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        if self.is_about_own() {
            return own == namespace;
        }
        let found = self
            .namespaces
            .binary_search_by(|name| (**name).cmp(namespace));
        found.is_ok()
            || self.namespace_selector.is_empty()
            || labels.is_some_and(|labels| self.namespace_selector.matches_labels(labels))
    }

    /// Returns whether the term covers the pods of all namespaces if an incoming pod has the term.
    pub fn is_about_all(&self, rules: &VersionRules) -> bool {
        let selector = &self.namespace_selector;
        selector.is_empty()
            || rules.no_labels_select_all && selector.matches_labels(&BTreeMap::new())
    }

    /// The term for the wire, with everything merged into its selectors.
    pub fn to_wire(&self) -> v1::PodAffinityTerm {
        v1::PodAffinityTerm {
            label_selector: self.selector.to_wire(),
            namespaces: self.namespaces.iter().map(ToString::to_string).collect(),
            topology_key: self.topology_key.to_string(),
            namespace_selector: self.namespace_selector.to_wire(),
            ..v1::PodAffinityTerm::default()
        }
    }
}

/// Returns whether a key of `matchLabelKeys` is already merged into a selector. The selector then
/// has an `In` with one value for the key.
pub(super) fn is_merged(key: &str, selector: &v1::LabelSelector) -> bool {
    let mut of_key = selector.match_expressions.iter().filter(|e| e.key == key);
    of_key.any(|e| e.operator == "In" && e.values.len() == 1)
}

fn uses(key: &str, selector: &v1::LabelSelector) -> bool {
    let mut expressions = selector.match_expressions.iter();
    selector.match_labels.contains_key(key) || expressions.any(|e| e.key == key)
}

fn required(rules: Option<&v1::PodAffinity>) -> &[v1::PodAffinityTerm] {
    rules.map_or(&[], |rules| {
        &rules.required_during_scheduling_ignored_during_execution
    })
}
