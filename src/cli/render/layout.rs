//! How wide the output is.
//!
//! What goes to a terminal follows its width. What goes elsewhere is not wrapped:
//! programs read it line by line.

use std::sync::OnceLock;

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// Columns of a paragraph, at most: longer lines are hard to read.
const LONGEST_LINE: usize = 100;

/// Blanks between two columns of a table.
pub(super) const GAP: usize = 2;

static COLUMNS: OnceLock<usize> = OnceLock::new();

/// Looks up how wide standard output is, once, before anything is written: what
/// COLUMNS says, else the width of the terminal.
pub(crate) fn look_up_width() {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stdout());
    let columns = said.or_else(|| terminal().map(|(width, _)| usize::from(width.0)));
    if let Some(columns) = columns.filter(|columns| *columns > 0) {
        // Nobody looks twice.
        let _ = COLUMNS.set(columns);
    }
}

/// Columns of the output; `None` where nothing is wrapped.
pub(super) fn columns() -> Option<usize> {
    COLUMNS.get().copied()
}

/// Text whose lines fit the output. What follows a label hangs below it: columns of
/// a line begin after two blanks.
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

/// `text` in lines that fit, each after `indent`.
pub(super) fn paragraph(text: &str, indent: &str, style: impl Fn(&str) -> String) -> String {
    let width = columns().map_or(usize::MAX, |columns| columns.min(LONGEST_LINE));
    let lines = wrapped(text, width.saturating_sub(indent.len()));
    let lines = lines
        .iter()
        .map(|line| format!("{indent}{}\n", style(line)));
    lines.collect()
}

/// `text` in lines of at most `width` columns. A longer word has a line of its
/// own.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let lines = textwrap::wrap(text, options(width)).into_iter();
    lines.map(std::borrow::Cow::into_owned).collect()
}

/// Breaks lines at blanks only: names and keys are to be copied whole.
fn options<'o>(width: usize) -> Options<'o> {
    Options::new(width)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
}

/// Rows of which the widest has at most `columns`, if words are short enough:
/// cells of the widest column continue in rows of their own.
pub(super) fn fitted<const N: usize>(rows: Vec<[String; N]>, columns: usize) -> Vec<[String; N]> {
    let (mut widths, mut least) = ([0; N], [0; N]);
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(display_width(cell));
            let words = cell.split(' ').map(display_width);
            least[column] = least[column].max(words.max().unwrap_or(0));
        }
    }
    loop {
        let total = widths.iter().sum::<usize>() + GAP * N.saturating_sub(1);
        let over = total.saturating_sub(columns);
        let narrower = (0..N).filter(|column| widths[*column] > least[*column]);
        let Some(widest) = narrower
            .max_by_key(|column| widths[*column])
            .filter(|_| over > 0)
        else {
            break;
        };
        widths[widest] = least[widest].max(widths[widest].saturating_sub(over));
    }
    rows.iter().flat_map(|row| rows_of(row, &widths)).collect()
}

/// A row as one or more, so that each cell is as narrow as its column.
fn rows_of<const N: usize>(row: &[String; N], widths: &[usize; N]) -> Vec<[String; N]> {
    let cells: Vec<Vec<String>> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| cell_lines(cell, *width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |at: usize| std::array::from_fn(|n| cells[n].get(at).cloned().unwrap_or_default());
    (0..height).map(line).collect()
}

/// A cell in lines. A style that spans it begins and ends on each.
fn cell_lines(cell: &str, width: usize) -> Vec<String> {
    if display_width(cell) <= width {
        return vec![cell.to_owned()];
    }
    let mut text = cell;
    while text.starts_with('\u{1b}') {
        text = text.split_once('m').map_or("", |(_, rest)| rest);
    }
    let style = &cell[..cell.len() - text.len()];
    let plain = text.split('\u{1b}').next().unwrap_or(text);
    let end = &text[plain.len()..];
    let lines = wrapped(plain, width).into_iter();
    lines.map(|line| format!("{style}{line}{end}")).collect()
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
    fn the_widest_column_is_wrapped_until_a_table_fits() {
        let rows = || {
            vec![
                ["NODE".to_owned(), "REASON".to_owned(), "END".to_owned()],
                ["a".to_owned(), "one two three".to_owned(), "x y".to_owned()],
            ]
        };
        let joined = |rows: Vec<[String; 3]>| -> Vec<String> {
            rows.iter().map(|row| row.join("|")).collect()
        };
        let cases = [
            (40, vec!["NODE|REASON|END", "a|one two three|x y"]),
            (20, vec!["NODE|REASON|END", "a|one two|x y", "|three|"]),
            (1, vec!["NODE|REASON|END", "a|one|x y", "|two|", "|three|"]),
        ];
        for (columns, expected) in cases {
            assert_eq!(joined(fitted(rows(), columns)), expected, "{columns}");
        }
        let red = anstyle::AnsiColor::Red.on_default();
        let lines = cell_lines(&format!("{red}one two{red:#}"), 3);
        assert_eq!(
            lines,
            [format!("{red}one{red:#}"), format!("{red}two{red:#}")]
        );
    }
}
