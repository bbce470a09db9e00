//! Renders the spread of workloads, and a report on a whole cluster.

use std::collections::BTreeMap;

use super::page::{Fact, Look, Page, PagePart, Parts, Source, Table, TableCell, found_by_selector};
use super::text::{Bar, number, plural};
use crate::cli::spread::{ClusterReport, DomainLoad};
use crate::explain::{among, quoted};
use crate::matching::selector_text;
use crate::proto::v1::{
    ConstraintCoverage, DefaultsKind, DescribeSpreadResponse, DomainSpread, LabelSelector,
    TopologySpread, WorkloadSpread,
};

/// The request of a spread.
pub(crate) struct SpreadOf<'a> {
    /// The source of the answer.
    pub(crate) source: &'a Source,
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

/// The answer: a line for each topology, or a bar for each domain.
pub(crate) fn spread(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> Page {
    let mut page = Page::new("spread", format!("Spread of {}", about.source.snapshot));
    let mut parts = Parts::default();
    if about.all {
        let (verdict, more) = summary(about, answer);
        let look = match answer.violating_count {
            _ if about.by.is_some() || !is_judged(answer) => Look::Plain,
            violating => Look::of(violating == 0),
        };
        page = page.verdict(look, verdict);
        parts.lines(more);
    }
    if about.bars {
        let how = "--all lists them";
        let workloads = answer.workloads.iter();
        parts
            .0
            .extend(workloads.map(|spread| workload(about.selector, spread, how)));
    } else {
        parts.table(violations(answer));
    }
    page.of(about.source, answer.revision, answer.defaults())
        .with(parts)
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
fn summary(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> (String, Vec<String>) {
    let (first, mut more) = match about.by {
        Some(key) => {
            let all = plural(answer.workload_count, "workload");
            (format!("{all} over {key}"), Vec::new())
        }
        None => {
            let advice = coverage_advice(answer, about.loaded);
            let lines = coverage_lines(answer).into_iter().chain(advice);
            (violating_text(answer), lines.collect())
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

/// A row for each violated topology of each workload.
pub(super) fn violations(answer: &DescribeSpreadResponse) -> Table {
    let headings = [
        "NAMESPACE",
        "WORKLOAD",
        "PODS",
        "OVER",
        "SKEW",
        "MOST",
        "FEWEST",
    ];
    Table::new(
        "violation",
        headings,
        answer.workloads.iter().flat_map(rows),
    )
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
fn rows(spread: &WorkloadSpread) -> Vec<[TableCell; 7]> {
    let row = |over: TableCell, skew: TableCell, most: String, fewest: String| {
        [
            spread.namespace.clone().into(),
            workload_name(spread).into(),
            pods(spread).into(),
            over,
            skew,
            most.into(),
            fewest.into(),
        ]
    };
    let topologies = spread.topologies.iter();
    let told = topologies.filter(|t| t.excess > 0 || t.constraint.is_none());
    let rows = told.map(|topology| {
        let most = topology.domains.first().map(share);
        let all_listed = topology.domain_count == topology.domains.len() as i64;
        let fewest = match topology.domains.last().filter(|_| all_listed) {
            Some(domain) => share(domain),
            None => number(topology.global_minimum),
        };
        let skew = match topology.excess {
            0 => skew(topology).into(),
            _ => TableCell::whole(Look::Bad, skew(topology)),
        };
        let over = over(topology).into();
        row(over, skew, most.unwrap_or_default(), fewest)
    });
    let fault = (!spread.fault.is_empty()).then(|| {
        let fault = TableCell::styled(Look::Bad, format!("not judged: {}", spread.fault));
        row(fault, "".into(), String::new(), String::new())
    });
    rows.chain(fault).collect()
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

/// One workload with all its topologies; `how` says how to see all domains.
pub(super) fn workload(
    selector: Option<&LabelSelector>,
    spread: &WorkloadSpread,
    how: &'static str,
) -> PagePart {
    let name = match selector.map(selector_text) {
        Some(selector) if selector.is_empty() => "all pods".to_owned(),
        Some(selector) => format!("pods with {selector}"),
        None => workload_name(spread),
    };
    let name = format!("{name}, namespace {}", spread.namespace);
    let pending = match spread.pending_count {
        0 => String::new(),
        pending => format!(", {} of them pending", number(pending)),
    };
    let pods = format!(": {}{pending}", plural(spread.pod_count, "pod"));
    let mut parts = Parts::default();
    parts.lines(found_by_selector(spread.selected_count));
    if !spread.fault.is_empty() {
        parts.styled(Look::Bad, format!("not judged: {}", spread.fault));
    } else if spread.topologies.is_empty() {
        parts.line("no constraint is in force");
    }
    for topology in &spread.topologies {
        let mut below = Parts::default();
        below.push(PagePart::Facts(facts(topology)));
        below.table(domains(topology, how));
        let over = vec![(Look::Plain, format!("over {}", over(topology)))];
        parts.push(PagePart::Section(over, below));
    }
    PagePart::Section(vec![(Look::Strong, name), (Look::Plain, pods)], parts)
}

/// Returns the facts about a topology other than its domains.
fn facts(topology: &TopologySpread) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name, look, value| facts.push(Fact { name, look, value });
    if let Some(constraint) = &topology.constraint {
        let counts = match constraint.label_selector.as_ref().map(selector_text) {
            Some(selector) if !selector.is_empty() => format!("pods with {selector}"),
            _ => "no pods".to_owned(),
        };
        add("counts", Look::Plain, counts);
    }
    let look = match topology.excess {
        0 => Look::Plain,
        _ => Look::Bad,
    };
    add("skew", look, skew(topology));
    if !topology.effect.is_empty() {
        add("effect", Look::Plain, topology.effect.clone());
    }
    let smallest = number(topology.global_minimum);
    let minimum = match topology.min_domains_unmet {
        true => ", as there are fewer domains than minDomains",
        false => "",
    };
    add("minimum", Look::Plain, smallest + minimum);
    if topology.outside_pods > 0 {
        let outside = number(topology.outside_pods);
        let outside = format!("{outside} of its pods, on nodes in no domain");
        add("outside", Look::Plain, outside);
    }
    if topology.domains.is_empty() {
        add(
            "domains",
            Look::Plain,
            "none, as no node is eligible".to_owned(),
        );
    }
    facts
}

/// A bar for each domain, with the most pods that it may have.
fn domains(topology: &TopologySpread, how: &'static str) -> Table {
    let max_skew = max_skew(topology);
    let rows = topology.domains.iter().map(|domain| {
        let within = max_skew.is_none_or(|max| domain.skew <= max);
        [
            quoted(&domain.value).into(),
            number(domain.matching_pods).into(),
            number(domain.skew).into(),
            number(domain.eligible_nodes).into(),
            TableCell::bar(Look::of(within), bar_of(topology, domain.matching_pods)),
        ]
    });
    let headings = ["DOMAIN", "PODS", "SKEW", "NODES", "SPREAD"];
    let more = match topology.domains.is_empty() {
        true => 0,
        false => topology.domain_count - topology.domains.len() as i64,
    };
    Table::new("domain", headings, rows).more(more, how)
}

/// The bar of a domain with so many pods, and the most that it may have.
pub(super) fn bar_of(topology: &TopologySpread, count: i64) -> Bar {
    Bar {
        count,
        added: 0,
        limit: max_skew(topology).map(|max| topology.global_minimum.saturating_add(max)),
    }
}

/// The largest skew that a constraint allows, if it has an effect.
fn max_skew(topology: &TopologySpread) -> Option<i64> {
    let constraint = topology.constraint.as_ref();
    let in_effect = constraint.filter(|_| topology.effect.is_empty());
    in_effect.map(|it| i64::from(it.max_skew))
}

/// Returns a line with the number of workloads that violate constraints.
pub(super) fn violating_text(answer: &DescribeSpreadResponse) -> String {
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
pub(super) fn coverage_lines(answer: &DescribeSpreadResponse) -> Vec<String> {
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
pub(super) fn coverage_advice(answer: &DescribeSpreadResponse, loaded: bool) -> Vec<String> {
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

/// The report.
pub(crate) fn report(source: &Source, report: &ClusterReport) -> Page {
    let mut parts = Parts::default();
    let stuck = report.stuck.iter();
    let stuck = stuck.map(|it| [it.workload.clone(), number(it.pods), it.reason.clone()]);
    let headings = ["WORKLOAD", "PODS", "REASON"];
    parts.listed("fit nowhere", Table::new("workload", headings, stuck));
    constraints(&mut parts, report);
    let risks = report.risks.iter();
    let risks = risks.map(|it| [it.workload.clone(), number(it.pods), it.risk.clone()]);
    let headings = ["WORKLOAD", "PODS", "RISK"];
    parts.listed("risks", Table::new("workload", headings, risks));
    let mut load = Parts::default();
    if report.load.len() > 1 {
        load.listed(format!("load by {}", report.by), loads(&report.load));
    }
    parts.push(PagePart::OnPage(load));
    let headings = ["WORKLOAD", "PODS", "FULLEST", "IF EVEN"];
    let rows = report.unbalanced.iter().map(|one| {
        [
            one.workload.clone(),
            number(one.pods),
            format!("{} {}", one.fullest, number(one.most)),
            number(one.even),
        ]
    });
    let unbalanced = format!("unbalanced over {}", report.by);
    parts.listed(unbalanced, Table::new("workload", headings, rows));
    let mut page = Page::new("report", format!("Report on {}", source.snapshot));
    page.remarks.push(format!(
        "{}, {}, {}",
        plural(report.node_count, "node"),
        plural(report.pod_count, "pod"),
        plural(report.constraints.workload_count, "workload")
    ));
    page.of(source, report.revision, report.constraints.defaults())
        .verdict(look(report), violating_text(&report.constraints))
        .with(parts)
}

fn look(report: &ClusterReport) -> Look {
    Look::of(report.constraints.violating_count == 0 && report.stuck.is_empty())
}

/// Adds the rules that keep workloads even, the pods that cannot be judged, and what
/// violates constraints.
fn constraints(parts: &mut Parts, report: &ClusterReport) {
    let answer = &report.constraints;
    let mut below = Parts::default();
    below
        .lines(coverage_lines(answer))
        .lines(report.not_judged.iter().map(ToString::to_string));
    let mut advice = Parts::default();
    advice.lines(coverage_advice(answer, false));
    below.push(PagePart::InText(advice));
    parts.section("constraints", below);
    let beyond = "beyond max skew";
    let mut text = Parts::default();
    text.listed(beyond, violations(answer));
    parts.push(PagePart::InText(text));
    let workloads = answer.workloads.iter();
    let workloads: Vec<PagePart> = workloads.map(|it| workload(None, it, "")).collect();
    if !workloads.is_empty() {
        let mut page = Parts::default();
        page.apart(Look::Strong, beyond);
        page.0.extend(workloads);
        parts.push(PagePart::OnPage(page));
    }
}

/// Returns the resource whose requested share is drawn: of those that all domains have, the one with
/// the highest share. `None` if there is none, so that pods are drawn.
fn scarcest(loads: &[DomainLoad]) -> Option<&str> {
    let of = |load: &DomainLoad, resource: &str| {
        let mut shares = load.shares.iter();
        shares
            .find(|share| share.resource == resource)
            .map(|share| share.percent)
    };
    let first = loads.first()?.shares.iter().map(|share| &*share.resource);
    let highest = first.filter_map(|resource| {
        let shares: Option<Vec<i64>> = loads.iter().map(|load| of(load, resource)).collect();
        Some((shares?.into_iter().max()?, resource))
    });
    highest.max().map(|(_, resource)| resource)
}

/// Returns the load of each domain: the requested share of one resource, drawn in percent, or, if
/// nodes report none, the number of pods.
fn loads(loads: &[DomainLoad]) -> Table {
    let drawn = scarcest(loads);
    let rows = loads.iter().map(|it| {
        let share = it.shares.iter().find(|it| Some(&*it.resource) == drawn);
        let bar = Bar {
            count: share.map_or(it.pods, |share| share.percent),
            added: 0,
            limit: share.map(|_| 100),
        };
        let shares: Vec<String> = it.shares.iter().map(ToString::to_string).collect();
        let shares = shares.join("; ");
        let said = format!("{} {shares}", plural(it.pods, "pod"));
        [
            quoted(&it.domain).into(),
            number(it.pods).into(),
            shares.into(),
            TableCell::Bar(Look::Plain, bar, said),
        ]
    });
    let unit = match drawn {
        Some(resource) => format!("{resource} requested, in % of what nodes have"),
        None => "pods".to_owned(),
    };
    let headings = ["DOMAIN", "PODS", "REQUESTED", ""];
    Table::new("domain", headings, rows).legend(vec![("pods", unit)])
}
