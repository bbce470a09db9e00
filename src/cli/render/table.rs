//! Aligned columns.

use std::io::Write;

use tabwriter::TabWriter;

use super::layout;
use super::style::{HEADING, styled};

/// Rows under headings, aligned, as wide as the output. Each line starts with
/// `indent`.
pub(super) fn table<const N: usize>(
    indent: &str,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = headings.map(|heading| styled(HEADING, heading));
    let rows: Vec<[String; N]> = std::iter::once(headings).chain(rows).collect();
    let rows = match layout::columns() {
        Some(columns) => layout::fitted(rows, columns.saturating_sub(indent.len())),
        None => rows,
    };
    let mut aligned = TabWriter::new(Vec::new()).padding(layout::GAP).ansi(true);
    for row in rows {
        writeln!(aligned, "{indent}{}", row.join("\t")).expect("a buffer takes everything");
    }
    let bytes = aligned.into_inner().expect("a buffer takes everything");
    let text = String::from_utf8(bytes).expect("only UTF-8 was written");
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
