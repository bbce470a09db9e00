//! The rules that look at a manifest alone, a function each.

use std::collections::BTreeMap;

use super::fields;
use super::finding::Said;
use super::placeholders::{UNRENDERED, has_placeholder};
use super::rule::LintRule;
use crate::explain;
use crate::limits::NodeNames;
use crate::manifest::{ManifestError, PlacementPolicy, Template};
use crate::matching::{Path, Violation, Violations};
use crate::proto::v1::hint::Kind;
use crate::proto::v1::{Hint, Pod, TopologySpreadConstraint};
use crate::snapshot::Limits;
use crate::spread::{self, Active, fleet};

/// Labels that controllers give to the pods of a template.
const GIVEN_LABELS: [&str; 4] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
];

/// Topology keys that were replaced, and by what.
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

/// A template with its constraints compiled.
struct CheckedTemplate<'t> {
    template: &'t Template,
    pod: &'t Pod,
    policy: Option<&'t PlacementPolicy>,
    constraints: Vec<Active>,
}

/// What a template's own rules say.
pub(super) struct TemplateFindings {
    /// The findings.
    pub(super) said: Vec<Said>,
    /// The constraints; none where the template is not valid.
    pub(super) constraints: Option<Vec<Active>>,
}

/// Applies all rules to a template.
pub(super) fn check(template: &Template, node_names: NodeNames) -> TemplateFindings {
    if has_placeholder(&template.object.value) {
        return TemplateFindings {
            said: vec![Said {
                rule: LintRule::Unrendered,
                field: String::new(),
                message: UNRENDERED.to_owned(),
            }],
            constraints: None,
        };
    }
    let mut said = fields::odd(template);
    let constraints = match read(template, node_names, &said) {
        Ok(checked) => {
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
            Some(checked.constraints)
        }
        Err(faults) => {
            said.extend(faults);
            None
        }
    };
    TemplateFindings { said, constraints }
}

/// A template with its constraints, or what is wrong with it besides what is
/// `said` already.
fn read<'t>(
    template: &'t Template,
    node_names: NodeNames,
    said: &[Said],
) -> Result<CheckedTemplate<'t>, Vec<Said>> {
    if said.iter().any(|said| said.rule == LintRule::Invalid) {
        return Err(Vec::new());
    }
    let read = template.pod.as_ref();
    let (pod, policy) = read.map_err(|error| vec![unreadable(template, error)])?;
    let constraints = compile(pod, policy.is_some(), node_names).map_err(|faults| {
        let fault = |fault: &Violation| {
            let field = template.field(fault.field.trim_start_matches('.'));
            let name = field.rsplit('.').next().unwrap_or_default();
            let message = format!("{name} {}", fault.description);
            invalid(field, message)
        };
        faults.iter().map(fault).collect::<Vec<_>>()
    })?;
    Ok(CheckedTemplate {
        template,
        pod,
        policy: policy.as_ref(),
        constraints,
    })
}

/// A template that cannot be read as a pod.
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

/// The constraints of a pod, by the rules of a decision about it.
fn compile(
    pod: &Pod,
    is_placement: bool,
    node_names: NodeNames,
) -> Result<Vec<Active>, Violations> {
    let limits = Limits {
        node_names,
        ..Limits::default()
    };
    // Fields are named as those of the pod.
    let root = Path::root("");
    if is_placement {
        let question = fleet::PlacementSpec::compile(Some(pod.clone()), &limits, root)?;
        let mut constraints = question.constraints;
        constraints.sort_by_key(|active| active.index);
        return Ok(constraints);
    }
    let question = spread::Question::compile(Some(pod), &limits, root)?;
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

    /// What a rule says of a field of a constraint.
    fn about(&self, rule: LintRule, active: &Active, field: &str, message: String) -> Said {
        let field = format!("spec.topologySpreadConstraints[{}]{field}", active.index);
        Said {
            rule,
            field: self.template.field(&field),
            message,
        }
    }

    /// A hint about a constraint as a finding, if it shows a mistake.
    fn said(&self, active: &Active, hint: Hint) -> Option<Said> {
        let (rule, field) = match hint.kind() {
            // Labels that the template does not have yet may be selected by.
            Kind::SelfMismatch if selects_given(active) => return None,
            Kind::SelfMismatch => (LintRule::SelectorMismatch, ".labelSelector"),
            Kind::EmptySelector => (LintRule::EmptySelector, ".labelSelector"),
            // 1 is the least that there is.
            Kind::Soft if active.constraint.max_skew <= 1 => return None,
            Kind::Soft => (LintRule::SoftMaxSkew, ".maxSkew"),
            _ => return None,
        };
        Some(self.about(rule, active, field, hint.message))
    }

    /// The replicas of the object, where it says so.
    fn replicas(&self) -> Option<i64> {
        self.template.object.value["spec"]["replicas"].as_i64()
    }

    fn is(&self, kind: &str) -> bool {
        self.template.object.kind() == kind
    }
}

/// What Explain says about the constraints for any cluster.
fn explained(checked: &CheckedTemplate<'_>) -> Vec<Said> {
    let of = |active: &Active| -> Vec<Said> {
        let hints = match checked.policy {
            // KubeFleet fills in a selector, and looks at `maxSkew` of soft
            // constraints.
            Some(_) => explain::fleet::mismatch(active).into_iter().collect(),
            None => explain::always(active, checked.labels()),
        };
        let said = hints.into_iter();
        said.filter_map(|hint| checked.said(active, hint)).collect()
    };
    checked.constraints.iter().flat_map(of).collect()
}

/// Whether a selector asks for labels that controllers give.
fn selects_given(active: &Active) -> bool {
    let wire = active.selector.to_wire();
    wire.is_some_and(|wire| wire.match_labels.keys().any(|key| is_given(key)))
}

/// Whether labels that controllers give keep a constraint of `pod` from counting
/// the pods of other workloads.
pub(super) fn counts_alone(pod: &Pod, active: &Active) -> bool {
    let spec = pod.spec.as_ref();
    let written = spec.and_then(|spec| spec.topology_spread_constraints.get(active.index));
    let keys = written.map_or(&[][..], |written| &written.match_label_keys);
    keys.iter().any(|key| is_given(key)) || selects_given(active)
}

/// Whether a controller gives pods this label.
fn is_given(key: &str) -> bool {
    GIVEN_LABELS.contains(&key)
}

/// A key of `matchLabelKeys` that the pod lacks is ignored.
fn unknown_match_label_keys(
    checked: &CheckedTemplate<'_>,
    written: &TopologySpreadConstraint,
    active: &Active,
) -> Vec<Said> {
    let keys = written.match_label_keys.iter().enumerate();
    let unknown = keys.filter(|(_, key)| !checked.labels().contains_key(*key) && !is_given(key));
    let said = unknown.map(|(index, key)| {
        let message = format!("the pod has no label {key}: this key is ignored");
        let field = format!(".matchLabelKeys[{index}]");
        checked.about(LintRule::UnknownMatchLabelKey, active, &field, message)
    });
    said.collect()
}

/// During a rollout the pods of the old revision count for the new one.
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

/// Topology keys of old, which new nodes do not have.
fn deprecated_key(checked: &CheckedTemplate<'_>, active: &Active) -> Option<Said> {
    let key = &*active.constraint.topology_key;
    let (_, new) = DEPRECATED_KEYS.iter().find(|(old, _)| *old == key)?;
    let message = format!("{key} is deprecated and newer nodes lack it: use {new}");
    Some(checked.about(LintRule::DeprecatedKey, active, ".topologyKey", message))
}

/// A DaemonSet wants a pod on every node; a hard constraint keeps some off.
fn daemon_set(checked: &CheckedTemplate<'_>, active: &Active) -> Option<Said> {
    let message = "a DaemonSet puts a pod on every node that fits: a hard constraint only keeps \
                   some of them pending";
    let keeps_off = checked.is("DaemonSet") && active.constraint.is_hard();
    keeps_off.then(|| checked.about(LintRule::DaemonSet, active, "", message.to_owned()))
}

/// One replica, written out, has nothing to be spread against.
fn single_replica(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let is_single = checked.replicas() == Some(1) && !checked.constraints.is_empty();
    is_single.then(|| Said {
        rule: LintRule::SingleReplica,
        field: "spec.replicas".to_owned(),
        message: "there is one replica: its constraints have nothing to spread".to_owned(),
    })
}

/// Several replicas, and nothing that the workload itself says about where.
fn no_constraints(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let replicas = checked.replicas().filter(|replicas| *replicas >= 2)?;
    let has_none = checked.constraints.is_empty() && checked.policy.is_none();
    // Which of several templates has so many is not known.
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

/// What only placements of KubeFleet can have wrong.
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
