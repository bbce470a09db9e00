//! Renders the answer of Explain: a sentence, bars for the domains, and hints.

use anstyle::AnsiColor;

use super::bars::{Bar, BarScale};
use super::constraint;
use super::layout::{paragraph, unbroken};
use super::text::{BAD, GOOD, HEADING, Head, headline_style, not_checked, number, plural, styled};
use crate::explain::{among, quoted};
use crate::misspelt::topology_key_hint;
use crate::proto::v1::constraint_insight::Minimum;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::left_out::Cause;
use crate::proto::v1::{
    ConstraintInsight, ConstraintReport, Domain, DomainInsight, ExplainResponse, Hint, LeftOut,
    TopologySpreadConstraint,
};

/// The answer as text.
pub(crate) fn explain(head: &Head, answer: &ExplainResponse) -> String {
    let mut text = head.lines(answer.revision, answer.defaults());
    let style = headline_style(answer.feasible_count > 0, &answer.unchecked);
    text.push_str(&paragraph(&answer.summary, "", |line| styled(style, line)));
    text.push_str(&not_checked(&untold(answer)));
    for (report, insight) in answer.constraints.iter().zip(&answer.insights) {
        text.push('\n');
        text.push_str(&one(report, insight));
    }
    if answer.constraints.is_empty() {
        text.push_str("\nno spread constraint\n");
    }
    text + &hints(answer)
}

/// Returns the unchecked fields that the summary does not name.
pub(super) fn untold(answer: &ExplainResponse) -> Vec<String> {
    let told = |field: &&String| answer.feasible_count > 0 && answer.summary.contains(&***field);
    let unchecked = answer.unchecked.iter();
    unchecked.filter(|field| !told(field)).cloned().collect()
}

/// Returns the text of a hint. If no node has the key, the text names the key that was probably
/// meant.
pub(super) fn hint_text(answer: &ExplainResponse, hint: &Hint) -> String {
    let mut reports = answer.constraints.iter().zip(&answer.insights);
    let of_hint = reports.find(|(report, _)| report.constraint_index == hint.constraint_index);
    let key = of_hint.and_then(|(report, insight)| {
        let mut left_out = insight.left_out.iter();
        let missing = left_out.find(|it| it.cause() == Cause::MissingKey)?;
        let key = &report.constraint.as_ref()?.topology_key;
        (missing.node_count >= answer.node_count).then_some(key)
    });
    let key = key.filter(|_| hint.kind() == Kind::MissingKey);
    let meant = key.map_or_else(String::new, |key| topology_key_hint(key));
    format!("{}{meant}", hint.message)
}

fn hints(answer: &ExplainResponse) -> String {
    let (hints, mut text) = (&answer.hints, String::new());
    if !hints.is_empty() {
        text.push_str(&format!("\n{}\n", styled(HEADING, "hints")));
    }
    for hint in hints {
        let bullet = styled(AnsiColor::Yellow.on_default(), "*");
        let lines = paragraph(&hint_text(answer, hint), "    ", str::to_owned);
        text.push_str(&format!("  {bullet} {}", lines.trim_start()));
    }
    text
}

/// A constraint with its fields, the nodes that it leaves out, and its domains.
fn one(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
    let constraint = report.constraint.clone().unwrap_or_default();
    let mut text = constraint::heading(report, &constraint);
    if is_hard(&constraint) {
        text.push_str(&format!("  minimum     {}\n", minimum(report, insight)));
        if !counts_own_node(report, insight) {
            text.push_str(&format!("  limit       {}\n", limit(report, insight)));
        }
    }
    text.push_str(&constraint::policies(&constraint));
    for left_out in &insight.left_out {
        text.push_str(&format!("  left out    {}\n", left_out_text(left_out)));
    }
    text + &domains(report, insight, &constraint)
}

/// Returns whether a hard constraint has no limit, because each pod of a DaemonSet counts its own node.
fn counts_own_node(report: &ConstraintReport, insight: &ConstraintInsight) -> bool {
    let max_skew = report.constraint.as_ref().map_or(0, |it| it.max_skew);
    insight.limit == 0 && report.global_minimum + i64::from(max_skew) > i64::from(report.self_match)
}

/// Returns whether a constraint is hard.
pub(super) fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable != "ScheduleAnyway"
}

/// The minimum, and the domains that have it.
pub(super) fn minimum(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
    let count = number(report.global_minimum);
    let named = among(&insight.minimum_domains);
    let wanted = report.constraint.as_ref().and_then(|c| c.min_domains);
    match insight.minimum() {
        Minimum::Unspecified => count,
        Minimum::WithoutDomains => format!("{count}: no node is eligible, so there is no domain"),
        Minimum::ByMinDomains => format!(
            "{count}: there {}, minDomains wants {}",
            match report.domain_count {
                1 => "is 1 domain".to_owned(),
                count => format!("are {count} domains"),
            },
            wanted.unwrap_or(1),
        ),
        Minimum::ByDomains => {
            let unnamed = insight.minimum_domain_count - insight.minimum_domains.len() as i64;
            match unnamed {
                0 => format!("{count}, held by {named}"),
                _ => format!(
                    "{count}, held by {}",
                    plural(insight.minimum_domain_count, "domain")
                ),
            }
        }
    }
}

/// Returns the number of pods that a domain may have, in words.
pub(super) fn limit(report: &ConstraintReport, insight: &ConstraintInsight) -> String {
    let constraint = report.constraint.clone().unwrap_or_default();
    let (max_skew, minimum) = (constraint.max_skew, report.global_minimum);
    let most = minimum + i64::from(max_skew);
    format!(
        "{most} with the pod: minimum {minimum} + max skew {max_skew}; so {} before it goes there",
        match insight.limit {
            ..0 => "nowhere".to_owned(),
            0 => "none".to_owned(),
            limit => format!("at most {}", number(limit)),
        }
    )
}

/// Says which nodes are left out, and why.
pub(super) fn left_out_text(left_out: &LeftOut) -> String {
    let why = match left_out.cause() {
        Cause::MissingKey | Cause::Unspecified => "without the topology key",
        Cause::MissingOtherKey => "without the topology key of another constraint",
        Cause::NodeAffinity => "by nodeAffinityPolicy: Honor",
        Cause::Taints => "by nodeTaintsPolicy: Honor",
    };
    let pods = match left_out.matching_pods {
        0 => String::new(),
        1 => ", with 1 matching pod that does not count".to_owned(),
        pods => format!(", with {} that do not count", plural(pods, "matching pod")),
    };
    let (count, listed) = (left_out.node_count, left_out.nodes.len() as i64);
    let names = match count - listed {
        0 => among(&left_out.nodes),
        _ => format!(
            "{}, ...",
            among(&left_out.nodes[..left_out.nodes.len().min(3)])
        ),
    };
    format!("{} {why} ({names}){pods}", plural(count, "node"))
}

/// Returns the verdict on a domain: true if the pod can go there, and the text.
pub(super) fn verdict(
    constraint: &TopologySpreadConstraint,
    domain: &Domain,
    insight: &DomainInsight,
) -> (bool, String) {
    match domain.feasible {
        _ if !is_hard(constraint) => (true, String::new()),
        false => (
            false,
            format!("skew {} > {}", domain.skew, constraint.max_skew),
        ),
        true if insight.usable_node_count == 0 => (false, "no usable node".to_owned()),
        true if domain.skew > i64::from(constraint.max_skew) => {
            (true, format!("skew {}, not refused", domain.skew))
        }
        true => (
            true,
            format!("skew {} <= {}", domain.skew, constraint.max_skew),
        ),
    }
}

/// The bar of a domain.
pub(super) fn bar(
    report: &ConstraintReport,
    domain: &Domain,
    insight: &DomainInsight,
    constraint: &TopologySpreadConstraint,
) -> Bar {
    let limit = report.global_minimum + i64::from(constraint.max_skew);
    Bar {
        count: domain.matching_pods,
        added: insight.matching_pods_after - domain.matching_pods,
        limit: is_hard(constraint).then_some(limit),
    }
}

fn domains(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> String {
    let pairs = || report.domains.iter().zip(&insight.domains);
    if report.domains.is_empty() {
        return String::new();
    }
    let bars: Vec<Bar> = pairs()
        .map(|(domain, insight)| bar(report, domain, insight, constraint))
        .collect();
    let scale = BarScale::of(&bars);
    let rows = pairs().zip(&bars).map(|((domain, insight), bar)| {
        let (good, said) = verdict(constraint, domain, insight);
        let style = if good { GOOD } else { BAD };
        [
            quoted(&domain.value),
            number(domain.matching_pods),
            number(insight.matching_pods_after),
            format!(
                "{}/{}",
                number(insight.usable_node_count),
                number(domain.eligible_nodes)
            ),
            scale.draw(bar, style),
            styled(style, &unbroken(&said)),
        ]
    });
    let headings = ["DOMAIN", "PODS", "AFTER", "USABLE", "", ""];
    constraint::domain_table(report, headings, rows)
}
