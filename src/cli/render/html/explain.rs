//! Renders an explanation as a page.

use maud::{Markup, html};

use super::page::{Column, Page, bar_cell, longest_bar, more_domains, number_cell, table};
use crate::cli::render::constraint;
use crate::cli::render::explain::{
    bar as bar_of, hint_text, is_hard, left_out_text, limit, minimum, untold, verdict,
};
use crate::cli::render::text::{Head, Provenance, number, plural};
use crate::explain::quoted;
use crate::matching::selector_text;
use crate::proto::v1::hint::Kind;
use crate::proto::v1::{
    ConstraintInsight, ConstraintReport, Domain, DomainInsight, ExplainResponse,
    TopologySpreadConstraint,
};

/// The answer as a page.
pub(crate) fn explain_html(
    head: &Head,
    origin: &Provenance<'_>,
    answer: &ExplainResponse,
) -> String {
    let content = html! {
        (header(head, answer))
        (body(answer))
    };
    let page = Page {
        title: format!("Why: {}", head.pod),
        command: "explain",
        origin,
        revision: answer.revision,
        defaults: answer.defaults(),
    };
    page.write(&content)
}

/// An explanation below its header.
pub(super) fn body(answer: &ExplainResponse) -> Markup {
    html! {
        (hints(answer))
        @for (report, insight) in answer.constraints.iter().zip(&answer.insights) {
            (one(report, insight))
        }
        @if answer.constraints.is_empty() {
            section { h2 { "No spread constraint" } }
        }
        (nodes(answer))
    }
}

fn header(head: &Head, answer: &ExplainResponse) -> Markup {
    let found = answer.feasible_count > 0;
    let (verdict, why) = answer
        .summary
        .split_once(": ")
        .unwrap_or((&answer.summary, ""));
    html! {
        header.good[found].bad[!found] {
            p.pod { (head.pod) }
            @for line in head.remarks() { p.pod { (line) } }
            div.verdict {
                h1 { (verdict) }
                @if !why.is_empty() { p { (why) } }
            }
            @if !untold(answer).is_empty() {
                p { "not checked: " (untold(answer).join(", ")) }
            }
            p.tallies {
                span.tally.feasible { b { (number(answer.feasible_count)) } " feasible" }
                @for reason in &answer.reasons {
                    span.tally { b { (number(reason.count)) } " " (reason.reason) }
                }
            }
        }
    }
}

fn hints(answer: &ExplainResponse) -> Markup {
    let hints = &answer.hints;
    html! {
        @if !hints.is_empty() {
            section {
                h2 { "Hints" }
                ul.hints {
                    @for hint in hints {
                        li {
                            span.kind { (kind_text(hint.kind())) }
                            p { (hint_text(answer, hint)) }
                        }
                    }
                }
            }
        }
    }
}

/// The kind of a hint in a few words.
fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Unspecified => "hint",
        Kind::SelfMismatch => "selector",
        Kind::EmptySelector => "empty selector",
        Kind::UnusableDomain | Kind::FleetUnusableDomain => "unusable domain",
        Kind::MinDomains => "minDomains",
        Kind::MissingKey => "missing label",
        Kind::EmptyValue => "empty label",
        Kind::MixedRevisions => "revisions",
        Kind::TerminatingPods => "terminating",
        Kind::FewerPods => "fewer pods",
        Kind::MorePods => "more pods",
        Kind::MaxSkew => "maxSkew",
        Kind::Conflict => "conflict",
        Kind::Room => "room",
        Kind::NominatedPods => "nominated pods",
        Kind::PodAffinity => "other pods",
        Kind::Volumes => "volumes",
        Kind::OneDomain => "one domain",
        Kind::Preemption => "preemption",
        Kind::OtherWorkloads => "other workloads",
        Kind::UncountedPods => "not counted",
        Kind::Soft => "soft",
        Kind::FleetSkewTooLarge => "skew too large",
        Kind::FleetGreedy => "greedy picking",
    }
}

fn one(report: &ConstraintReport, insight: &ConstraintInsight) -> Markup {
    let constraint = report.constraint.clone().unwrap_or_default();
    html! {
        section.constraint {
            h2 {
                @if report.from_defaults { "Default constraint " } @else { "Constraint " }
                (report.constraint_index) ": " code { (constraint.topology_key) }
            }
            (facts(report, insight, &constraint))
            @if !report.domains.is_empty() {
                (domains(report, insight, &constraint))
            }
        }
    }
}

fn facts(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> Markup {
    let selector = constraint.label_selector.as_ref().map(selector_text);
    html! {
        dl {
            dt { "Rule" }
            dd { "max skew " (constraint.max_skew) ", " (constraint.when_unsatisfiable) }
            dt { "Counts" }
            dd {
                @match selector.as_deref() {
                    None => "no pods: there is no selector",
                    Some("") => "pods of an empty selector",
                    Some(text) => { "pods with " code { (text) } }
                }
                @if report.from_defaults { ", deduced from services and the pod's owner" }
                @if report.self_match == 0 { "; the pod itself does not count" }
            }
            @if is_hard(constraint) {
                dt { "Minimum" }
                dd { (minimum(report, insight)) }
                dt { "Limit" }
                dd { (limit(report, insight)) }
            }
            @let policies = constraint::policy_list(constraint);
            @if !policies.is_empty() {
                dt { "With" }
                dd { (policies.join(", ")) }
            }
            @for left_out in &insight.left_out {
                dt { "Left out" }
                dd { (left_out_text(left_out)) }
            }
        }
    }
}

fn domains(
    report: &ConstraintReport,
    insight: &ConstraintInsight,
    constraint: &TopologySpreadConstraint,
) -> Markup {
    let pairs = || report.domains.iter().zip(&insight.domains);
    let bars = pairs().map(|(domain, insight)| bar_of(report, domain, insight, constraint));
    let longest = longest_bar(bars);
    let more = report.domain_count - report.domains.len() as i64;
    let usable = "nodes that the pod could use, of those that count";
    let head = [
        Column::Text("Domain"),
        Column::Number("Pods"),
        Column::Number("After"),
        Column::Explained("Usable nodes", usable),
        Column::Bars(legend(constraint)),
        Column::Text("Verdict"),
    ];
    let rows = pairs().map(|(domain, insight)| row(report, domain, insight, constraint, longest));
    let label = format!("Domains of {}", constraint.topology_key);
    html! {
        (table("domains", &label, "domain", &head, rows))
        (more_domains(more, Some("--all")))
    }
}

fn legend(constraint: &TopologySpreadConstraint) -> Markup {
    html! {
        span.key.pods { "pods" }
        span.key.added { "this pod" }
        @if is_hard(constraint) {
            span.key.room { "room" }
            span.key.limit { "limit" }
        }
    }
}

fn row(
    report: &ConstraintReport,
    domain: &Domain,
    insight: &DomainInsight,
    constraint: &TopologySpreadConstraint,
    longest: i64,
) -> Markup {
    let shown = bar_of(report, domain, insight, constraint);
    let (good, said) = verdict(constraint, domain, insight);
    let (usable, all) = (insight.usable_node_count, domain.eligible_nodes);
    let usable = format!("{} of {}", number(usable), number(all));
    let said_of_bar = format!(
        "{} now, {} with the pod{}",
        plural(shown.count, "pod"),
        shown.count + shown.added,
        match shown.limit {
            Some(limit) => format!(", limit {limit}"),
            None => String::new(),
        }
    );
    html! {
        tr.good[good].bad[!good] {
            th scope="row" { (quoted(&domain.value)) }
            (number_cell("pods", &number(domain.matching_pods)))
            (number_cell("after", &number(insight.matching_pods_after)))
            (number_cell("usable nodes", &usable))
            (bar_cell(shown, longest, &said_of_bar))
            td.said { (said) }
        }
    }
}

fn nodes(answer: &ExplainResponse) -> Markup {
    let head = [Column::Text("Node"), Column::Text("Reason")];
    let infeasible = answer.infeasible.iter().map(|verdict| {
        html! {
            tr {
                th scope="row" { (verdict.node) }
                td {
                    (verdict.reason)
                    @if verdict.constraint_index >= 0 {
                        " (constraint " (verdict.constraint_index) ")"
                    }
                    @if verdict.nominated_pods > 0 {
                        ", with " (plural(verdict.nominated_pods, "nominated pod")) " there"
                    }
                }
            }
        }
    });
    html! {
        @if !answer.feasible.is_empty() {
            details {
                summary { (plural(answer.feasible.len(), "feasible node")) }
                p.names { @for node in &answer.feasible { code { (node) } " " } }
            }
        }
        @if !answer.infeasible.is_empty() {
            details {
                summary { (plural(answer.infeasible.len(), "infeasible node")) }
                (table("list", "Infeasible nodes", "node", &head, infeasible))
            }
        }
    }
}
