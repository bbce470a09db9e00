//! Renders the spread of workloads.

use std::collections::BTreeMap;

use anstyle::Style;

use super::bars::{Bar, BarScale};
use super::coverage;
use super::layout::{paragraph, unbroken};
use super::text::{
    BAD, GOOD, HEADING, and_more, found_by_selector, number, plural, source_line, styled, table,
};
use crate::explain::quoted;
use crate::matching::selector_text;
use crate::proto::v1::{
    DescribeSpreadResponse, DomainSpread, LabelSelector, TopologySpread, TopologySpreadConstraint,
    WorkloadSpread,
};

/// The request of a spread.
pub(crate) struct SpreadOf<'a> {
    /// The subject, e.g. `snapshot "default"`.
    pub(crate) snapshot: &'a str,
    /// The topology key, if one was given.
    pub(crate) by: Option<&'a str>,
    /// The selector, if one was given.
    pub(crate) selector: Option<&'a LabelSelector>,
    /// True if the request is about all workloads.
    pub(crate) all: bool,
    /// True if every domain is drawn.
    pub(crate) bars: bool,
    /// True if the request is about files, for which default constraints can be given.
    pub(crate) loaded: bool,
}

/// The answer as text: a line for each topology, or a bar for each domain.
pub(crate) fn spread(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> String {
    let mut text = source_line(about.snapshot, answer.revision, answer.defaults());
    if about.all {
        text.push_str(&summary(about, answer));
    }
    if about.bars {
        let workloads = answer.workloads.iter();
        text.extend(workloads.map(|spread| format!("\n{}", whole(about.selector, spread))));
    } else if !answer.workloads.is_empty() {
        text.push_str(&format!("\n{}", violations("", answer)));
    }
    text
}

/// Kind and name, or the labels of pods without a controller.
fn workload_name(spread: &WorkloadSpread) -> String {
    match spread.kind.is_empty() {
        true => labels_text(&spread.labels),
        false => format!("{}/{}", spread.kind, spread.name),
    }
}

/// Returns the name for pods without a controller.
fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let labels = labels.iter().map(|(k, v)| format!("{k}={v}"));
    match labels.collect::<Vec<_>>().join(",") {
        labels if labels.is_empty() => "pods without labels".to_owned(),
        labels => labels,
    }
}

/// Returns the lines above the workloads: the first line, and the others.
pub(super) fn headline(
    about: &SpreadOf<'_>,
    answer: &DescribeSpreadResponse,
) -> (String, Vec<String>) {
    if !about.all {
        let named = answer.workloads.first();
        let named = named.map(|spread| title(about.selector, spread));
        return (named.unwrap_or_default(), Vec::new());
    }
    let (first, mut more) = match about.by {
        Some(key) => {
            let all = plural(answer.workload_count, "workload");
            (format!("{all} over {key}"), Vec::new())
        }
        None => {
            let advice = coverage::advice(answer, about.loaded);
            let lines = coverage::lines(answer).into_iter().chain(advice);
            (coverage::verdict(answer), lines.collect())
        }
    };
    if answer.unranked_count > 0 {
        let left_out = plural(answer.unranked_count, "workload");
        more.push(format!(
            "not ranked: {left_out} of a single pod or of static pods"
        ));
    }
    more.extend(not_judged(answer.faulty_count));
    (first, more)
}

/// A line with the number of workloads that have a fault, if there are any.
pub(super) fn not_judged(faulty: i64) -> Option<String> {
    let workloads = plural(faulty, "workload");
    (faulty > 0).then(|| format!("not judged for what their pods ask for: {workloads}"))
}

fn summary(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> String {
    let (first, more) = headline(about, answer);
    let style = match answer.violating_count {
        _ if about.by.is_some() || !coverage::is_judged(answer) => Style::new(),
        0 => GOOD.bold(),
        _ => BAD.bold(),
    };
    let more = more.iter().map(|line| paragraph(line, "", str::to_owned));
    paragraph(&first, "", |line| styled(style, line)) + &more.collect::<String>()
}

/// A row for each violated topology of each workload.
pub(super) fn violations(indent: &str, answer: &DescribeSpreadResponse) -> String {
    let headings = [
        "NAMESPACE",
        "WORKLOAD",
        "PODS",
        "OVER",
        "SKEW",
        "MOST",
        "FEWEST",
    ];
    table(indent, headings, answer.workloads.iter().flat_map(rows))
}

/// The name of a workload: KIND/NAMESPACE/NAME or, without a controller, namespace and labels.
pub(crate) fn full_name(spread: &WorkloadSpread) -> String {
    name_of_workload(
        &spread.namespace,
        &spread.kind,
        &spread.name,
        &spread.labels,
    )
}

/// The name from its parts: KIND/NAMESPACE/NAME or, without a controller, namespace and labels.
pub(crate) fn name_of_workload(
    namespace: &str,
    kind: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> String {
    match kind {
        "" => format!("{namespace}/{}", labels_text(labels)),
        kind => format!("{kind}/{namespace}/{name}"),
    }
}

/// A row for each topology that is violated or was requested.
fn rows(spread: &WorkloadSpread) -> Vec<[String; 7]> {
    let row = |over: String, skew: String, most: String, fewest: String| {
        [
            spread.namespace.clone(),
            workload_name(spread),
            pods(spread),
            over,
            skew,
            most,
            fewest,
        ]
    };
    let topologies = spread.topologies.iter();
    let told = topologies.filter(|t| t.excess > 0 || t.constraint.is_none());
    let mut rows: Vec<_> = told
        .map(|topology| {
            let most = topology.domains.first().map(share);
            let all_listed = topology.domain_count == topology.domains.len() as i64;
            let fewest = match topology.domains.last().filter(|_| all_listed) {
                Some(domain) => share(domain),
                None => number(topology.global_minimum),
            };
            row(
                over(topology),
                match topology.excess {
                    0 => skew(topology),
                    _ => styled(BAD, &unbroken(&skew(topology))),
                },
                most.unwrap_or_default(),
                fewest,
            )
        })
        .collect();
    if !spread.fault.is_empty() {
        let none = String::new;
        rows.push(row(
            styled(BAD, &format!("not judged: {}", spread.fault)),
            none(),
            none(),
            none(),
        ));
    }
    rows
}

/// Returns the number of pods, and of pending pods, in words.
fn pods(spread: &WorkloadSpread) -> String {
    let pods = number(spread.pod_count);
    match spread.pending_count {
        0 => pods,
        pending => format!("{pods}, {} pending", number(pending)),
    }
}

fn share(domain: &DomainSpread) -> String {
    format!("{} {}", quoted(&domain.value), number(domain.matching_pods))
}

/// Returns the topology that a workload is spread over, e.g. `zone, max skew 1, DoNotSchedule`.
pub(super) fn over(topology: &TopologySpread) -> String {
    let Some(constraint) = &topology.constraint else {
        return topology.topology_key.clone();
    };
    let default = if topology.from_defaults {
        ", default"
    } else {
        ""
    };
    format!(
        "{}, max skew {}, {}{default}",
        topology.topology_key, constraint.max_skew, constraint.when_unsatisfiable
    )
}

fn skew(topology: &TopologySpread) -> String {
    match &topology.constraint {
        Some(constraint) if topology.excess > 0 => {
            format!("{} > {}", number(topology.skew), constraint.max_skew)
        }
        _ => number(topology.skew),
    }
}

/// Returns the title of a workload above its domains.
pub(super) fn title(selector: Option<&LabelSelector>, spread: &WorkloadSpread) -> String {
    let name = match selector.map(selector_text) {
        Some(selector) if selector.is_empty() => "all pods".to_owned(),
        Some(selector) => format!("pods with {selector}"),
        None => workload_name(spread),
    };
    format!("{name}, namespace {}", spread.namespace)
}

/// One workload with all its domains.
fn whole(selector: Option<&LabelSelector>, spread: &WorkloadSpread) -> String {
    let title = title(selector, spread);
    let mut pods = plural(spread.pod_count, "pod");
    if spread.pending_count > 0 {
        pods.push_str(&format!(
            ", {} of them pending",
            number(spread.pending_count)
        ));
    }
    let mut text = format!("{}: {pods}\n", styled(HEADING, &title));
    let selected = found_by_selector(spread.selected_count);
    text.extend(selected.map(|line| paragraph(&line, "  ", str::to_owned)));
    if !spread.fault.is_empty() {
        let fault = format!("not judged: {}", spread.fault);
        text.push_str(&format!("  {}\n", styled(BAD, &fault)));
    }
    if spread.topologies.is_empty() && spread.fault.is_empty() {
        text.push_str("  no constraint is in force\n");
    }
    for topology in &spread.topologies {
        text.push_str(&format!("  over {}\n", over(topology)));
        for (what, said) in facts(topology, &spread.kind) {
            let said = match what {
                "skew" if topology.excess > 0 => styled(BAD, &said),
                _ => said,
            };
            text.push_str(&format!("    {what:<8} {said}\n"));
        }
        text.push_str(&domains(topology));
    }
    text
}

/// Returns the facts about a topology of a workload of a kind, other than its domains, each as a word
/// and its value.
pub(super) fn facts(topology: &TopologySpread, kind: &str) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(constraint) = &topology.constraint {
        let counts = match constraint.label_selector.as_ref().map(selector_text) {
            Some(selector) if !selector.is_empty() => format!("pods with {selector}"),
            _ => "no pods".to_owned(),
        };
        facts.push(("counts", counts));
    }
    let minimum = match topology.min_domains_unmet {
        true => ", as there are fewer domains than minDomains",
        false => "",
    };
    facts.push(("skew", skew(topology)));
    let is_hard = |it: &TopologySpreadConstraint| {
        it.when_unsatisfiable == "DoNotSchedule" && it.min_domains.unwrap_or(1) <= 1
    };
    if topology.domain_count == 1 && topology.constraint.as_ref().is_some_and(is_hard) {
        let effect = match kind {
            "DaemonSet" => {
                "none: each pod counts the node that it is tied to; nodeAffinityPolicy: Ignore would do"
            }
            _ => "none: with one domain it refuses no node; minDomains: 2 or another key would",
        };
        facts.push(("effect", effect.to_owned()));
    }
    let smallest = number(topology.global_minimum);
    facts.push(("minimum", format!("{smallest}{minimum}")));
    if topology.outside_pods > 0 {
        let outside = number(topology.outside_pods);
        facts.push((
            "outside",
            format!("{outside} of its pods, on nodes in no domain"),
        ));
    }
    if topology.domains.is_empty() {
        facts.push(("domains", "none, as no node is eligible".to_owned()));
    }
    facts
}

/// A bar for each domain, with the most pods that it may have.
fn domains(topology: &TopologySpread) -> String {
    if topology.domains.is_empty() {
        return String::new();
    }
    let max_skew = topology.constraint.as_ref().map(|c| i64::from(c.max_skew));
    let limit = max_skew.map(|max| topology.global_minimum.saturating_add(max));
    let bars = topology.domains.iter().map(|domain| bar_of(domain, limit));
    let bars: Vec<Bar> = bars.collect();
    let scale = BarScale::of(&bars);
    let rows = topology.domains.iter().zip(&bars).map(|(domain, bar)| {
        let within = max_skew.is_none_or(|max| domain.skew <= max);
        let style = if within { GOOD } else { BAD };
        [
            quoted(&domain.value),
            number(domain.matching_pods),
            number(domain.skew),
            number(domain.eligible_nodes),
            scale.draw(bar, style),
        ]
    });
    let headings = ["DOMAIN", "PODS", "SKEW", "NODES", "SPREAD"];
    let more = topology.domain_count as usize - topology.domains.len();
    table("    ", headings, rows) + &and_more("    ", more, "domains", "--max-domains 0 lists them")
}

/// The bar of a domain that may have at most `limit` pods.
pub(super) fn bar_of(domain: &DomainSpread, limit: Option<i64>) -> Bar {
    Bar {
        count: domain.matching_pods,
        added: 0,
        limit,
    }
}
