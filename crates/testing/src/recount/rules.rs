//! Matching: label selectors, node affinity and tolerations, each evaluated again from the wire
//! objects.

use std::collections::BTreeMap;

use evenkeel::proto::v1::{
    LabelSelector, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, Pod,
    Taint, Toleration,
};

/// Labels of a pod or node.
pub type LabelMap = BTreeMap<String, String>;

/// The labels of an object that may have no metadata at all.
pub fn labels(metadata: Option<&ObjectMeta>) -> LabelMap {
    metadata.map(|m| m.labels.clone()).unwrap_or_default()
}

/// The name of an object that may have no metadata at all.
pub fn name(metadata: Option<&ObjectMeta>) -> &str {
    metadata.map_or("", |m| m.name.as_str())
}

/// The namespace of an object; a missing one is `default`.
pub fn namespace(metadata: Option<&ObjectMeta>) -> &str {
    match metadata.map_or("", |m| m.namespace.as_str()) {
        "" => "default",
        given => given,
    }
}

/// An absent selector matches nothing, an empty one everything.
pub fn selector_matches(selector: Option<&LabelSelector>, labels: &LabelMap) -> bool {
    selector.is_some_and(|selector| {
        let mut requirements = selector.match_expressions.iter();
        all_pairs(&selector.match_labels, labels)
            && requirements.all(|it| holds(&it.operator, &it.values, labels.get(&it.key)))
    })
}

/// Returns whether `labels` has every pair of `wanted`.
pub fn all_pairs(wanted: &LabelMap, labels: &LabelMap) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

fn holds(operator: &str, values: &[String], value: Option<&String>) -> bool {
    match operator {
        "In" => value.is_some_and(|v| values.contains(v)),
        "NotIn" => value.is_none_or(|v| !values.contains(v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        other => unreachable!("the operator {other:?} is refused before it gets here"),
    }
}

/// Returns whether the node matches the pod's node selector and required node affinity.
pub fn node_affinity_matches(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else {
        return true;
    };
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    let labels = labels(node.metadata.as_ref());
    all_pairs(&spec.node_selector, &labels)
        && required.is_none_or(|selector| {
            selector
                .node_selector_terms
                .iter()
                .any(|term| node_term_matches(term, name(node.metadata.as_ref()), &labels))
        })
}

/// Returns whether labels of a node match a selector that does not compare its name.
pub fn labels_match_terms(selector: &NodeSelector, labels: &LabelMap) -> bool {
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| node_term_matches(term, "", labels))
}

fn node_term_matches(term: &NodeSelectorTerm, node_name: &str, labels: &LabelMap) -> bool {
    let parses = term.match_expressions.iter().all(node_expression_parses);
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    parses
        && !empty
        && term
            .match_expressions
            .iter()
            .all(|requirement| node_expression_holds(requirement, labels))
        && term
            .match_fields
            .iter()
            .all(|requirement| node_field_holds(requirement, node_name))
}

/// Returns whether a requirement parses. A comparison with something that is no int64 does not, nor
/// does a value that no label can have.
fn node_expression_parses(requirement: &NodeSelectorRequirement) -> bool {
    let comparison = ["Gt", "Lt"].contains(&requirement.operator.as_str());
    requirement
        .values
        .iter()
        .all(|value| is_label_value(value) && (!comparison || value.parse::<i64>().is_ok()))
}

fn is_label_value(value: &str) -> bool {
    let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    value.len() <= 63
        && ends(value.chars().next())
        && ends(value.chars().last())
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn node_expression_holds(requirement: &NodeSelectorRequirement, labels: &LabelMap) -> bool {
    let value = labels.get(&requirement.key);
    let number = value.and_then(|v| v.parse::<i64>().ok());
    let bound = requirement
        .values
        .first()
        .and_then(|v| v.parse::<i64>().ok());
    match requirement.operator.as_str() {
        "Gt" => number.is_some() && number > bound,
        "Lt" => number.is_some() && number < bound,
        operator => holds(operator, &requirement.values, value),
    }
}

fn node_field_holds(requirement: &NodeSelectorRequirement, node_name: &str) -> bool {
    assert_eq!(requirement.key, "metadata.name", "the only field");
    let named = requirement.values.iter().any(|v| v == node_name);
    match requirement.operator.as_str() {
        "In" => named,
        "NotIn" => !named,
        other => unreachable!("the operator {other:?} is refused before it gets here"),
    }
}

/// Returns whether every `NoSchedule` and `NoExecute` taint of the node is tolerated.
pub fn taints_tolerated(pod: &Pod, node: &Node) -> bool {
    node.spec
        .iter()
        .flat_map(|spec| &spec.taints)
        .filter(|taint| ["NoSchedule", "NoExecute"].contains(&taint.effect.as_str()))
        .all(|taint| tolerated(pod, taint))
}

/// Returns whether the node is cordoned and the pod does not tolerate that.
pub fn kept_off_by_cordon(pod: &Pod, node: &Node) -> bool {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    };
    node.spec.as_ref().is_some_and(|spec| spec.unschedulable) && !tolerated(pod, &cordon)
}

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    pod.spec
        .iter()
        .flat_map(|spec| &spec.tolerations)
        .any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = match toleration.operator.as_str() {
        "Exists" => true,
        "" | "Equal" => toleration.value == taint.value,
        "Lt" => integers(taint, toleration).is_some_and(|(there, bound)| there < bound),
        "Gt" => integers(taint, toleration).is_some_and(|(there, bound)| there > bound),
        _ => false,
    };
    effect && key && value
}

/// The values of a taint and of a toleration that compares, where both are integers.
fn integers(taint: &Taint, toleration: &Toleration) -> Option<(i64, i64)> {
    let integer = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_short = digits == "0" && text == digits || !digits.starts_with('0');
        let is_plain = is_short && digits.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_plain)
    };
    Some((integer(&taint.value)?, integer(&toleration.value)?))
}
