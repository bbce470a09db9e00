//! Fits lines to the width of the output.
//!
//! Output to a terminal is wrapped to its width. Other output is not wrapped, because programs read
//! it line by line.

use std::sync::OnceLock;

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// The most columns of a paragraph, because longer lines are hard to read.
const LONGEST_LINE: usize = 100;

/// The columns of a sentence below which names are broken before it gets narrower.
const SENTENCE: usize = 24;

/// The fewest columns of a name that is broken.
const NARROWEST: usize = 8;

/// A blank at which no line ends.
pub(super) const NO_BREAK: &str = "\u{a0}";

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

/// Wraps a message to standard error: to COLUMNS, else to the terminal.
pub(crate) fn fit_message(text: &str) -> String {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stderr());
    let columns = said.or_else(|| terminal().map(|(width, _)| usize::from(width.0)));
    match columns {
        Some(columns) if columns > 0 => hanging(text, columns),
        _ => format!("{text}\n"),
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

/// Wraps the cells of rows so that each row fits into `columns`, in as many lines as it needs.
/// Nothing is cut. Names are broken only if wrapped sentences are not enough, and bars never.
pub(super) fn fitted<const N: usize>(rows: Vec<[String; N]>, columns: usize) -> Vec<[String; N]> {
    let mut floors = [Floors::default(); N];
    for row in &rows {
        for (cell, floors) in row.iter().zip(&mut floors) {
            floors.widen(cell);
        }
    }
    let widths = floors.map(|it| it.whole);
    let most = columns.saturating_sub(GAP * N.saturating_sub(1));
    let readable = shrunk(widths, floors.map(|it| it.readable), most);
    let words = shrunk(readable, floors.map(|it| it.words), most);
    let widths = match words.iter().sum::<usize>() <= most {
        true => words,
        false => {
            let pieces = shrunk(readable, floors.map(|it| it.pieces), most);
            shrunk(pieces, floors.map(|it| it.least), most)
        }
    };
    rows.into_iter()
        .flat_map(|row| in_lines(row, widths))
        .collect()
}

/// Takes columns from the widest until the sum is at most `most`, or all are as narrow as `floors`.
fn shrunk<const N: usize>(mut widths: [usize; N], floors: [usize; N], most: usize) -> [usize; N] {
    while widths.iter().sum::<usize>() > most {
        let wider = (0..N).filter(|column| widths[*column] > floors[*column]);
        let Some(widest) = wider.max_by_key(|column| widths[*column]) else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

/// The widths of a column in which its cells are more and more broken.
#[derive(Debug, Clone, Copy, Default)]
struct Floors {
    /// Nothing is wrapped.
    whole: usize,
    /// Sentences are wrapped, and still easy to read.
    readable: usize,
    /// No word is broken.
    words: usize,
    /// Words are broken only behind punctuation.
    pieces: usize,
    /// Words are broken anywhere.
    least: usize,
}

impl Floors {
    /// Makes the column wide enough for a cell.
    fn widen(&mut self, cell: &str) {
        let whole = display_width(cell);
        let text = plain_text(cell);
        let longest = |ends: &[char]| {
            let parts = text.map(|text| text.split_inclusive(ends));
            let widths = parts.map(|parts| parts.map(|it| display_width(it.trim_end())).max());
            widths.map_or(whole, Option::unwrap_or_default)
        };
        let words = longest(&[' ']);
        let is_sentence = text.is_some_and(|text| text.contains(' '));
        let readable = if is_sentence {
            words.max(whole.min(SENTENCE))
        } else {
            whole
        };
        let least = if text.is_some() {
            whole.min(NARROWEST)
        } else {
            whole
        };
        let pieces = longest(&[' ', '-', '.', '/', ',', '=', ':']);
        for (floor, width) in [
            (&mut self.whole, whole),
            (&mut self.readable, readable),
            (&mut self.words, words),
            (&mut self.pieces, pieces.max(least)),
            (&mut self.least, least),
        ] {
            *floor = width.max(*floor);
        }
    }
}

/// `text` with blanks at which no line ends. [`super::text::table`] makes them usual blanks.
pub(super) fn unbroken(text: &str) -> String {
    text.replace(' ', NO_BREAK)
}

/// A row whose cells are wrapped to `widths`, as one row for each line.
fn in_lines<const N: usize>(row: [String; N], widths: [usize; N]) -> Vec<[String; N]> {
    let cells = row.into_iter().zip(widths);
    let mut cells: Vec<_> = cells
        .map(|(cell, width)| wrapped(cell, width).into_iter())
        .collect();
    let most = cells.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let line = |_| std::array::from_fn(|column| cells[column].next().unwrap_or_default());
    (0..most).map(line).collect()
}

/// Wraps a cell to `width`, at blanks, and within a word only where the word is too long.
fn wrapped(cell: String, width: usize) -> Vec<String> {
    let Some(text) = plain_text(&cell).filter(|_| display_width(&cell) > width) else {
        return vec![cell];
    };
    let (before, after) = cell.split_once(text).unwrap_or_default();
    let lines = textwrap::wrap(text, options(width));
    let pieces = lines.iter().flat_map(|line| broken(line, width));
    pieces
        .map(|line| format!("{before}{line}{after}"))
        .collect()
}

/// Breaks a word that is longer than `width`, behind punctuation where there is any.
fn broken(word: &str, width: usize) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), word);
    while display_width(rest) > width {
        let fitting: usize = within(rest.chars(), width).map(char::len_utf8).sum();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let fitting = fitting.max(first);
        let punctuation = rest[..fitting].rfind(['-', '.', '/', ',', '=', ':']);
        let end = punctuation.map_or(fitting, |at| at + 1);
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The text of a cell without its style. `None` if it has several styles, as bars have.
fn plain_text(cell: &str) -> Option<&str> {
    let pieces = pieces(cell);
    let mut texts = pieces
        .into_iter()
        .filter(|piece| !piece.starts_with('\u{1b}'));
    match (texts.next(), texts.next()) {
        (text, None) => Some(text.unwrap_or_default()),
        _ => None,
    }
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
    fn cells_are_wrapped_until_a_table_fits_and_nothing_is_cut() {
        let rows = |last: &str| {
            vec![
                ["NODE".to_owned(), "REASON".to_owned(), "END".to_owned()],
                [
                    "ip-10-0-0-1.internal".to_owned(),
                    "one two three".to_owned(),
                    last.to_owned(),
                ],
            ]
        };
        let cases = [
            (40, vec!["ip-10-0-0-1.internal|one two three|x"]),
            (34, vec!["ip-10-0-0-1.internal|one two|x", "|three|"]),
            (24, vec!["ip-10-0-|one two|x", "0-1.|three|", "internal||"]),
            (1, vec!["ip-10-0-|one two|x", "0-1.|three|", "internal||"]),
        ];
        for (columns, expected) in cases {
            let fitting = fitted(rows("x"), columns);
            let lines: Vec<String> = fitting[1..].iter().map(|row| row.join("|")).collect();
            assert_eq!(lines, expected, "{columns}");
        }
        let red = anstyle::AnsiColor::Red.on_default();
        assert_eq!(
            wrapped(format!("{red}one two{red:#}"), 5),
            [format!("{red}one{red:#}"), format!("{red}two{red:#}")]
        );
        assert_eq!(wrapped("界界界".to_owned(), 5), ["界界", "界"]);
        let bar = format!("{red}##{red:#}|{red}####{red:#}");
        assert_eq!(wrapped(bar.clone(), 3), [bar]);
    }
}
