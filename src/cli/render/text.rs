//! Colours, tables and lines that several answers share.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use tabwriter::TabWriter;

use super::layout::{GAP, NO_BREAK, columns, fitted, paragraph};
pub(super) use crate::explain::{number, plural};
use crate::proto::v1::DefaultsKind;
use crate::visible;

/// The number of nodes that a table lists, unless all are requested.
const LISTED_NODES: usize = 50;

/// The style of headings of columns and sections.
pub(super) const HEADING: Style = Style::new().bold();
/// The style of a check that admits the pod.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of an answer that admits the pod, although not everything was checked.
pub(super) const UNSURE: Style = AnsiColor::Yellow.on_default();
/// The style of a check that keeps the pod out.
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// The lines above an answer.
pub(crate) struct Head<'a> {
    /// Kind and name of the pod or workload.
    pub(crate) pod: &'a str,
    /// The subject, e.g. `snapshot "default"`.
    pub(crate) snapshot: &'a str,
    /// True if all nodes are listed.
    pub(crate) all: bool,
    /// True if the pod was taken out of the snapshot for the answer.
    pub(crate) taken_out: bool,
    /// The number of pods of the workload that name no controller and were found by a selector.
    pub(crate) selected: i64,
}

/// The origin of an answer, which pages show.
pub(crate) struct Provenance<'a> {
    /// Name of the snapshot.
    pub(crate) snapshot: &'a str,
    /// The address of the server, or the files.
    pub(crate) asked: String,
    /// The time of the question, in RFC 3339.
    pub(crate) at: String,
}

/// The message about a pod that was taken out of the snapshot for the answer.
pub(crate) const TAKEN_OUT: &str = "the pod is in the snapshot: it was taken out first";

/// A line with the number of pods that name no controller, if there are any.
pub(crate) fn found_by_selector(pods: i64) -> Option<String> {
    let said = || {
        format!(
            "found by a selector, as they name no controller: {}",
            plural(pods, "pod")
        )
    };
    (pods > 0).then(said)
}

impl Head<'_> {
    /// The first lines of an answer.
    pub(super) fn lines(&self, revision: i64, defaults: DefaultsKind) -> String {
        let lines = self.remarks().map(|line| format!("{line}\n"));
        format!(
            "{}\n{}{}",
            visible::text(self.pod),
            source_line(self.snapshot, revision, defaults),
            lines.collect::<String>()
        )
    }

    /// What is said of the pods that the answer is about, a line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        let taken_out = self.taken_out.then(|| TAKEN_OUT.to_owned());
        taken_out
            .into_iter()
            .chain(found_by_selector(self.selected))
    }

    /// A table of `count` nodes, which is cut unless all are requested; `how` says how to see the
    /// others.
    pub(super) fn nodes<const N: usize>(
        &self,
        headings: [&str; N],
        count: usize,
        rows: impl Iterator<Item = [String; N]>,
        how: &str,
    ) -> String {
        if count == 0 {
            return String::new();
        }
        let listed = self.listed(count);
        let rest = and_more("", count - listed, "nodes", how);
        format!("\n{}{rest}", table("", headings, rows.take(listed)))
    }

    /// Returns the number of nodes to list, out of `count`.
    pub(super) fn listed(&self, count: usize) -> usize {
        if self.all {
            count
        } else {
            count.min(LISTED_NODES)
        }
    }
}

/// Returns a line with the subject of an answer, its revision and the kind of default constraints.
pub(super) fn source_line(snapshot: &str, revision: i64, defaults: DefaultsKind) -> String {
    let snapshot = visible::text(snapshot);
    format!(
        "{snapshot}, revision {revision}, {}\n",
        defaults_text(defaults)
    )
}

/// The kind of default constraints, in words.
pub(super) fn defaults_text(defaults: DefaultsKind) -> &'static str {
    match defaults {
        DefaultsKind::Unspecified => "default constraints: none",
        DefaultsKind::System => "default constraints: system",
        DefaultsKind::List => "default constraints: a list",
    }
}

/// The line for omitted rows, e.g. `... and 4,950 more nodes`, after `indent`.
pub(super) fn and_more(indent: &str, count: usize, what: &str, how: &str) -> String {
    match count {
        0 => String::new(),
        _ => format!("{indent}... and {} more {what} ({how})\n", number(count)),
    }
}

/// A line that names the fields of a pod that were not checked, if there are any.
pub(super) fn not_checked(fields: &[String]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let fields = fields.join(", ");
    paragraph(&format!("not checked: {fields}"), "", str::to_owned)
}

/// The style of the first line: of a good or bad verdict, or of a good one without all checks.
pub(super) fn headline_style(is_well: bool, unchecked: &[String]) -> Style {
    match (is_well, unchecked) {
        (false, _) => BAD.bold(),
        (true, []) => GOOD.bold(),
        (true, _) => UNSURE.bold(),
    }
}

/// `text` in `style`. An empty text stays empty.
pub(super) fn styled(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{style}{text}{style:#}")
}

/// Rows under headings, aligned and wrapped to the width of the output. Each line starts with
/// `indent`.
pub(super) fn table<const N: usize>(
    indent: &str,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = headings.map(|heading| styled(HEADING, heading));
    let rows: Vec<[String; N]> = std::iter::once(headings).chain(rows).collect();
    let rows = match columns() {
        Some(columns) => fitted(rows, columns.saturating_sub(indent.len())),
        None => rows,
    };
    let mut aligned = TabWriter::new(Vec::new()).padding(GAP).ansi(true);
    for row in rows {
        writeln!(aligned, "{indent}{}", row.join("\t")).expect("a buffer takes everything");
    }
    let bytes = aligned.into_inner().expect("a buffer takes everything");
    let text = String::from_utf8(bytes).expect("only UTF-8 was written");
    let text = text.replace(NO_BREAK, " ");
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
