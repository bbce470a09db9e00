//! Fits lines and tables to the width of the output.
//!
//! Output to a terminal is wrapped to its width. Other output is not wrapped, because programs read
//! it line by line.

use std::sync::OnceLock;

use anstyle::Style;
use terminal_size::{Width, terminal_size_of};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

use super::look::styled;

/// The most columns of a paragraph, because longer lines are hard to read.
const LONGEST_LINE: usize = 100;
/// The columns of a sentence below which names are broken before it gets narrower.
const SENTENCE: usize = 24;
/// The fewest columns of a name that is broken.
const NARROWEST: usize = 8;
/// The number of blanks between two columns of a table.
pub(super) const GAP: usize = 2;
/// The characters behind which names are broken.
const BREAKS: [char; 6] = ['-', '.', '/', ',', '=', ':'];

static COLUMNS: OnceLock<usize> = OnceLock::new();

/// Looks up the width of standard output before anything is written.
pub(crate) fn look_up_width() {
    if let Some(columns) = width(terminal_size_of(std::io::stdout()).map(|(width, _)| width)) {
        // The width stays if it was set before.
        let _ = COLUMNS.set(columns);
    }
}

/// The width of an output: that of COLUMNS, else that of its terminal.
fn width(terminal: Option<Width>) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok());
    let columns = said.or(terminal.map(|width| usize::from(width.0)));
    columns.filter(|columns| *columns > 0)
}

/// Wraps a message to standard error.
pub(crate) fn fit_message(text: &str) -> String {
    match width(terminal_size_of(std::io::stderr()).map(|(width, _)| width)) {
        Some(columns) => hanging(text, columns),
        None => format!("{text}\n"),
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
pub(super) fn paragraph(text: &str, indent: &str, style: Style) -> String {
    let width = columns().map_or(usize::MAX, |columns| columns.min(LONGEST_LINE));
    let lines = textwrap::wrap(text, options(width.saturating_sub(indent.len())));
    let lines = lines
        .iter()
        .map(|line| format!("{indent}{}\n", styled(style, line)));
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

/// A cell of a table, as it is drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct DrawnCell {
    pub(super) text: String,
    pub(super) style: Style,
    /// True if the text stays on one line.
    pub(super) is_whole: bool,
}

/// Aligns rows in lines. Wraps the cells so that each line fits into `columns`. Nothing is cut. Names
/// are broken only if wrapped sentences are not enough, and bars never.
pub(super) fn aligned(rows: &[Vec<DrawnCell>], columns: Option<usize>) -> Vec<String> {
    let most = columns.map_or(
        vec![usize::MAX; rows.first().map_or(0, Vec::len)],
        |columns| widths_within(rows, columns),
    );
    let wrapped = rows.iter().map(|row| {
        let cells = row.iter().zip(&most);
        cells.map(|(cell, width)| cell.lines(*width)).collect()
    });
    let wrapped: Vec<Vec<Vec<String>>> = wrapped.collect();
    let width = |column: usize| {
        let cells = wrapped.iter().filter_map(|row| row.get(column)).flatten();
        cells.map(|line| display_width(line)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..most.len()).map(width).collect();
    let mut lines = Vec::new();
    for (row, cells) in rows.iter().zip(&wrapped) {
        for number in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = String::new();
            for (column, (cell, texts)) in row.iter().zip(cells).enumerate() {
                let text = texts.get(number).map_or("", String::as_str);
                line.push_str(&styled(cell.style, text));
                line.push_str(&" ".repeat(widths[column] - display_width(text) + GAP));
            }
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

/// The widths of columns with which lines fit.
fn widths_within(rows: &[Vec<DrawnCell>], columns: usize) -> Vec<usize> {
    let count = rows.first().map_or(0, Vec::len);
    let mut floors = vec![Floors::default(); count];
    for row in rows {
        for (cell, floors) in row.iter().zip(&mut floors) {
            floors.widen(cell);
        }
    }
    let of = |width: fn(&Floors) -> usize| floors.iter().map(width).collect::<Vec<_>>();
    let most = columns.saturating_sub(GAP * count.saturating_sub(1));
    let readable = shrunk(of(|it| it.whole), &of(|it| it.readable), most);
    let words = shrunk(readable.clone(), &of(|it| it.words), most);
    match words.iter().sum::<usize>() <= most {
        true => words,
        false => {
            let pieces = shrunk(readable, &of(|it| it.pieces), most);
            shrunk(pieces, &of(|it| it.least), most)
        }
    }
}

/// Takes columns from the widest until the sum is at most `most`, or all are as narrow as `floors`.
fn shrunk(mut widths: Vec<usize>, floors: &[usize], most: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > most {
        let wider = (0..widths.len()).filter(|column| widths[*column] > floors[*column]);
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
    fn widen(&mut self, cell: &DrawnCell) {
        let whole = display_width(&cell.text);
        let longest = |ends: &[char]| {
            let parts = cell.text.split_inclusive(ends);
            parts.map(|it| display_width(it.trim_end())).max()
        };
        let words = longest(&[' ']).unwrap_or(0);
        let readable = match cell.text.contains(' ') {
            true => words.max(whole.min(SENTENCE)),
            false => whole,
        };
        let least = whole.min(NARROWEST);
        let pieces = longest(&[' ', '-', '.', '/', ',', '=', ':']).unwrap_or(0);
        for (floor, width) in [
            (&mut self.whole, whole),
            (&mut self.readable, readable),
            (&mut self.words, words),
            (&mut self.pieces, pieces.max(least)),
            (&mut self.least, least),
        ] {
            let width = if cell.is_whole { whole } else { width };
            *floor = width.max(*floor);
        }
    }
}

impl DrawnCell {
    /// Wraps the text to `width`, at blanks, and within a word only where the word is too long.
    fn lines(&self, width: usize) -> Vec<String> {
        if self.is_whole || display_width(&self.text) <= width {
            return vec![self.text.clone()];
        }
        let lines = textwrap::wrap(&self.text, options(width));
        lines.iter().flat_map(|line| broken(line, width)).collect()
    }
}

/// Breaks a word that is longer than `width`, behind punctuation where there is any.
fn broken(word: &str, width: usize) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), word);
    while display_width(rest) > width {
        let mut used = 0;
        let fitting = rest.chars().take_while(|char| {
            used += display_width(char.encode_utf8(&mut [0; 4]));
            used <= width
        });
        let fitting: usize = fitting.map(char::len_utf8).sum();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let fitting = fitting.max(first);
        let punctuation = rest[..fitting].rfind(BREAKS);
        let (piece, after) = rest.split_at(punctuation.map_or(fitting, |at| at + 1));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
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

    fn cell(text: &str) -> DrawnCell {
        DrawnCell {
            text: text.to_owned(),
            ..DrawnCell::default()
        }
    }

    #[test]
    fn cells_are_wrapped_until_a_table_fits_and_nothing_is_cut() {
        let rows = [
            ["NODE", "REASON", "END"].map(cell).to_vec(),
            ["ip-10-0-0-1.internal", "one two three", "x"]
                .map(cell)
                .to_vec(),
        ];
        let broken = ["ip-10-0-  one two  x", "0-1.      three", "internal"];
        let cases = [
            (40, vec!["ip-10-0-0-1.internal  one two three  x"]),
            (
                34,
                vec![
                    "ip-10-0-0-1.internal  one two  x",
                    "                      three",
                ],
            ),
            (24, broken.to_vec()),
            (1, broken.to_vec()),
        ];
        for (columns, expected) in cases {
            let lines = aligned(&rows, Some(columns));
            assert_eq!(lines[1..], expected, "{columns}");
        }
        assert_eq!(cell("界界界").lines(5), ["界界", "界"]);
        let red = anstyle::AnsiColor::Red.on_default();
        let bar = DrawnCell {
            is_whole: true,
            ..cell(&format!("{red}##{red:#}|{red}####{red:#}"))
        };
        assert_eq!(bar.lines(3), std::slice::from_ref(&bar.text));
        let red_text = DrawnCell {
            style: red,
            ..cell("one two")
        };
        let lines = aligned(&[vec![red_text]], Some(5));
        assert_eq!(
            lines,
            [format!("{red}one{red:#}"), format!("{red}two{red:#}")]
        );
    }
}
