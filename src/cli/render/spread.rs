//! How evenly things are spread.

use super::bars::{Bar, Scale};
use super::style::{BAD, GOOD, HEADING, styled};
use super::table::table;
use super::text::{and_more, counted, many};
use crate::matching::selector_text;
use crate::proto::v1::{
    ConstraintCoverage, DescribeSpreadResponse, DomainSpread, LabelSelector, TopologySpread,
    WorkloadSpread,
};

/// What was asked.
pub(crate) struct SpreadOf<'a> {
    /// Name of the snapshot.
    pub(crate) snapshot: &'a str,
    /// The topology key, if one was given.
    pub(crate) by: Option<&'a str>,
    /// The selector, if one was given.
    pub(crate) selector: Option<&'a LabelSelector>,
    /// Whether it is about all workloads.
    pub(crate) all: bool,
    /// Whether every domain is drawn.
    pub(crate) bars: bool,
    /// Whether it is about files, for which default constraints can be given.
    pub(crate) loaded: bool,
}

/// The answer as text: a line for each topology, or a bar for each domain.
pub(crate) fn spread(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> String {
    let mut text = format!(
        "snapshot {:?}, revision {}\n",
        about.snapshot, answer.revision
    );
    if about.all {
        text.push_str(&summary(about, answer));
    }
    if about.bars {
        let workloads = answer.workloads.iter();
        text.extend(workloads.map(|spread| format!("\n{}", whole(about, spread))));
    } else if !answer.workloads.is_empty() {
        let rows = answer.workloads.iter().flat_map(rows);
        let headings = [
            "NAMESPACE",
            "WORKLOAD",
            "PODS",
            "OVER",
            "SKEW",
            "MOST",
            "FEWEST",
        ];
        text.push_str(&format!("\n{}", table("", headings, rows)));
    }
    text
}

/// Kind and name, or the labels of pods without a controller.
pub(crate) fn workload_name(spread: &WorkloadSpread) -> String {
    if !spread.kind.is_empty() {
        return format!("{}/{}", spread.kind, spread.name);
    }
    let labels = spread.labels.iter().map(|(k, v)| format!("{k}={v}"));
    match labels.collect::<Vec<_>>().join(",") {
        labels if labels.is_empty() => "pods without labels".to_owned(),
        labels => labels,
    }
}

fn summary(about: &SpreadOf<'_>, answer: &DescribeSpreadResponse) -> String {
    let all = many(answer.workload_count, "workload");
    let mut text = match (about.by, &answer.coverage) {
        (Some(key), _) => format!("{all} over {key}\n"),
        (None, Some(coverage)) => covered(about, answer, coverage),
        (None, None) => violating(answer.violating_count, &all),
    };
    if answer.unranked_count > 0 {
        let left_out = many(answer.unranked_count, "workload");
        text.push_str(&format!(
            "not ranked: {left_out} of a single pod or of static pods\n"
        ));
    }
    if answer.faulty_count > 0 {
        text.push_str(&format!(
            "not judged for what their pods ask for: {}\n",
            many(answer.faulty_count, "workload")
        ));
    }
    text
}

fn violating(count: i64, all: &str) -> String {
    let (style, count) = match count {
        0 => (GOOD, "none".to_owned()),
        count => (BAD, counted(count)),
    };
    styled(style.bold(), &format!("violating: {count} of {all}")) + "\n"
}

/// Which workloads violate constraints, how many have any, and what is known of
/// those that have none.
fn covered(
    about: &SpreadOf<'_>,
    answer: &DescribeSpreadResponse,
    coverage: &ConstraintCoverage,
) -> String {
    let held = coverage.own_count + coverage.default_count;
    let all = many(answer.workload_count, "workload");
    let mut text = match (answer.workload_count, held) {
        (0, _) => return "no workload: there is no pod here\n".to_owned(),
        (_, 0) => format!("violating: nothing to violate, no constraint is in force for {all}\n"),
        _ => violating(
            answer.violating_count,
            &format!("{} with constraints", many(held, "workload")),
        ),
    };
    text.push_str(&format!(
        "{all}: {} with constraints of their own, {} by default constraints, {} of several pods \
         without any, {} of a single pod, {} tied to nodes\n",
        counted(coverage.own_count),
        counted(coverage.default_count),
        counted(coverage.unconstrained_count),
        counted(coverage.single_count),
        counted(coverage.fixed_count),
    ));
    if coverage.pending_pods > 0 {
        let pods = many(coverage.pending_pods, "pod");
        text.push_str(&format!("pending: {pods}, counted in no domain yet\n"));
    }
    if coverage.unconstrained_count > 0 {
        text.push_str(&unconstrained(about, answer, coverage));
    }
    text
}

/// What is known of workloads of several pods that nothing holds even.
fn unconstrained(
    about: &SpreadOf<'_>,
    answer: &DescribeSpreadResponse,
    coverage: &ConstraintCoverage,
) -> String {
    let mut text = format!(
        "without any constraint: {} all in one zone, {} all on one node\n",
        counted(coverage.in_one_zone_count),
        counted(coverage.on_one_node_count)
    );
    if let Some(key) = suggested_key(answer) {
        text.push_str(&format!("see how they are spread with --by {key}\n"));
    }
    if about.loaded && coverage.default_count == 0 {
        text.push_str(
            "see what kube-scheduler's default constraints say with --default-constraints \
             system\n",
        );
    }
    text
}

/// The first label key of nodes that has several values.
pub(crate) fn suggested_key(answer: &DescribeSpreadResponse) -> Option<&str> {
    let mut keys = answer.topology_keys.iter();
    keys.find(|key| key.value_count > 1).map(|key| &*key.key)
}

/// A row for each topology that is violated, or that was asked for.
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
                None => counted(topology.global_minimum),
            };
            row(
                over(topology),
                skew(topology),
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

/// How many pods there are, and how many of them are on no node.
fn pods(spread: &WorkloadSpread) -> String {
    let pods = counted(spread.pod_count);
    match spread.pending_count {
        0 => pods,
        pending => format!("{pods}, {} pending", counted(pending)),
    }
}

fn share(domain: &DomainSpread) -> String {
    format!("{} {}", value(domain), counted(domain.matching_pods))
}

fn value(domain: &DomainSpread) -> &str {
    match domain.value.as_str() {
        "" => "\"\"",
        value => value,
    }
}

/// What it is spread over, e.g. `zone, max skew 1, DoNotSchedule`.
fn over(topology: &TopologySpread) -> String {
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
            styled(BAD, &format!("{} > {}", topology.skew, constraint.max_skew))
        }
        _ => counted(topology.skew),
    }
}

/// One workload with all its domains.
fn whole(about: &SpreadOf<'_>, spread: &WorkloadSpread) -> String {
    let name = match about.selector.map(selector_text) {
        Some(selector) if selector.is_empty() => "all pods".to_owned(),
        Some(selector) => format!("pods with {selector}"),
        None => workload_name(spread),
    };
    let title = format!("{name}, namespace {}", spread.namespace);
    let mut pods = many(spread.pod_count, "pod");
    if spread.pending_count > 0 {
        pods.push_str(&format!(
            ", {} of them pending",
            counted(spread.pending_count)
        ));
    }
    let mut text = format!("{}: {pods}\n", styled(HEADING, &title));
    if !spread.fault.is_empty() {
        let fault = format!("not judged: {}", spread.fault);
        text.push_str(&format!("  {}\n", styled(BAD, &fault)));
    }
    if spread.topologies.is_empty() && spread.fault.is_empty() {
        text.push_str("  no constraint is in force\n");
    }
    for topology in &spread.topologies {
        text.push_str(&format!("  over {}\n", over(topology)));
        text.push_str(&facts(topology));
        text.push_str(&domains(topology));
    }
    text
}

fn facts(topology: &TopologySpread) -> String {
    let mut text = String::new();
    if let Some(constraint) = &topology.constraint {
        let counts = match constraint.label_selector.as_ref().map(selector_text) {
            Some(selector) if !selector.is_empty() => format!("pods with {selector}"),
            _ => "no pods".to_owned(),
        };
        text.push_str(&format!("    counts   {counts}\n"));
    }
    let minimum = match topology.min_domains_unmet {
        true => ", as there are fewer domains than minDomains",
        false => "",
    };
    text.push_str(&format!(
        "    skew     {}\n    minimum  {}{minimum}\n",
        skew(topology),
        counted(topology.global_minimum)
    ));
    if topology.outside_pods > 0 {
        text.push_str(&format!(
            "    outside  {} of its pods, on nodes in no domain\n",
            counted(topology.outside_pods)
        ));
    }
    text
}

/// A bar for each domain, with the most that it may have.
fn domains(topology: &TopologySpread) -> String {
    if topology.domains.is_empty() {
        return "    no node is eligible, so there is no domain\n".to_owned();
    }
    let max_skew = topology.constraint.as_ref().map(|c| i64::from(c.max_skew));
    let limit = max_skew.map(|max| topology.global_minimum.saturating_add(max));
    let bar = |domain: &DomainSpread| Bar {
        count: domain.matching_pods,
        added: 0,
        limit,
    };
    let bars: Vec<Bar> = topology.domains.iter().map(bar).collect();
    let scale = Scale::of(&bars);
    let rows = topology.domains.iter().zip(&bars).map(|(domain, bar)| {
        let within = max_skew.is_none_or(|max| domain.skew <= max);
        let style = if within { GOOD } else { BAD };
        [
            value(domain).to_owned(),
            counted(domain.matching_pods),
            domain.skew.to_string(),
            counted(domain.eligible_nodes),
            scale.draw(bar, style),
        ]
    });
    let headings = ["DOMAIN", "PODS", "SKEW", "NODES", "SPREAD"];
    let more = topology.domain_count as usize - topology.domains.len();
    table("    ", headings, rows) + &and_more("    ", more, "domains", "--max-domains 0 lists them")
}
