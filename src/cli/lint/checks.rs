//! The lint rules that need only manifests: those about one template, and that about selectors that
//! also select the pods of other workloads.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields;
use super::finding::{LintFinding, LintRule, Said};
use crate::explain;
use crate::manifest::{
    CONSTRAINTS, ManifestError, PlacementPolicy, Position, ReadTemplate, Template, Unsaid,
};
use crate::matching::revisions::{
    CONTROLLER_REVISION, DEPLOYMENT_HASH, ROLLOUT_HASH, template_hash_label,
};
use crate::matching::{Path, Selector, Violation, Violations, names, selector_text};
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
    read: &'t ReadTemplate,
    unsaid: Unsaid,
    constraints: &'t [Active],
}

/// The findings about a template.
#[derive(Default)]
pub(super) struct TemplateFindings {
    /// The findings.
    pub(super) said: Vec<Said>,
    /// The template with the constraints that are valid. `None` if something else is wrong, or no
    /// constraint is left.
    pub(super) valid: Option<ValidTemplate>,
}

/// A template with its valid constraints.
pub(super) struct ValidTemplate {
    pub(super) read: ReadTemplate,
    /// The constraints, with their indices in the file.
    pub(super) constraints: Vec<Active>,
}

/// Applies all rules to a template.
pub(super) fn check(template: &Template, limits: &Limits) -> TemplateFindings {
    if has_placeholder(template) {
        let unrendered = Said {
            rule: LintRule::Unrendered,
            field: String::new(),
            message: UNRENDERED.to_owned(),
        };
        return TemplateFindings {
            said: vec![unrendered],
            valid: None,
        };
    }
    let mut said = fields::odd(template);
    let valid = read_valid(template, limits, &mut said);
    if let Some(ValidTemplate { read, constraints }) = &valid {
        let checked = CheckedTemplate {
            template,
            read,
            unsaid: template.unsaid(),
            constraints,
        };
        said.extend(explained(&checked));
        for (written, active) in checked.written() {
            said.extend(unknown_match_label_keys(&checked, written, active));
            said.extend(mixed_revisions(&checked, written, active));
            said.extend(deprecated_key(&checked, active));
            said.extend(daemon_set(&checked, active));
        }
        said.extend(single_replica(&checked));
        said.extend(placement(&checked));
    }
    TemplateFindings { said, valid }
}

/// Reads a template with its valid constraints, and adds the faults of the others to `said`. `None`
/// if anything else is invalid, or no constraint is left.
fn read_valid(template: &Template, limits: &Limits, said: &mut Vec<Said>) -> Option<ValidTemplate> {
    let invalid = said.iter().filter(|said| said.rule == LintRule::Invalid);
    let broken: Option<BTreeSet<usize>> = invalid.map(|said| constraint_of(&said.field)).collect();
    let mut broken = broken?;
    loop {
        let faults = match template.read(&broken) {
            Ok(read) if read.kept.is_empty() && !broken.is_empty() => return None,
            Ok(read) => match compile(&read.pod, read.policy.is_some(), limits) {
                Ok(mut constraints) => {
                    for active in &mut constraints {
                        active.index = read.kept[active.index];
                    }
                    return Some(ValidTemplate { read, constraints });
                }
                Err(faults) => {
                    let of_field =
                        |fault: &Violation| renumbered(violated(template, fault), &read.kept);
                    faults.iter().map(of_field).collect()
                }
            },
            Err(unread) => vec![renumbered(
                unreadable(template, &unread.error),
                &unread.kept,
            )],
        };
        let places: Vec<Option<usize>> = faults.iter().map(|it| constraint_of(&it.field)).collect();
        said.extend(faults);
        for place in places {
            broken.insert(place?);
        }
    }
}

/// The finding of a fault of a pod.
fn violated(template: &Template, fault: &Violation) -> Said {
    let field = template.field(fault.field.trim_start_matches('.'));
    let name = field.rsplit('.').next().unwrap_or_default();
    let message = format!("{name} {}", fault.description);
    invalid(field, message)
}

/// The index of the constraint that a field belongs to.
pub(super) fn constraint_of(field: &str) -> Option<usize> {
    let (_, rest) = field.split_once("topologySpreadConstraints[")?;
    rest.split_once(']')?.0.parse().ok()
}

/// A finding about a template without some of its constraints, with their indices in the file.
pub(super) fn renumbered(mut said: Said, kept: &[usize]) -> Said {
    if let Some(index) = constraint_of(&said.field)
        && let Some(written) = kept.get(index)
    {
        let indexed = |index: usize| format!("{CONSTRAINTS}[{index}]");
        said.field = said.field.replacen(&indexed(index), &indexed(*written), 1);
    }
    let mut words = said.message.split("constraint ");
    let mut message = words.next().unwrap_or_default().to_owned();
    for after in words {
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        let (number, rest) = after.split_at(end);
        let written = number.parse().ok().and_then(|index: usize| kept.get(index));
        let number = written.map_or_else(|| number.to_owned(), usize::to_string);
        message.extend(["constraint ", &number, rest]);
    }
    said.message = message;
    said
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
        let spec = self.read.pod.spec.as_ref();
        let written = spec.map_or(&[][..], |spec| &spec.topology_spread_constraints);
        let kept = self.read.kept.iter().zip(written);
        kept.filter_map(|(index, written)| {
            let mut compiled = self.constraints.iter();
            Some((written, compiled.find(|active| active.index == *index)?))
        })
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.read.pod.metadata.as_ref().map_or(&NONE, |m| &m.labels)
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
            Kind::SelfMismatch if self.may_match(active) => return None,
            Kind::SelfMismatch => (LintRule::SelectorMismatch, ".labelSelector"),
            Kind::EmptySelector if self.may_get_selector(active) => return None,
            Kind::EmptySelector => (LintRule::EmptySelector, ".labelSelector"),
            // maxSkew cannot be left out, and 1 is its least value, so it is no mistake.
            Kind::Soft if active.constraint.max_skew <= 1 => return None,
            // It may become a hard one.
            Kind::Soft if self.written_field(active, "whenUnsatisfiable").is_none() => return None,
            Kind::Soft => (LintRule::SoftMaxSkew, ".maxSkew"),
            _ => return None,
        };
        Some(self.about(rule, active, field, hint.message))
    }

    /// Returns whether the pod may have a label of this key, which something else adds.
    fn may_get(&self, key: &str) -> bool {
        let is_given_here = is_given_by(self.template.object.kind(), key);
        is_given_here || self.unsaid.labels && !is_given(key)
    }

    /// Returns whether a selector matches the pod once all labels are added.
    fn may_match(&self, active: &Active) -> bool {
        let Selector::All(all) = &active.selector else {
            return false;
        };
        let has = |key: &str| self.labels().contains_key(key);
        let open = |key: &str| !has(key) && self.may_get(key);
        let certain = all.iter().filter(|it| !open(&it.key)).cloned();
        Selector::All(certain.collect()).matches_labels(self.labels())
    }

    /// A field of a constraint as it is in the file.
    fn written_field(&self, active: &Active, name: &str) -> Option<&Value> {
        self.template.written_constraints()?[active.index].get(name)
    }

    /// Returns whether something else adds a selector to a constraint.
    fn may_get_selector(&self, active: &Active) -> bool {
        let list = self.template.written_constraints();
        let written = list.and_then(|list| list[active.index].as_object());
        let mut fields = written.into_iter().flatten();
        self.unsaid.fields || fields.any(|(field, _)| self.template.selects_by(field))
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
        let hints = match checked.read.policy {
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

/// Returns whether a constraint counts only pods of its own workload, because it uses labels that
/// controllers add.
fn counts_alone(template: &Template, active: &Active) -> bool {
    let written = template.written_constraints();
    let keys = written.and_then(|list| list[active.index]["matchLabelKeys"].as_array());
    let mut keys = keys.into_iter().flatten().filter_map(Value::as_str);
    let selector = active.selector.to_wire().unwrap_or_default();
    keys.any(is_given) || selector.match_labels.keys().any(|key| is_given(key))
}

/// Finds keys of `matchLabelKeys` that the pod lacks, which are ignored.
fn unknown_match_label_keys(
    checked: &CheckedTemplate<'_>,
    written: &TopologySpreadConstraint,
    active: &Active,
) -> Vec<Said> {
    let keys = written.match_label_keys.iter().enumerate();
    let kind = checked.template.object.kind();
    let has = |key: &String| checked.labels().contains_key(key) || checked.may_get(key);
    let unknown = keys.filter(|(_, key)| !has(key));
    let said = unknown.map(|(index, key)| {
        let message = match template_hash_label(kind).filter(|_| is_given(key)) {
            Some(own) => format!(
                "no pod of a {kind} has the label {key}: this key is ignored; that of a {kind} is \
                 {own}"
            ),
            None => format!("the pod has no label {key}: this key is ignored"),
        };
        let field = format!(".matchLabelKeys[{index}]");
        checked.about(LintRule::UnknownMatchLabelKey, active, &field, message)
    });
    said.collect()
}

/// Finds constraints of a Deployment or a Rollout that count the pods of old revisions during a rollout.
fn mixed_revisions(
    checked: &CheckedTemplate<'_>,
    written: &TopologySpreadConstraint,
    active: &Active,
) -> Option<Said> {
    let label = template_hash_label(checked.template.object.kind())?;
    let separated = written.match_label_keys.iter().any(|key| is_given(key));
    let hard = active.constraint.is_hard() && active.self_match > 0;
    if checked.is("ReplicaSet") || !hard || separated {
        return None;
    }
    let message = format!(
        "in a rollout the old pods are counted with the new ones, which end up uneven when the \
         old are gone; matchLabelKeys: [{label}] counts each revision by itself"
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
    let is_custom = checked.template.is_custom();
    let is_single = checked.replicas() == Some(1) && !checked.constraints.is_empty() && !is_custom;
    is_single.then(|| Said {
        rule: LintRule::SingleReplica,
        field: "spec.replicas".to_owned(),
        message: "there is one replica: its constraints have nothing to spread".to_owned(),
    })
}

/// Returns the faults that only placements of KubeFleet can have.
fn placement(checked: &CheckedTemplate<'_>) -> Option<Said> {
    let constraints = checked.constraints.iter();
    let hard = constraints.filter(|active| active.constraint.is_hard());
    let hard = hard.count();
    let (rule, message) = match checked.read.policy.as_ref()? {
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
        let mut findings = Vec::new();
        for selecting in &self.selecting {
            let all = self.by_labels.iter();
            let selected = all.filter(|(labels, _)| selecting.selector.matches_labels(labels));
            let others: BTreeSet<&String> = selected
                .flat_map(|(_, objects)| objects)
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

const JOBS: &[&str] = &["CronJob", "Job"];

/// The keys of labels that controllers add to pods, and the kinds of these controllers.
const GIVEN: [(&str, &[&str]); 11] = [
    ("apps.kubernetes.io/pod-index", &["StatefulSet"]),
    ("batch.kubernetes.io/controller-uid", JOBS),
    ("batch.kubernetes.io/job-completion-index", JOBS),
    ("batch.kubernetes.io/job-name", JOBS),
    (CONTROLLER_REVISION, &["DaemonSet", "StatefulSet"]),
    ("controller-uid", JOBS),
    ("job-name", JOBS),
    ("pod-template-generation", &["DaemonSet"]),
    (ROLLOUT_HASH, &["Rollout"]),
    (DEPLOYMENT_HASH, &["Deployment", "ReplicaSet"]),
    ("statefulset.kubernetes.io/pod-name", &["StatefulSet"]),
];

/// Returns whether some controller adds this label to pods.
fn is_given(key: &str) -> bool {
    GIVEN.iter().any(|(given, _)| *given == key)
}

/// Returns whether the controller of this kind adds the label. A controller of an unknown kind may
/// add any of them.
fn is_given_by(kind: &str, key: &str) -> bool {
    if ["Pod", "ReplicationController"].contains(&kind) {
        return false;
    }
    if kind.starts_with("VirtualMachine") {
        let prefix = key.split('/').next().unwrap_or_default();
        return prefix == "kubevirt.io" || prefix.ends_with(".kubevirt.io");
    }
    let is_known = GIVEN.iter().any(|(_, kinds)| kinds.contains(&kind));
    let mut given = GIVEN.iter().filter(|(given, _)| *given == key);
    given.any(|(_, kinds)| !is_known || kinds.contains(&kind))
}

/// The starts of placeholders of Helm and Go, of Jinja, and of ERB.
const PLACEHOLDERS: [&str; 3] = ["{{", "{%", "<%"];

/// The message about a template with placeholders.
pub(super) const UNRENDERED: &str = "this is a template with placeholders: lint what it is filled in \
                                     to, e.g. by `helm template`, `envsubst` or `flux build`";

/// The message about a Kustomization with patches.
pub(super) const PATCHES: &str = "the patches of this Kustomization are not applied: lint what \
                                  `kustomize build` prints";

/// Returns whether a template has placeholders, except in fields where a program may expect its
/// own.
fn has_placeholder(template: &Template) -> bool {
    template.read_parts().into_iter().any(is_placeholder_in)
}

fn is_placeholder_in(value: &Value) -> bool {
    const OF_PROGRAMS: [&str; 5] = [
        "annotations",
        "containers",
        "ephemeralContainers",
        "initContainers",
        "volumes",
    ];
    match value {
        Value::String(text) => {
            PLACEHOLDERS.iter().any(|start| text.contains(start)) || has_variable(text)
        }
        Value::Array(items) => items.iter().any(is_placeholder_in),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            PLACEHOLDERS.iter().any(|start| key.contains(start))
                || has_braced_variable(key)
                || !OF_PROGRAMS.contains(&&**key) && is_placeholder_in(value)
        }),
        _ => false,
    }
}

/// Returns whether a text that cannot be parsed has placeholders, which may be the reason. Variables
/// are also those of scripts, so they count only near the position where parsing stopped.
pub(super) fn has_placeholder_near(text: &str, stopped: Option<Position>) -> bool {
    let line = stopped.map_or(0, |at| at.line);
    let mut near = text.lines().skip(line.saturating_sub(2)).take(2);
    PLACEHOLDERS.iter().any(|start| text.contains(start)) || near.any(has_braced_variable)
}

/// Returns whether a text has a variable such as `${NAME}`, `$(NAME)`, `#{NAME}#` or `$NAME`, as
/// Flux, OpenShift, Kustomize and envsubst replace them.
fn has_variable(text: &str) -> bool {
    let is_name = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    has_braced_variable(text) || text.split('$').skip(1).any(is_name)
}

fn has_braced_variable(text: &str) -> bool {
    ["${", "$(", "#{"].iter().any(|start| text.contains(start))
}
