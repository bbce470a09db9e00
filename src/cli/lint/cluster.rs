//! The lint rules that check a manifest on a cluster, mostly by Explain's hints.

use anyhow::Result;

use super::checks::{constraint_of, renumbered};
use super::finding::{LintRule, Said};
use crate::cli::backend::Client;
use crate::cli::stored;
use crate::cli::what_if::{self, Overlay};
use crate::explain;
use crate::manifest::{ReadTemplate, Template, WorkloadPod};
use crate::misspelt::topology_key_hint;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{
    ConstraintInsight, ExplainRequest, Hint, Pod, TopologySpreadConstraint, View,
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
    let (mut waiting, wants_more) = (1, workload.replicas.is_some_and(|wanted| wanted > 1));
    if workload.numbered.is_some() || wants_more && policy.is_none() {
        let there = stored::pods_there(client, (snapshot, 0), workload, &overlay).await?;
        waiting = there.alike(workload);
        if let Some((pod, name)) = there.next(workload) {
            next = pod;
            overlay.delete(what_if::pod_called(&there.namespace, &name));
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
    let hint = topology_key_hint(key);
    Some(Said {
        rule: LintRule::UnknownTopologyKey,
        field: template.field(&field),
        message: format!(
            "none of {} has the label {key}{hint}",
            explain::plural(node_count, "node")
        ),
    })
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
