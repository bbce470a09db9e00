//! The rules that look at a manifest alone, a function each.

use std::collections::BTreeMap;

use serde_json::Value;

use super::finding::Said;
use super::rule::Rule;
use crate::manifest::{Policy, Template};
use crate::matching::{Path, Violations, selector_text};
use crate::proto::v1::{Pod, TopologySpreadConstraint};
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

/// How placeholders of templates begin.
pub(super) const PLACEHOLDER: &str = "{{";

/// What is said of a template that has some.
pub(super) const UNRENDERED: &str =
    "this is a template with placeholders: lint what it is rendered to, e.g. by `helm template`";

/// A template with its constraints compiled.
struct Checked<'t> {
    template: &'t Template,
    pod: &'t Pod,
    policy: Option<&'t Policy>,
    constraints: Vec<Active>,
}

/// What all rules say of a template.
pub(crate) fn check(template: &Template) -> Vec<Said> {
    const RULES: [fn(&Checked<'_>) -> Vec<Said>; 9] = [
        selector_mismatch,
        empty_selector,
        unknown_match_label_key,
        mixed_revisions,
        deprecated_key,
        daemon_set,
        single_replica,
        soft_max_skew,
        placement,
    ];
    if template.value.to_string().contains(PLACEHOLDER) {
        return vec![Said {
            rule: Rule::Unrendered,
            field: String::new(),
            message: UNRENDERED.to_owned(),
        }];
    }
    let (pod, policy) = match &template.pod {
        Ok((pod, policy)) => (pod, policy.as_ref()),
        Err(error) => return vec![invalid(String::new(), error.to_string())],
    };
    let constraints = match compile(pod, policy.is_some()) {
        Ok(constraints) => constraints,
        Err(faults) => {
            let fault = |fault: &crate::matching::Violation| {
                let field = template.field(fault.field.trim_start_matches('.'));
                let name = field.rsplit('.').next().unwrap_or_default();
                let message = format!("{name} {}", fault.description);
                invalid(field, message)
            };
            return faults.iter().map(fault).collect();
        }
    };
    let checked = Checked {
        template,
        pod,
        policy,
        constraints,
    };
    RULES.iter().flat_map(|rule| rule(&checked)).collect()
}

fn invalid(field: String, message: String) -> Said {
    Said {
        rule: Rule::Invalid,
        field,
        message,
    }
}

/// The constraints of a pod, by the rules of a decision about it.
fn compile(pod: &Pod, is_placement: bool) -> Result<Vec<Active>, Violations> {
    let limits = Limits::default();
    // Fields are named as those of the pod.
    let root = Path::root("");
    if is_placement {
        let question = fleet::Question::compile(Some(pod.clone()), &limits, root)?;
        let mut constraints = question.constraints;
        constraints.sort_by_key(|active| active.index);
        return Ok(constraints);
    }
    let question = spread::Question::compile(Some(pod), &limits, root)?;
    Ok(question.constraints.all)
}

impl Checked<'_> {
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
    fn about(&self, rule: Rule, active: &Active, field: &str, message: String) -> Said {
        let field = format!("spec.topologySpreadConstraints[{}]{field}", active.index);
        Said {
            rule,
            field: self.template.field(&field),
            message,
        }
    }

    fn is(&self, kind: &str) -> bool {
        self.template.kind() == kind
    }
}

/// A selector that does not match the pod's own labels counts other pods, or
/// none.
fn selector_mismatch(checked: &Checked<'_>) -> Vec<Said> {
    let mismatch = |(_, active): (&TopologySpreadConstraint, &Active)| {
        let wire = active.selector.to_wire()?;
        // Labels that the template does not have yet may be selected by.
        let given = wire.match_labels.keys().any(|key| is_given(key));
        if active.self_match > 0 || given {
            return None;
        }
        let message = format!(
            "the selector {} does not match the pod's own labels ({}): pods of this {} are not \
             counted, and so not spread",
            selector_text(&wire),
            labels_text(checked.labels()),
            checked.template.kind(),
        );
        Some(checked.about(Rule::SelectorMismatch, active, ".labelSelector", message))
    };
    checked.written().filter_map(mismatch).collect()
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return "it has none".to_owned();
    }
    let pairs = labels.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(",")
}

fn is_given(key: &str) -> bool {
    GIVEN_LABELS.contains(&key)
}

/// An absent selector matches nothing, an empty one counts nothing.
fn empty_selector(checked: &Checked<'_>) -> Vec<Said> {
    // KubeFleet fills in the placement.
    if checked.policy.is_some() {
        return Vec::new();
    }
    let empty = |(written, active): (&TopologySpreadConstraint, &Active)| {
        let message = match &written.label_selector {
            None => "there is no labelSelector: no pod is counted, so nothing is spread",
            Some(_) if active.selector.is_empty() => {
                "the labelSelector is empty: kube-scheduler counts no pod for it, so nothing is \
                 spread"
            }
            Some(_) => return None,
        };
        Some(checked.about(
            Rule::EmptySelector,
            active,
            ".labelSelector",
            message.to_owned(),
        ))
    };
    checked.written().filter_map(empty).collect()
}

/// A key of `matchLabelKeys` that the pod lacks is ignored.
fn unknown_match_label_key(checked: &Checked<'_>) -> Vec<Said> {
    let mut said = Vec::new();
    for (written, active) in checked.written() {
        for (index, key) in written.match_label_keys.iter().enumerate() {
            if !checked.labels().contains_key(key) && !is_given(key) {
                let message = format!("the pod has no label {key}: this key is ignored");
                let field = format!(".matchLabelKeys[{index}]");
                said.push(checked.about(Rule::UnknownMatchLabelKey, active, &field, message));
            }
        }
    }
    said
}

/// During a rollout the pods of the old revision count for the new one.
fn mixed_revisions(checked: &Checked<'_>) -> Vec<Said> {
    const HASH: &str = "pod-template-hash";
    let mixed = |(written, active): (&TopologySpreadConstraint, &Active)| {
        let separated = written.match_label_keys.iter().any(|key| key == HASH);
        let hard = active.constraint.is_hard() && active.self_match > 0;
        if !checked.is("Deployment") || !hard || separated {
            return None;
        }
        let message = format!(
            "in a rollout the old pods are counted with the new ones, which end up uneven when the \
             old are gone; matchLabelKeys: [{HASH}] counts each revision by itself"
        );
        Some(checked.about(Rule::MixedRevisions, active, "", message))
    };
    checked.written().filter_map(mixed).collect()
}

/// Topology keys of old, which new nodes do not have.
fn deprecated_key(checked: &Checked<'_>) -> Vec<Said> {
    let deprecated = |(_, active): (&TopologySpreadConstraint, &Active)| {
        let key = &*active.constraint.topology_key;
        let (_, new) = DEPRECATED_KEYS.iter().find(|(old, _)| *old == key)?;
        let message = format!("{key} is deprecated and newer nodes lack it: use {new}");
        Some(checked.about(Rule::DeprecatedKey, active, ".topologyKey", message))
    };
    checked.written().filter_map(deprecated).collect()
}

/// A DaemonSet wants a pod on every node; a hard constraint keeps some off.
fn daemon_set(checked: &Checked<'_>) -> Vec<Said> {
    let hard = checked
        .written()
        .filter(|(_, active)| active.constraint.is_hard());
    let said = |(_, active): (&TopologySpreadConstraint, &Active)| {
        let message = "a DaemonSet puts a pod on every node that fits: a hard constraint only keeps \
                       some of them pending";
        checked.about(Rule::DaemonSet, active, "", message.to_owned())
    };
    hard.filter(|_| checked.is("DaemonSet")).map(said).collect()
}

/// One replica, written out, has nothing to be spread against.
fn single_replica(checked: &Checked<'_>) -> Vec<Said> {
    let replicas = checked.template.value.pointer("/spec/replicas");
    if replicas.and_then(Value::as_i64) != Some(1) || checked.constraints.is_empty() {
        return Vec::new();
    }
    vec![Said {
        rule: Rule::SingleReplica,
        field: "spec.replicas".to_owned(),
        message: "there is one replica: its constraints have nothing to spread".to_owned(),
    }]
}

/// `maxSkew` of a soft constraint does not limit anything.
fn soft_max_skew(checked: &Checked<'_>) -> Vec<Said> {
    let soft = |(_, active): (&TopologySpreadConstraint, &Active)| {
        let max_skew = active.constraint.max_skew;
        if active.constraint.is_hard() || max_skew <= 1 {
            return None;
        }
        let message = format!(
            "ScheduleAnyway orders nodes and never keeps a pod off one: maxSkew {max_skew} is no \
             limit"
        );
        Some(checked.about(Rule::SoftMaxSkew, active, ".maxSkew", message))
    };
    // KubeFleet's soft constraints do look at it.
    let applies = checked.policy.is_none();
    checked
        .written()
        .filter(|_| applies)
        .filter_map(soft)
        .collect()
}

/// What only placements of KubeFleet can have wrong.
fn placement(checked: &Checked<'_>) -> Vec<Said> {
    let Some(policy) = checked.policy else {
        return Vec::new();
    };
    let field = checked.template.field("spec.topologySpreadConstraints");
    let hard = checked
        .constraints
        .iter()
        .filter(|active| active.constraint.is_hard());
    let hard = hard.count();
    let (rule, message) = match policy {
        Policy::PickN { .. } if hard > 1 => (
            Rule::GreedyPicking,
            format!(
                "{hard} hard constraints: KubeFleet picks one cluster after the other and never \
                 moves a pick, so it may miss totals that another order reaches"
            ),
        ),
        Policy::PickAll | Policy::PickFixed(_) if !checked.constraints.is_empty() => (
            Rule::UnusedConstraints,
            "topology spread constraints are only used with placementType PickN".to_owned(),
        ),
        _ => return Vec::new(),
    };
    vec![Said {
        rule,
        field,
        message,
    }]
}
