//! The lint rules that need only the manifest, one function each.

use std::collections::{BTreeMap, BTreeSet};

use super::fields;
use super::finding::Said;
use super::given::{is_given, is_given_by};
use super::placeholders::{UNRENDERED, has_placeholder};
use super::rule::LintRule;
use crate::explain;
use crate::manifest::{ManifestError, PlacementPolicy, Template};
use crate::matching::{Path, Violation, Violations};
use crate::proto::v1::hint::Kind;
use crate::proto::v1::{Hint, Pod, TopologySpreadConstraint};
use crate::snapshot::Limits;
use crate::spread::{self, Active, fleet};

/// Deprecated topology keys, each with its replacement.
const DEPRECATED_KEYS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
];

/// A template with its compiled constraints.
struct CheckedTemplate<'t> {
    template: &'t Template,
    pod: &'t Pod,
    policy: Option<&'t PlacementPolicy>,
    constraints: Vec<Active>,
}

/// The findings about a template.
pub(super) struct TemplateFindings {
    /// The findings.
    pub(super) said: Vec<Said>,
    /// The constraints that are valid.
    pub(super) constraints: Vec<Active>,
    /// True if the whole template is valid.
    pub(super) is_valid: bool,
}

/// Applies all rules to a template.
pub(super) fn check(template: &Template, limits: &Limits) -> TemplateFindings {
    if has_placeholder(&template.object.value) {
        return TemplateFindings {
            said: vec![Said {
                rule: LintRule::Unrendered,
                field: String::new(),
                message: UNRENDERED.to_owned(),
            }],
            constraints: Vec::new(),
            is_valid: false,
        };
    }
    let mut said = fields::odd(template);
    let (read, faults) = read(template, limits, &said);
    said.extend(faults);
    let is_valid = said.iter().all(|said| said.rule != LintRule::Invalid);
    let constraints = match read {
        Some(checked) => {
            said.extend(explained(&checked));
            for (written, active) in checked.written() {
                said.extend(unknown_match_label_keys(&checked, written, active));
                said.extend(mixed_revisions(&checked, written, active));
                said.extend(deprecated_key(&checked, active));
                said.extend(daemon_set(&checked, active));
            }
            said.extend(single_replica(&checked));
            said.extend(no_constraints(&checked));
            said.extend(placement(&checked));
            checked.constraints
        }
        None => Vec::new(),
    };
    TemplateFindings {
        said,
        constraints,
        is_valid,
    }
}

/// Returns the template with its valid constraints, if all else is valid, and the faults that are
/// not in `said` already.
fn read<'t>(
    template: &'t Template,
    limits: &Limits,
    said: &[Said],
) -> (Option<CheckedTemplate<'t>>, Vec<Said>) {
    let is_said = said.iter().any(|said| said.rule == LintRule::Invalid);
    let (pod, policy) = match &template.pod {
        Ok(read) => read,
        Err(_) if is_said => return (None, Vec::new()),
        Err(error) => return (None, vec![unreadable(template, error)]),
    };
    let fault = |fault: &Violation| {
        let field = template.field(fault.field.trim_start_matches('.'));
        let name = field.rsplit('.').next().unwrap_or_default();
        let message = format!("{name} {}", fault.description);
        invalid(field, message)
    };
    let is_placement = policy.is_some();
    let faults: Vec<Said> = match compile(pod, is_placement, limits) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(fault).collect(),
    };
    let invalid = said.iter().filter(|said| said.rule == LintRule::Invalid);
    let broken = invalid
        .chain(&faults)
        .map(|said| constraint_of(&said.field));
    let compiled = broken.collect::<Option<BTreeSet<usize>>>();
    let compiled = compiled.and_then(|broken| compile_but(pod, is_placement, limits, &broken));
    let checked = compiled.map(|constraints| CheckedTemplate {
        template,
        pod,
        policy: policy.as_ref(),
        constraints,
    });
    // If faults of fields were found before, these faults would repeat them.
    (checked, if is_said { Vec::new() } else { faults })
}

/// The index of the constraint that a field belongs to.
pub(super) fn constraint_of(field: &str) -> Option<usize> {
    let (_, rest) = field.split_once("topologySpreadConstraints[")?;
    rest.split_once(']')?.0.parse().ok()
}

/// Compiles the constraints of a pod that are not broken. `None` if none is left, or anything else
/// is invalid.
fn compile_but(
    pod: &Pod,
    is_placement: bool,
    limits: &Limits,
    broken: &BTreeSet<usize>,
) -> Option<Vec<Active>> {
    let mut left = pod.clone();
    let constraints = &mut left
        .spec
        .get_or_insert_default()
        .topology_spread_constraints;
    let kept: Vec<usize> = (0..constraints.len())
        .filter(|at| !broken.contains(at))
        .collect();
    if kept.is_empty() && !broken.is_empty() {
        return None;
    }
    *constraints = kept.iter().map(|at| constraints[*at].clone()).collect();
    let mut compiled = compile(&left, is_placement, limits).ok()?;
    for active in &mut compiled {
        active.index = kept[active.index];
    }
    Some(compiled)
}

/// The finding that a template cannot be read as a pod.
fn unreadable(template: &Template, error: &ManifestError) -> Said {
    match error {
        ManifestError::Field { field, message, .. } => {
            let name = field.rsplit('.').next().unwrap_or_default();
            let path = match field.strip_prefix("spec.policy") {
                Some(_) if template.object.is_placement() => field.clone(),
                _ => template.field(field),
            };
            invalid(path, format!("{name}: {message}"))
        }
        error => invalid(String::new(), error.to_string()),
    }
}

fn invalid(field: String, message: String) -> Said {
    Said {
        rule: LintRule::Invalid,
        field,
        message,
    }
}

/// Compiles the constraints of a pod as a decision does.
fn compile(pod: &Pod, is_placement: bool, limits: &Limits) -> Result<Vec<Active>, Violations> {
    // The paths of fields are relative to the pod.
    let root = Path::root("");
    if is_placement {
        let question = fleet::PlacementSpec::compile(Some(pod.clone()), limits, root)?;
        let mut constraints = question.constraints;
        constraints.sort_by_key(|active| active.index);
        return Ok(constraints);
    }
    let question = spread::Question::compile(Some(pod), limits, root)?;
    Ok(question.constraints.all)
}

impl CheckedTemplate<'_> {
    /// The constraints as written, with their compiled form.
    fn written(&self) -> impl Iterator<Item = (&TopologySpreadConstraint, &Active)> {
        let spec = self.pod.spec.as_ref();
        let written = spec.map_or(&[][..], |spec| &spec.topology_spread_constraints);
        self.constraints
            .iter()
            .filter_map(|active| Some((written.get(active.index)?, active)))
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.pod.metadata.as_ref().map_or(&NONE, |m| &m.labels)
    }

    /// Returns the finding of a rule about a field of a constraint.
    fn about(&self, rule: LintRule, active: &Active, field: &str, message: String) -> Said {
        let field = format!("spec.topologySpreadConstraints[{}]{field}", active.index);
        Said {
            rule,
            field: self.template.field(&field),
            message,
        }
    }

    /// Returns a hint about a constraint as a finding, if it shows a mistake.
    fn said(&self, active: &Active, hint: Hint) -> Option<Said> {
        let (rule, field) = match hint.kind() {
            // The selector uses labels that a controller adds later, so it may match.
            Kind::SelfMismatch if selects_given(active) => return None,
            Kind::SelfMismatch => (LintRule::SelectorMismatch, ".labelSelector"),
            Kind::EmptySelector => (LintRule::EmptySelector, ".labelSelector"),
            // maxSkew cannot be left out, and 1 is its least value, so it is no mistake.
            Kind::Soft if active.constraint.max_skew <= 1 => return None,
            Kind::Soft => (LintRule::SoftMaxSkew, ".maxSkew"),
            _ => return None,
        };
        Some(self.about(rule, active, field, hint.message))
    }

    /// The replicas of the object, if given.
    fn replicas(&self) -> Option<i64> {
        self.template.object.value["spec"]["replicas"].as_i64()
    }

    fn is(&self, kind: &str) -> bool {
        self.template.object.kind() == kind
    }
}

/// Returns the hints of Explain about the constraints that are true of any cluster.
fn explained(checked: &CheckedTemplate<'_>) -> Vec<Said> {
    let of = |active: &Active| -> Vec<Said> {
        let hints = match checked.policy {
            // Under KubeFleet's rules only this hint applies: KubeFleet fills in a missing
            // selector, and `maxSkew` of soft constraints has an effect.
            Some(_) => explain::fleet::mismatch(active).into_iter().collect(),
            None => explain::always(active, checked.labels()),
        };
        let said = hints.into_iter();
        said.filter_map(|hint| checked.said(active, hint)).collect()
    };
    checked.constraints.iter().flat_map(of).collect()
}

/// Returns whether a selector requires labels that controllers add to pods.
fn selects_given(active: &Active) -> bool {
    let wire = active.selector.to_wire();
    wire.is_some_and(|wire| wire.match_labels.keys().any(|key| is_given(key)))
}

/// Returns whether a constraint of `pod` counts only pods of its own workload, because it uses
/// labels that controllers add.
pub(super) fn counts_alone(pod: &Pod, active: &Active) -> bool {
    let spec = pod.spec.as_ref();
    let written = spec.and_then(|spec| spec.topology_spread_constraints.get(active.index));
    let keys = written.map_or(&[][..], |written| &written.match_label_keys);
    keys.iter().any(|key| is_given(key)) || selects_given(active)
}

/// Finds keys of `matchLabelKeys` that the pod lacks, which are ignored.
fn unknown_match_label_keys(
    checked: &CheckedTemplate<'_>,
    written: &TopologySpreadConstraint,
    active: &Active,
) -> Vec<Said> {
    let keys = written.match_label_keys.iter().enumerate();
    let kind = checked.template.object.kind();
    let has = |key: &String| checked.labels().contains_key(key) || is_given_by(kind, key);
    let unknown = keys.filter(|(_, key)| !has(key));
    let said = unknown.map(|(index, key)| {
        let message = format!("the pod has no label {key}: this key is ignored");
        let field = format!(".matchLabelKeys[{index}]");
        checked.about(LintRule::UnknownMatchLabelKey, active, &field, message)
    });
    said.collect()
}

/// Finds constraints of a Deployment that count the pods of old revisions during a rollout.
fn mixed_revisions(
    checked: &CheckedTemplate<'_>,
    written: &TopologySpreadConstraint,
    active: &Active,
) -> Option<Said> {
    const HASH: &str = "pod-template-hash";
    let separated = written.match_label_keys.iter().any(|key| key == HASH);
    let hard = active.constraint.is_hard() && active.self_match > 0;
    if !checked.is("Deployment") || !hard || separated {
        return None;
    }
    let message = format!(
        "in a rollout the old pods are counted with the new ones, which end up uneven when the \
         old are gone; matchLabelKeys: [{HASH}] counts each revision by itself"
    );
    Some(checked.about(LintRule::MixedRevisions, active, "", message))
}

/// Finds deprecated topology keys, which new nodes do not have.
fn deprecated_key(checked: &CheckedTemplate<'_>, active: &Active) -> Option<Said> {
    let key = &*active.constraint.topology_key;
    let (_, new) = DEPRECATED_KEYS.iter().find(|(old, _)| *old == key)?;
    let message = format!("{key} is deprecated and newer nodes lack it: use {new}");
    Some(checked.about(LintRule::DeprecatedKey, active, ".topologyKey", message))
}

/// Finds hard constraints of a DaemonSet, each of whose pods is tied to a node.
fn daemon_set(checked: &CheckedTemplate<'_>, active: &Active) -> Option<Said> {
    let keeps_off = checked.is("DaemonSet") && active.constraint.is_hard();
    let message = match active.counts_own_node {
        true => {
            "a DaemonSet ties each of its pods to a node, and nodeAffinityPolicy: Honor counts this node \
             only: the constraint does nothing"
        }
        false => {
            "a DaemonSet puts a pod on every node that fits: a hard constraint only keeps some of them \
             pending"
        }
    };
    keeps_off.then(|| checked.about(LintRule::DaemonSet, active, "", message.to_owned()))
}

/// Finds constraints of a workload with `replicas: 1`, which have no effect.
fn single_replica(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let is_single = checked.replicas() == Some(1) && !checked.constraints.is_empty();
    is_single.then(|| Said {
        rule: LintRule::SingleReplica,
        field: "spec.replicas".to_owned(),
        message: "there is one replica: its constraints have nothing to spread".to_owned(),
    })
}

/// Finds a workload with several replicas and no constraints.
fn no_constraints(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let replicas = checked.replicas().filter(|replicas| *replicas >= 2)?;
    let has_none = checked.constraints.is_empty() && checked.policy.is_none();
    // If the object has several templates, it is unknown to which the replicas belong.
    let is_only = checked.template.object.templates.len() <= 1;
    (has_none && is_only).then(|| Said {
        rule: LintRule::NoConstraints,
        field: checked.template.field("spec"),
        message: format!(
            "{replicas} replicas and no topologySpreadConstraints: nothing but the scheduler's \
             defaults keeps them apart"
        ),
    })
}

/// Returns the faults that only placements of KubeFleet can have.
fn placement(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let constraints = checked.constraints.iter();
    let hard = constraints.filter(|active| active.constraint.is_hard());
    let hard = hard.count();
    let (rule, message) = match checked.policy? {
        PlacementPolicy::PickN { .. } if hard > 1 => (
            LintRule::GreedyPicking,
            format!(
                "{hard} hard constraints: KubeFleet picks one cluster after the other and never \
                 moves a pick, so it may miss totals that another order reaches"
            ),
        ),
        PlacementPolicy::PickAll | PlacementPolicy::PickFixed(_)
            if !checked.constraints.is_empty() =>
        {
            (
                LintRule::UnusedConstraints,
                "topology spread constraints are only used with placementType PickN".to_owned(),
            )
        }
        _ => return None,
    };
    Some(Said {
        rule,
        field: checked.template.field("spec.topologySpreadConstraints"),
        message,
    })
}
