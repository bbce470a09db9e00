//! The rules that look at a manifest on a cluster: Explain's hints.

use anyhow::Result;

use super::finding::Said;
use super::rule::LintRule;
use crate::cli::backend::{Client, rpc};
use crate::manifest::Template;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::{Dialect, ExplainRequest, Hint, View};

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
    let answer = client.call(request, rpc!(explain)).await?;
    let mut said: Vec<Said> = answer
        .hints
        .iter()
        .filter_map(|hint| said(template, hint))
        .collect();
    if answer.feasible_count == 0 {
        said.push(Said {
            rule: LintRule::FitsNowhere,
            field: template.field("spec"),
            message: answer.summary,
        });
    }
    Ok(said)
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
        Kind::Unspecified
        | Kind::SelfMismatch
        | Kind::EmptySelector
        | Kind::MixedRevisions
        | Kind::TerminatingPods
        | Kind::FewerPods
        | Kind::MorePods
        | Kind::MaxSkew
        | Kind::Soft
        | Kind::FleetSkewTooLarge
        | Kind::FleetGreedy => return None,
    };
    let field = format!("spec.topologySpreadConstraints[{}]", hint.constraint_index);
    Some(Said {
        rule,
        field: template.field(&field),
        message: hint.message.clone(),
    })
}
