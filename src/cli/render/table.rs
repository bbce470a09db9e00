//! Aligned columns.

use std::io::Write;

use tabwriter::TabWriter;

use super::style::{HEADING, styled};

/// Rows under headings, aligned. Each line starts with `indent`.
pub(super) fn table<const N: usize>(
    indent: &str,
    headings: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let headings = headings.map(|heading| styled(HEADING, heading));
    let mut aligned = TabWriter::new(Vec::new()).ansi(true);
    for row in std::iter::once(headings).chain(rows) {
        writeln!(aligned, "{indent}{}", row.join("\t")).expect("a buffer takes everything");
    }
    let bytes = aligned.into_inner().expect("a buffer takes everything");
    let text = String::from_utf8(bytes).expect("only UTF-8 was written");
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
