//! Renders the numbers of workloads with constraints of their own, with default constraints, or
//! with none.

use std::collections::BTreeMap;

use super::text::{number, plural};
use crate::explain::among;
use crate::proto::v1::{ConstraintCoverage, DefaultsKind, DescribeSpreadResponse};

/// Returns a line with the number of workloads that violate constraints.
pub(super) fn verdict(answer: &DescribeSpreadResponse) -> String {
    let all = plural(answer.workload_count, "workload");
    let held = answer.coverage.as_ref().map(held);
    let among = match (answer.workload_count, held) {
        (0, _) => return "no workload: there are no pods".to_owned(),
        (_, Some(0)) => {
            return format!("violating: none, because no constraint is in force for {all}");
        }
        (_, Some(held)) => format!("{} with constraints", plural(held, "workload")),
        (_, None) => all,
    };
    let exceeding = match answer.exceeding_count {
        0 => String::new(),
        1 => "; 1 exceeds a soft max skew, which is no limit".to_owned(),
        count => format!(
            "; {} exceed a soft max skew, which is no limit",
            number(count)
        ),
    };
    match answer.violating_count {
        0 => format!("violating: none of {among}{exceeding}"),
        count => format!("violating: {} of {among}{exceeding}", number(count)),
    }
}

/// Returns whether any constraint is in force.
pub(super) fn is_judged(answer: &DescribeSpreadResponse) -> bool {
    answer.coverage.as_ref().is_none_or(|it| held(it) > 0)
}

/// The number of workloads with a constraint in force.
fn held(coverage: &ConstraintCoverage) -> i64 {
    coverage.own_count + coverage.default_count
}

/// Returns lines with the numbers of workloads by the rule that keeps them even.
pub(super) fn lines(answer: &DescribeSpreadResponse) -> Vec<String> {
    let Some(coverage) = answer
        .coverage
        .as_ref()
        .filter(|_| answer.workload_count > 0)
    else {
        return Vec::new();
    };
    let told = |groups: &[(i64, &str)]| {
        let groups = groups.iter().filter(|(count, _)| *count > 0);
        let groups = groups.map(|(count, what)| format!("{} {what}", number(*count)));
        groups.collect::<Vec<_>>().join(", ")
    };
    let groups = told(&[
        (coverage.own_count, "with constraints of their own"),
        (coverage.default_count, "with default constraints"),
        (
            coverage.unconstrained_count,
            "with several pods and no constraints",
        ),
        (coverage.single_count, "with a single pod"),
        (coverage.fixed_count, "whose pods are tied to their nodes"),
    ]);
    let all = plural(answer.workload_count, "workload");
    let mut lines = vec![format!("{all}: {groups}")];
    if coverage.pending_pods > 0 {
        let pods = plural(coverage.pending_pods, "pod");
        lines.push(format!("pending: {pods}, counted in no domain yet"));
    }
    let mut idle: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in &coverage.one_domain {
        let parts = [&*one.kind, &*one.namespace, &*one.name];
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        let name = parts.join("/");
        idle.entry(&one.effect)
            .or_default()
            .push(match &*one.value {
                "" => name,
                value => format!("{name} ({}={value})", one.topology_key),
            });
    }
    for (effect, names) in &idle {
        lines.push(format!(
            "effect of a hard constraint of {}: {effect}",
            among(names)
        ));
    }
    let unnamed = coverage.one_domain_count - coverage.one_domain.len() as i64;
    if unnamed > 0 {
        let workloads = plural(unnamed, "other workload");
        lines.push(format!("so it is of {workloads}"));
    }
    let together = told(&[
        (coverage.in_one_zone_count, "all in one zone"),
        (coverage.on_one_node_count, "all on one node"),
    ]);
    if !together.is_empty() {
        lines.push(format!("without any constraint: {together}"));
    }
    lines
}

/// Returns advice how to see more about workloads without constraints. `loaded` is true for an
/// answer about files, for which default constraints can be given.
pub(super) fn advice(answer: &DescribeSpreadResponse, loaded: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let coverage = answer.coverage.as_ref();
    if answer.workload_count == 0 || coverage.is_none_or(|it| it.unconstrained_count == 0) {
        return lines;
    }
    if let Some(key) = suggested_key(answer) {
        lines.push(format!("see how they are spread with --by {key}"));
    }
    if loaded && answer.defaults() == DefaultsKind::Unspecified {
        lines.push(
            "see what kube-scheduler's default constraints say with --default-constraints system"
                .to_owned(),
        );
    }
    lines
}

/// The first label key of nodes that has several values.
pub(crate) fn suggested_key(answer: &DescribeSpreadResponse) -> Option<&str> {
    let mut keys = answer.topology_keys.iter();
    keys.find(|key| key.value_count > 1).map(|key| &*key.key)
}
