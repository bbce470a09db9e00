//! The rules that look at a manifest on a cluster: Explain's hints.

use anyhow::Result;

use super::finding::Said;
use super::rule::LintRule;
use crate::cli::backend::Client;
use crate::explain;
use crate::manifest::Template;
use crate::misspelt::topology_key_hint;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{ConstraintInsight, Dialect, ExplainRequest, Hint, Pod, View};

/// What is to be said of a template on the cluster that `client` knows.
pub(crate) async fn check(
    client: &Client,
    snapshot: &str,
    template: &Template,
) -> Result<Vec<Said>> {
    let Ok((pod, policy)) = &template.pod else {
        return Ok(Vec::new());
    };
    let request = ExplainRequest {
        snapshot: snapshot.to_owned(),
        pod: Some(pod.clone()),
        dialect: match policy {
            Some(_) => Dialect::Fleet.into(),
            None => Dialect::Unspecified.into(),
        },
        view: View::Domains.into(),
        max_domains: Some(1),
        ..Default::default()
    };
    let answer = client.call(request).await?;
    let unknown: Vec<Said> = answer
        .insights
        .iter()
        .filter_map(|insight| unknown_key(template, pod, insight, answer.node_count))
        .collect();
    let is_unknown = |hint: &Said| unknown.iter().any(|it| it.field.starts_with(&hint.field));
    let hints = answer.hints.iter().filter_map(|hint| said(template, hint));
    // That all nodes lack the key is said of the key.
    let mut said: Vec<Said> = hints
        .filter(|hint| hint.rule != LintRule::MissingKey || !is_unknown(hint))
        .collect();
    said.extend(unknown);
    if answer.feasible_count == 0 {
        said.push(Said {
            rule: LintRule::FitsNowhere,
            field: template.field("spec"),
            message: answer.summary,
        });
    }
    Ok(said)
}

/// A topology key that no node has.
fn unknown_key(
    template: &Template,
    pod: &Pod,
    insight: &ConstraintInsight,
    node_count: i64,
) -> Option<Said> {
    let mut left_out = insight.left_out.iter();
    let missing = left_out.find(|left| left.cause() == Cause::MissingKey)?;
    let index = usize::try_from(insight.constraint_index).ok()?;
    let constraints = &pod.spec.as_ref()?.topology_spread_constraints;
    let key = &constraints.get(index)?.topology_key;
    if missing.node_count < node_count {
        return None;
    }
    let hint = topology_key_hint(key);
    let field = format!("spec.topologySpreadConstraints[{index}].topologyKey");
    Some(Said {
        rule: LintRule::UnknownTopologyKey,
        field: template.field(&field),
        message: format!(
            "none of {} has the label {key}{hint}",
            explain::plural(node_count, "node")
        ),
    })
}

/// A hint as a finding. Those that a manifest shows by itself, and those that
/// go with the pods of the moment, are none.
fn said(template: &Template, hint: &Hint) -> Option<Said> {
    let rule = match hint.kind() {
        Kind::Conflict => LintRule::Conflict,
        Kind::UnusableDomain | Kind::FleetUnusableDomain => LintRule::UnusableDomain,
        Kind::MinDomains => LintRule::MinDomains,
        Kind::MissingKey => LintRule::MissingKey,
        Kind::EmptyValue => LintRule::EmptyValue,
        _ => return None,
    };
    let field = format!("spec.topologySpreadConstraints[{}]", hint.constraint_index);
    Some(Said {
        rule,
        field: template.field(&field),
        message: hint.message.clone(),
    })
}
