//! The lint rules that check a manifest on a cluster, mostly by Explain's hints.

use anyhow::Result;

use super::checks::{constraint_of, renumbered};
use super::finding::Said;
use super::rule::LintRule;
use crate::cli::backend::Client;
use crate::cli::stored;
use crate::cli::what_if::{self, Overlay};
use crate::explain;
use crate::manifest::{ReadTemplate, Template, WorkloadPod};
use crate::misspelt::topology_key_hint;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{
    ConstraintInsight, ExplainRequest, FilterRequest, Hint, NodeChecks, Pod, PodSpec,
    TopologySpreadConstraint, View,
};

/// Returns the findings about a template on the cluster that `client` knows. `workload` is that of
/// the template.
pub(crate) async fn check(
    client: &Client,
    snapshot: &str,
    template: &Template,
    read: &ReadTemplate,
    workload: &WorkloadPod,
) -> Result<Vec<Said>> {
    let ReadTemplate { policy, kept, .. } = read;
    let pod = &workload.pod;
    let (mut next, mut overlay) = (pod.clone(), Overlay::default());
    let (mut waiting, wanted) = (1, workload.replicas.unwrap_or(1));
    if workload.numbered.is_some() || wanted > 1 && policy.is_none() {
        let there = stored::pods_there(client, (snapshot, 0), workload, &overlay).await?;
        let placed = i32::try_from(there.on_nodes.len()).unwrap_or(i32::MAX);
        waiting = wanted.saturating_sub(placed).max(1);
        if let Some(pods) = &workload.numbered {
            // The pod that the StatefulSet creates next.
            let ordinal = there.missing(pods).next().unwrap_or(pods.start);
            next = pods.pod(pod, ordinal);
            overlay.delete(what_if::pod_called(&there.namespace, &pods.name(ordinal)));
        }
    }
    let request = ExplainRequest {
        snapshot: snapshot.to_owned(),
        pod: Some(next),
        overlay: overlay.changes,
        waiting,
        dialect: workload.dialect().into(),
        view: View::Domains.into(),
        // Two domains are enough to see that there is not one only.
        max_domains: Some(2),
        ..Default::default()
    };
    let answer = client.call(request).await?;
    let unknown: Vec<Said> = answer
        .insights
        .iter()
        .filter_map(|insight| unknown_key(template, pod, insight, answer.node_count))
        .collect();
    // Default constraints are not in the file.
    let has_own = policy.is_some() || !constraints_of(pod).is_empty();
    let is_unknown = |hint: &Said| unknown.iter().any(|it| it.field.starts_with(&hint.field));
    let hints = answer.hints.iter().filter(|_| has_own);
    let hints = hints.filter_map(|hint| said(template, hint));
    // If all nodes lack the key, only the finding about the key is reported.
    let mut said: Vec<Said> = hints
        .filter(|hint| hint.rule != LintRule::MissingKey || !is_unknown(hint))
        .collect();
    said.extend(unknown);
    said.extend(unknown_keys_of_terms(client, snapshot, template, pod).await?);
    let unsaid = template.unsaid();
    let preempts = |hint: &Hint| hint.kind() == Kind::Preemption;
    if unsaid.scheduling {
        // Tolerations and affinity that are added may admit the pod.
        said.retain(|said| said.rule != LintRule::UnusableDomain);
    } else if answer.feasible_count == 0 && !answer.hints.iter().any(preempts) {
        said.push(Said {
            rule: LintRule::FitsNowhere,
            field: template.field("spec"),
            message: answer.summary,
        });
    }
    Ok(said
        .into_iter()
        .map(|said| renumbered(said, kept))
        .collect())
}

/// Finds a topology key that no node has.
fn unknown_key(
    template: &Template,
    pod: &Pod,
    insight: &ConstraintInsight,
    node_count: i64,
) -> Option<Said> {
    let mut left_out = insight.left_out.iter();
    let missing = left_out.find(|left| left.cause() == Cause::MissingKey)?;
    let index = usize::try_from(insight.constraint_index).ok()?;
    let key = &constraints_of(pod).get(index)?.topology_key;
    if missing.node_count < node_count {
        return None;
    }
    let field = format!("spec.topologySpreadConstraints[{index}].topologyKey");
    Some(no_node_has(template, &field, key, node_count))
}

/// The finding that no node has the topology key of a field.
fn no_node_has(template: &Template, field: &str, key: &str, node_count: i64) -> Said {
    let hint = topology_key_hint(key);
    Said {
        rule: LintRule::UnknownTopologyKey,
        field: template.field(field),
        message: format!(
            "none of {} has the label {key}{hint}",
            explain::plural(node_count, "node")
        ),
    }
}

/// Finds topology keys of required affinity between pods that no node has.
async fn unknown_keys_of_terms(
    client: &Client,
    snapshot: &str,
    template: &Template,
    pod: &Pod,
) -> Result<Vec<Said>> {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let lists = [
        (
            "podAffinity",
            affinity.and_then(|it| it.pod_affinity.as_ref()),
        ),
        (
            "podAntiAffinity",
            affinity.and_then(|it| it.pod_anti_affinity.as_ref()),
        ),
    ];
    let mut said = Vec::new();
    for (name, rules) in lists {
        let terms = rules.map_or(&[][..], |rules| {
            &rules.required_during_scheduling_ignored_during_execution
        });
        for (index, term) in terms.iter().enumerate() {
            let (with_key, all) = nodes_with(client, snapshot, &term.topology_key).await?;
            if with_key == 0 && all > 0 {
                let list = "requiredDuringSchedulingIgnoredDuringExecution";
                let field = format!("spec.affinity.{name}.{list}[{index}].topologyKey");
                said.push(no_node_has(template, &field, &term.topology_key, all));
            }
        }
    }
    Ok(said)
}

/// Returns the number of nodes with a label, and of all nodes. It asks Filter with a constraint
/// that counts no pods, which exactly the nodes with the label satisfy.
async fn nodes_with(client: &Client, snapshot: &str, key: &str) -> Result<(i64, i64)> {
    let constraint = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    let spec = PodSpec {
        topology_spread_constraints: vec![constraint],
        ..PodSpec::default()
    };
    let request = FilterRequest {
        snapshot: snapshot.to_owned(),
        pod: Some(Pod {
            spec: Some(spec),
            ..Pod::default()
        }),
        node_checks: NodeChecks::SpreadOnly.into(),
        view: View::Domains.into(),
        max_domains: Some(0),
        ..FilterRequest::default()
    };
    let answer = client.call(request).await?;
    let refused: i64 = answer.reasons.iter().map(|it| it.count).sum();
    Ok((answer.feasible_count, answer.feasible_count + refused))
}

fn constraints_of(pod: &Pod) -> &[TopologySpreadConstraint] {
    let spec = pod.spec.as_ref();
    spec.map_or(&[], |spec| &spec.topology_spread_constraints)
}

/// The topology key of a finding about nodes. Such a finding is reported once per key, not for each
/// workload.
pub(super) fn key_of(template: &Template, said: &Said) -> Option<String> {
    let is_of_nodes = matches!(said.rule, LintRule::MissingKey | LintRule::EmptyValue);
    let written = template.written_constraints().filter(|_| is_of_nodes)?;
    let key = written[constraint_of(&said.field)?]["topologyKey"].as_str()?;
    Some(key.to_owned())
}

/// Returns a hint as a finding. `None` for hints that need only the manifest, and for hints that
/// depend on the present pods.
fn said(template: &Template, hint: &Hint) -> Option<Said> {
    let rule = match hint.kind() {
        Kind::Conflict => LintRule::Conflict,
        Kind::UnusableDomain | Kind::FleetUnusableDomain => LintRule::UnusableDomain,
        Kind::MinDomains => LintRule::MinDomains,
        Kind::MissingKey => LintRule::MissingKey,
        Kind::EmptyValue => LintRule::EmptyValue,
        // The rule about DaemonSets says it of them.
        Kind::OneDomain if template.object.kind() != "DaemonSet" => LintRule::OneDomain,
        _ => return None,
    };
    let field = format!("spec.topologySpreadConstraints[{}]", hint.constraint_index);
    Some(Said {
        rule,
        field: template.field(&field),
        message: hint.message.clone(),
    })
}
