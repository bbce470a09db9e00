//! Figures as Markdown tables: all figures, and those that have a target.

use std::fmt::Write;

use super::cases::{Constraints, Reach};
use super::numbers::{count, digits, time};

/// The target of the domain view, in nanoseconds.
const MAX_DOMAINS_NS: f64 = 1_000.0;
/// Below this number of nodes a figure per node is mostly a cost that does not depend on nodes.
const LARGE_NODES: usize = 1_000;

/// The measured part of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Filter, counts per domain.
    FilterDomains,
    /// The same for a new selector.
    FilterCold,
    /// Filter, a bit per node.
    FilterBitmap,
    /// Score, a number per node.
    ScorePacked,
    /// Score, the ten best nodes.
    ScoreTop,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::FilterDomains => "Filter, domains",
            Self::FilterCold => "Filter, domains, cold",
            Self::FilterBitmap => "Filter, bitmap",
            Self::ScorePacked => "Score, packed",
            Self::ScoreTop => "Score, top 10",
        }
    }
}

/// The size of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Zones.
    pub zones: usize,
}

/// One figure and its yardsticks, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The cluster.
    pub size: Size,
    /// The pod's constraints.
    pub constraints: Constraints,
    /// The nodes on which the pod may run.
    pub reach: Reach,
    /// The measured part of the decision.
    pub measure: Measure,
    /// The time from a compiled question.
    pub ns: f64,
    /// The time from request bytes to answer bytes.
    pub wire_ns: Option<f64>,
    /// The time of a recount, as the plugin makes it.
    pub recount_ns: f64,
    /// The time of one pass over packed pods.
    pub scan_ns: f64,
}

/// The cost of changes on one cluster, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRow {
    /// The cluster.
    pub size: Size,
    /// The time for one pod in a batch of its own, three views live.
    pub pod_alone_ns: f64,
    /// The time for one pod of a batch.
    pub pod_batched_ns: f64,
    /// Pods in that batch.
    pub batch_pods: usize,
    /// The time for one pod in a batch of its own while the revision before is held.
    pub pod_held_ns: f64,
    /// The time for one node's zone, with 100 eligibility sets and 1,000 views live.
    pub relabel_ns: f64,
}

/// Figures that can be measured again, when the machine has less other work.
pub trait Figures {
    /// Returns whether both measure the same.
    fn is_of(&self, other: &Self) -> bool;

    /// Keeps the lower of each figure.
    fn lower(&mut self, other: &Self);
}

impl Figures for Row {
    fn is_of(&self, other: &Self) -> bool {
        let what = |row: &Self| (row.size, row.constraints, row.reach, row.measure);
        what(self) == what(other)
    }

    fn lower(&mut self, other: &Self) {
        self.ns = self.ns.min(other.ns);
        let both = self.wire_ns.zip(other.wire_ns);
        self.wire_ns = both.map(|(this, other)| this.min(other));
        self.recount_ns = self.recount_ns.min(other.recount_ns);
        self.scan_ns = self.scan_ns.min(other.scan_ns);
    }
}

impl Figures for ChangeRow {
    fn is_of(&self, other: &Self) -> bool {
        self.size == other.size
    }

    fn lower(&mut self, other: &Self) {
        self.pod_alone_ns = self.pod_alone_ns.min(other.pod_alone_ns);
        self.pod_batched_ns = self.pod_batched_ns.min(other.pod_batched_ns);
        self.pod_held_ns = self.pod_held_ns.min(other.pod_held_ns);
        self.relabel_ns = self.relabel_ns.min(other.relabel_ns);
    }
}

/// Adds a row, or lowers the one that measures the same.
pub fn keep<F: Figures>(rows: &mut Vec<F>, row: F) {
    match rows.iter_mut().find(|known| known.is_of(&row)) {
        Some(known) => known.lower(&row),
        None => rows.push(row),
    }
}

/// All decisions as one table.
pub fn decisions<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut out = String::from(
        "| nodes | pods | zones | constraints | pod may run on | answer | from question | from \
         wire | plain recount | scan | × recount | × scan |\n\
         |--:|--:|--:|---|---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let wire = row.wire_ns.map_or_else(String::new, time);
        line(
            &mut out,
            &[
                count(row.size.nodes),
                count(row.size.pods),
                row.size.zones.to_string(),
                row.constraints.name.to_owned(),
                row.reach.name().to_owned(),
                row.measure.name().to_owned(),
                time(row.ns),
                wire,
                time(row.recount_ns),
                time(row.scan_ns),
                ratio(row.recount_ns / row.ns),
                ratio(row.scan_ns / row.ns),
            ],
        );
    }
    out
}

/// All changes as one table.
pub fn changes<'a>(rows: impl Iterator<Item = &'a ChangeRow>) -> String {
    let mut out = String::from(
        "| nodes | pods | zones | pod change, 3 views: alone | in a batch | pods in it | alone, the \
         revision before held | node relabel, 100 sets, 1,000 views |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        line(
            &mut out,
            &[
                count(row.size.nodes),
                count(row.size.pods),
                row.size.zones.to_string(),
                time(row.pod_alone_ns),
                time(row.pod_batched_ns),
                count(row.batch_pods),
                time(row.pod_held_ns),
                time(row.relabel_ns),
            ],
        );
    }
    out
}

/// The figures that have a target, each the worst of its kind.
pub fn targets(rows: &[Row], change_rows: &[ChangeRow]) -> String {
    let mut targets = Targets::default();
    let plain = |measure, name: &'static str| {
        let all = rows.iter().filter(move |row| {
            row.measure == measure && row.constraints.name == name && row.reach == Reach::AllNodes
        });
        all.copied().collect::<Vec<Row>>()
    };
    targets.of_domains(&plain(Measure::FilterDomains, "zone hard"));
    targets.of_nodes(
        &plain(Measure::FilterBitmap, "zone + hostname hard"),
        &plain(Measure::ScorePacked, "zone + hostname soft"),
        &plain(Measure::ScoreTop, "zone + hostname soft"),
    );
    let cold = plain(Measure::FilterCold, "zone hard");
    let share = cold.iter().filter(at_5000).map(|row| row.ns / row.scan_ns);
    targets.at_most("cold view over scan, 5,000 nodes", 1.0 / 3.0, share, ratio);
    targets.of_changes(change_rows);
    targets.0
}

fn at_5000(row: &&Row) -> bool {
    row.size.nodes == 5_000
}

struct Targets(String);

impl Default for Targets {
    fn default() -> Self {
        Self("| target | limit | best | worst | met |\n|---|--:|--:|--:|---|\n".to_owned())
    }
}

impl Targets {
    /// Writes the cost of a Filter that counts per domain.
    fn of_domains(&mut self, domains: &[Row]) {
        let few = || domains.iter().filter(|row| row.size.zones <= 10);
        self.at_most(
            "warm Filter, domains, up to 10 zones",
            MAX_DOMAINS_NS,
            few().map(|row| row.ns),
            time,
        );
        let at = |zones, nodes| few().find(|r| (r.size.zones, r.size.nodes) == (zones, nodes));
        let growth = [3, 10]
            .into_iter()
            .filter_map(|zones| Some(at(zones, 100_000)?.ns / at(zones, 100)?.ns));
        self.at_most("the same, 3,000,000 pods over 3,000", 1.2, growth, ratio);
        let over = |row: &Row| row.recount_ns / row.ns;
        self.at_least(
            "plain recount over it, 5,000 nodes",
            5_000.0,
            few().filter(at_5000).map(over),
        );
        let over = |row: &Row| row.scan_ns / row.ns;
        self.at_least(
            "scan over it, 5,000 nodes",
            100.0,
            few().filter(at_5000).map(over),
        );
    }

    /// Writes the cost of answers that say something of every node.
    fn of_nodes(&mut self, bitmaps: &[Row], packed: &[Row], top: &[Row]) {
        let large = |row: &&Row| row.size.nodes >= LARGE_NODES;
        let above = bitmaps.iter().filter(large).map(|row| {
            let above = row.ns - MAX_DOMAINS_NS;
            above.max(0.0) / row.size.nodes as f64
        });
        let name = "warm Filter, bitmap, zone + hostname, per node above 1 µs";
        self.at_most(name, 1.5, above, time);
        let per_node = packed.iter().filter(large);
        let per_node = per_node.map(|row| row.ns / row.size.nodes as f64);
        let name = "warm Score, packed, zone + hostname, per node from 1,000 nodes";
        self.at_most(name, 5.0, per_node, time);
        let share = top
            .iter()
            .zip(packed)
            .map(|(top, packed)| top.ns / packed.ns);
        self.at_most("top 10 over packed", 1.0, share, ratio);
    }

    /// Writes the cost of changes.
    fn of_changes(&mut self, change_rows: &[ChangeRow]) {
        let alone = change_rows.iter().map(|row| row.pod_alone_ns);
        self.at_most(
            "pod change, 3 views, a batch of its own",
            1_000.0,
            alone,
            time,
        );
        let batched = change_rows.iter().map(|row| row.pod_batched_ns);
        self.at_most("pod change, 3 views, in a batch", 1_000.0, batched, time);
        let relabel = change_rows.iter().map(|row| row.relabel_ns);
        self.at_most("node relabel, 100 sets, 1,000 views", 1e6, relabel, time);
    }

    fn at_most(
        &mut self,
        what: &str,
        limit: f64,
        values: impl Iterator<Item = f64>,
        text: fn(f64) -> String,
    ) {
        self.add(
            what,
            format!("≤ {}", text(limit)),
            values,
            text,
            |(_, most)| most <= limit,
        );
    }

    fn at_least(&mut self, what: &str, limit: f64, values: impl Iterator<Item = f64>) {
        let limit_text = format!("≥ {}", ratio(limit));
        self.add(what, limit_text, values, ratio, |(least, _)| least >= limit);
    }

    fn add(
        &mut self,
        what: &str,
        limit: String,
        values: impl Iterator<Item = f64>,
        text: fn(f64) -> String,
        met: impl Fn((f64, f64)) -> bool,
    ) {
        let span = values.fold(None, |span, value| {
            let (least, most) = span.unwrap_or((value, value));
            Some((f64::min(least, value), f64::max(most, value)))
        });
        let Some((least, most)) = span else { return };
        let (best, worst) = if limit.starts_with('≤') {
            (least, most)
        } else {
            (most, least)
        };
        let met = if met((least, most)) { "yes" } else { "no" };
        line(
            &mut self.0,
            &[
                what.to_owned(),
                limit,
                text(best),
                text(worst),
                met.to_owned(),
            ],
        );
    }
}

fn line(out: &mut String, cells: &[String]) {
    writeln!(out, "| {} |", cells.join(" | ")).expect("a string takes everything");
}

/// E.g. `4.21`, `17,300`.
fn ratio(ratio: f64) -> String {
    if ratio < 1_000.0 {
        digits(ratio)
    } else {
        count(ratio.round() as usize)
    }
}
