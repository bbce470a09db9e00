//! Fits lines to the width of the output.
//!
//! Output to a terminal is wrapped to its width. Other output is not wrapped, because programs read
//! it line by line.

use std::sync::OnceLock;

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// The most columns of a paragraph, because longer lines are hard to read.
const LONGEST_LINE: usize = 100;

/// The fewest columns that remain of shortened text.
const NARROWEST: usize = 8;

/// The number of blanks between two columns of a table.
pub(super) const GAP: usize = 2;

static COLUMNS: OnceLock<usize> = OnceLock::new();

/// Looks up the width of standard output before anything is written: that of COLUMNS, else that of
/// the terminal.
pub(crate) fn look_up_width() {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stdout());
    let columns = said.or_else(|| terminal().map(|(width, _)| usize::from(width.0)));
    if let Some(columns) = columns.filter(|columns| *columns > 0) {
        // The width stays if it was set before.
        let _ = COLUMNS.set(columns);
    }
}

/// The columns of the output; `None` if lines are not wrapped.
pub(super) fn columns() -> Option<usize> {
    COLUMNS.get().copied()
}

/// Wraps the lines of a text to the output. A label ends at two blanks; further lines of the text
/// after it are indented to the same column.
pub(crate) fn fit(text: &str) -> String {
    match columns() {
        Some(columns) => hanging(text, columns),
        None => text.to_owned(),
    }
}

fn hanging(text: &str, columns: usize) -> String {
    let mut fitting = String::with_capacity(text.len());
    for line in text.lines() {
        if display_width(line) <= columns {
            fitting.push_str(line);
            fitting.push('\n');
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let label = line[indent..].find("  ").map(|at| at + indent);
        let value = label.map(|at| line.len() - line[at..].trim_start().len());
        let value = value.filter(|value| *value < columns / 2);
        let below = " ".repeat(value.unwrap_or(indent + 2));
        let options = options(columns).subsequent_indent(&below);
        for line in textwrap::wrap(line, options) {
            fitting.push_str(&line);
            fitting.push('\n');
        }
    }
    fitting
}

/// Wraps `text` to the output, with `indent` before each line.
pub(super) fn paragraph(text: &str, indent: &str, style: impl Fn(&str) -> String) -> String {
    let width = columns().map_or(usize::MAX, |columns| columns.min(LONGEST_LINE));
    let lines = textwrap::wrap(text, options(width.saturating_sub(indent.len())));
    let lines = lines
        .iter()
        .map(|line| format!("{indent}{}\n", style(line)));
    lines.collect()
}

/// Options that break lines only at blanks, so that names and keys can be copied. A longer word
/// gets a line of its own.
fn options<'o>(width: usize) -> Options<'o> {
    Options::new(width)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
}

/// Shortens the cells of rows so that each row fits into `columns`. The widest columns are
/// shortened first, but none below a minimum.
pub(super) fn fitted<const N: usize>(
    mut rows: Vec<[String; N]>,
    columns: usize,
) -> Vec<[String; N]> {
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = display_width(cell).max(*width);
        }
    }
    let headings = rows.first().into_iter().flatten();
    let least: Vec<usize> = headings
        .map(|heading| display_width(heading).max(NARROWEST))
        .collect();
    while widths.iter().sum::<usize>() + GAP * N.saturating_sub(1) > columns {
        let wider = (0..N).filter(|column| widths[*column] > least[*column]);
        let Some(widest) = wider.max_by_key(|column| widths[*column]) else {
            break;
        };
        widths[widest] -= 1;
    }
    for row in &mut rows {
        for (cell, width) in row.iter_mut().zip(widths) {
            if display_width(cell) > width {
                *cell = shortened(cell, width);
            }
        }
    }
    rows
}

/// Shortens a cell to `width` columns. A name loses its middle. A sentence, and a cell with several
/// styles, lose their end.
fn shortened(cell: &str, width: usize) -> String {
    let left = width.saturating_sub(1);
    let parts = pieces(cell);
    let is_text = |part: &&&str| !part.starts_with('\u{1b}');
    let is_name = parts.iter().filter(is_text).count() == 1 && !cell.contains(' ');
    let behind = if is_name { left / 2 } else { 0 };
    let mut room = left - behind;
    let mut short = String::new();
    for part in parts {
        if part.starts_with('\u{1b}') {
            short.push_str(part);
            continue;
        }
        let head: String = within(part.chars(), room).collect();
        if head.len() == part.len() {
            room -= display_width(part);
            short.push_str(part);
            continue;
        }
        let mut tail: Vec<char> = within(part.chars().rev(), behind).collect();
        tail.reverse();
        if room > 0 || behind > 0 {
            short.push_str(head.trim_end());
            short.push('…');
            short.extend(tail);
        }
        room = 0;
    }
    short
}

/// Splits a cell into texts and the escape sequences that change the style.
fn pieces(cell: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = cell;
    while !rest.is_empty() {
        let end = match rest.starts_with('\u{1b}') {
            true => rest.find('m').map_or(rest.len(), |at| at + 1),
            false => rest.find('\u{1b}').unwrap_or(rest.len()),
        };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The first characters that fit into `width` columns.
fn within(chars: impl Iterator<Item = char>, width: usize) -> impl Iterator<Item = char> {
    let mut used = 0;
    chars.take_while(move |char| {
        used += display_width(char.encode_utf8(&mut [0; 4]));
        used <= width
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_label_hangs_below_it() {
        let cases = [
            ("short", "short\n"),
            (
                "  limit  one two three four",
                "  limit  one two\n         three four\n",
            ),
            (
                "  one two three four five",
                "  one two three four\n    five\n",
            ),
            (
                "https://a-name-without-blanks",
                "https://a-name-without-blanks\n",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(hanging(line, 20), expected);
        }
    }

    #[test]
    fn the_widest_columns_are_shortened_until_a_table_fits() {
        let rows = || {
            vec![
                ["NODE".to_owned(), "REASON".to_owned(), "END".to_owned()],
                [
                    "ip-10-0-0-1.internal".to_owned(),
                    "one two three".to_owned(),
                    "x".to_owned(),
                ],
            ]
        };
        let cases = [
            (40, "ip-10-0-0-1.internal|one two three|x"),
            (34, "ip-10-0…ternal|one two three|x"),
            (28, "ip-10…ernal|one two t…|x"),
            (1, "ip-1…nal|one two…|x"),
        ];
        for (columns, expected) in cases {
            let fitting = fitted(rows(), columns);
            assert_eq!(fitting[1].join("|"), expected, "{columns}");
        }
        let red = anstyle::AnsiColor::Red.on_default();
        let cell = shortened(&format!("{red}one two{red:#}"), 5);
        assert_eq!(cell, format!("{red}one…{red:#}"));
        assert_eq!(shortened("界界界界", 5), "界…界");
        let bar = |above: &str| format!("{red}##{red:#}|{red}{above}{red:#}");
        assert_eq!(shortened(&bar("####"), 6), bar("##…"));
    }
}
