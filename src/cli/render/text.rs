//! Writes an answer as text for a terminal: lines, wrapped and aligned to the width of the output, with
//! styles, and counts as bars on one scale.
//!
//! Output to a terminal is wrapped to its width. Other output is not wrapped, because programs read
//! it line by line.

pub(super) use crate::explain::{number, plural};

use std::sync::OnceLock;

use anstyle::Style;
use terminal_size::{Width, terminal_size_of};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

use super::page::{Fact, Look, Page, PagePart, Parts, Table, TableCell, styled};
use crate::visible;

/// The indentation of what is below a heading.
const INDENT: &str = "  ";

impl Page {
    /// The answer as text.
    pub(crate) fn text(&self) -> String {
        let mut writer = TextWriter {
            text: String::new(),
            depth: 0,
        };
        if let Some(subject) = &self.subject {
            writer.line(Style::new(), subject);
        }
        if let Some(state) = &self.state {
            let said = format!("{}, {}", state.source.title, state.words());
            writer.line(Style::new(), &said);
        }
        for line in &self.remarks {
            writer.line(Style::new(), line);
        }
        if let Some((look, verdict)) = &self.verdict {
            let style = look.style();
            let style = if *look == Look::Plain {
                style
            } else {
                style.bold()
            };
            writer.line(style, verdict);
        }
        writer.parts(&self.parts);
        writer.text
    }
}

struct TextWriter {
    text: String,
    /// The number of headings that the parts are below.
    depth: usize,
}

impl TextWriter {
    fn indent(&self) -> String {
        INDENT.repeat(self.depth)
    }

    fn line(&mut self, style: Style, text: &str) {
        let lines = paragraph(&visible::text(text), &self.indent(), style);
        self.text.push_str(&lines);
    }

    fn parts(&mut self, parts: &Parts) {
        parts.0.iter().for_each(|part| self.part(part));
    }

    fn part(&mut self, part: &PagePart) {
        match part {
            PagePart::Line(look, text) => self.line(look.style(), text),
            PagePart::Facts(facts) => self.facts(facts),
            PagePart::Bullets(bullets) => {
                for text in bullets {
                    let bullet = Look::Fair.paint("*");
                    let indent = self.indent();
                    let below = format!("{indent}{INDENT}");
                    let lines = paragraph(&visible::text(text), &below, Style::new());
                    self.text
                        .push_str(&format!("{indent}{bullet} {}", lines.trim_start()));
                }
            }
            PagePart::Table(table) => {
                self.gap();
                if !table.rows.is_empty() {
                    let rows = drawn(&self.indent(), table);
                    self.text.push_str(&rows);
                }
                if let Some(more) = table.more_text() {
                    self.line(Style::new(), &more);
                }
            }
            PagePart::Section(heading, below) if heading.len() == 1 && below.0.is_empty() => {
                self.gap();
                let (look, text) = &heading[0];
                self.line(look.style(), text);
            }
            PagePart::Section(heading, parts) => {
                if !heading.is_empty() {
                    self.gap();
                    let pieces = heading.iter().map(|(look, text)| look.paint(text));
                    let heading: String = pieces.collect();
                    self.text.push_str(&format!("{}{heading}\n", self.indent()));
                }
                self.depth += 1;
                self.parts(parts);
                self.depth -= 1;
            }
            PagePart::Names(names) => self.line(Style::new(), &names.join(" ")),
            PagePart::InText(parts) => self.parts(parts),
            PagePart::Folded(..) | PagePart::OnPage(_) => {}
        }
    }

    /// An empty line before a part that is below no heading.
    fn gap(&mut self) {
        if self.depth == 0 && !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn facts(&mut self, facts: &[Fact]) {
        let width = facts.iter().map(|fact| fact.name.len()).max();
        let width = width.unwrap_or(0) + GAP;
        for fact in facts {
            let value = fact.look.paint(&fact.value);
            let line = format!("{}{:<width$}{value}\n", self.indent(), fact.name);
            self.text.push_str(&line);
        }
    }
}

/// A table, aligned and wrapped to the width of the output. Each line starts with `indent`.
fn drawn(indent: &str, table: &Table) -> String {
    let scales = scales(table);
    let headings = table.headings.iter().map(|text| DrawnCell {
        text: (*text).to_owned(),
        style: Look::Strong.style(),
        is_whole: false,
    });
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().zip(&scales);
        cells.map(|(cell, scale)| drawn_cell(cell, scale)).collect()
    });
    let rows: Vec<Vec<DrawnCell>> = std::iter::once(headings.collect()).chain(rows).collect();
    let columns = columns().map(|columns| columns.saturating_sub(indent.len()));
    let lines = aligned(&rows, columns).into_iter();
    lines.map(|line| format!("{indent}{line}\n")).collect()
}

/// The scale of the bars of each column.
fn scales(table: &Table) -> Vec<BarScale> {
    let scale = |column: usize| {
        let (mut bars, mut longest): (Vec<Bar>, i64) = (Vec::new(), 0);
        for cell in table.rows.iter().filter_map(|row| row.get(column)) {
            match cell {
                TableCell::Bar(_, bar, _) => bars.push(*bar),
                TableCell::Change(before, after) => {
                    longest = longest.max(before.count).max(after.count);
                }
                TableCell::Text { .. } => {}
            }
        }
        match bars.is_empty() {
            true => BarScale::of_growth(longest),
            false => BarScale::of(&bars),
        }
    };
    (0..table.headings.len()).map(scale).collect()
}

fn drawn_cell(cell: &TableCell, scale: &BarScale) -> DrawnCell {
    let bar = |text: String| DrawnCell {
        text,
        style: Style::new(),
        is_whole: true,
    };
    match cell {
        TableCell::Text {
            look,
            text,
            is_whole,
        } => DrawnCell {
            text: visible::text(text).into_owned(),
            style: look.style(),
            is_whole: *is_whole,
        },
        TableCell::Bar(look, shown, _) => bar(scale.draw(shown, look.style())),
        TableCell::Change(before, after) => bar(scale.draw_change(before.count, after.count)),
    }
}

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
    let mut floors = [(); 5].map(|()| vec![0; count]);
    for (column, cell) in rows.iter().flat_map(|row| row.iter().enumerate()) {
        for (floors, width) in floors.iter_mut().zip(cell.floors()) {
            floors[column] = width.max(floors[column]);
        }
    }
    let [whole, readable, words, pieces, least] = floors;
    let most = columns.saturating_sub(GAP * count.saturating_sub(1));
    let readable = shrunk(whole, &readable, most);
    let words = shrunk(readable.clone(), &words, most);
    match words.iter().sum::<usize>() <= most {
        true => words,
        false => shrunk(shrunk(readable, &pieces, most), &least, most),
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

impl DrawnCell {
    /// The widths in which the cell is more and more broken: nothing is wrapped; sentences are wrapped, and
    /// still easy to read; no word is broken; words are broken only behind punctuation; and anywhere.
    fn floors(&self) -> [usize; 5] {
        let whole = display_width(&self.text);
        if self.is_whole {
            return [whole; 5];
        }
        let longest = |is_end: &dyn Fn(char) -> bool| {
            let parts = self.text.split_inclusive(is_end);
            let widths = parts.map(|it| display_width(it.trim_end()));
            widths.max().unwrap_or(0)
        };
        let words = longest(&|it| it == ' ');
        let readable = match self.text.contains(' ') {
            true => words.max(whole.min(SENTENCE)),
            false => whole,
        };
        let least = whole.min(NARROWEST);
        let pieces = longest(&|it| it == ' ' || BREAKS.contains(&it)).max(least);
        [whole, readable, words, pieces, least]
    }

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

/// The most cells of the longest bar, which takes at most a quarter of the output.
const BAR_WIDTH: i64 = 32;

/// The most cells of one pod, so that a single pod does not look like many.
const MAX_CELLS_PER_POD: i64 = 6;

/// The most cells of the longest bar of a count that changes.
const GROWTH_WIDTH: i64 = 30;

/// A bar, which is drawn in one line.
///
/// `██████▒▒▒···│`: six cells of pods, three cells of added pods, three cells of free room, and the
/// limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bar {
    /// The present count.
    pub(crate) count: i64,
    /// The count that would be added.
    pub(crate) added: i64,
    /// The largest allowed count; `None` for no limit.
    pub(crate) limit: Option<i64>,
}

/// The scale of all bars of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BarScale {
    longest: i64,
    cells: i64,
    /// The fewest cells of a count above zero.
    fewest: i64,
}

impl BarScale {
    /// A scale for all of `bars`. A limit far above all counts is off the scale and not drawn.
    pub(crate) fn of<'b>(bars: impl IntoIterator<Item = &'b Bar>) -> Self {
        let (mut filled, mut limit) = (1, 0);
        for bar in bars {
            filled = filled.max(bar.count + bar.added);
            limit = limit.max(bar.limit.unwrap_or(0));
        }
        let longest = if limit <= filled.saturating_mul(2) {
            filled.max(limit)
        } else {
            filled
        };
        let width = columns().map_or(BAR_WIDTH, |columns| {
            let quarter = i64::try_from(columns / 4).unwrap_or(BAR_WIDTH);
            quarter.clamp(1, BAR_WIDTH)
        });
        let per_pod = (width / longest).min(MAX_CELLS_PER_POD);
        Self {
            longest,
            cells: if per_pod > 0 {
                per_pod * longest
            } else {
                width
            },
            // A count above zero is drawn with at least one cell.
            fewest: 1,
        }
    }

    /// A scale for [`BarScale::draw_change`], for counts up to `longest`. A pod takes at most one
    /// cell.
    pub(crate) fn of_growth(longest: i64) -> Self {
        Self {
            longest,
            cells: longest.min(GROWTH_WIDTH),
            fewest: 0,
        }
    }

    /// Draws a count that changes: `###++` for one that grows, `###--` for one that falls.
    pub(crate) fn draw_change(&self, before: i64, after: i64) -> String {
        let (mark, look) = match after > before {
            true => ("+", Look::Good),
            false => ("-", Look::Bad),
        };
        let (less, more) = (self.cells(before.min(after)), self.cells(before.max(after)));
        let cells = |of: &str, count: i64| of.repeat(usize::try_from(count).unwrap_or(0));
        cells("#", less) + &look.paint(&cells(mark, more - less))
    }

    /// Draws a bar, with the existing pods in `style`.
    pub(crate) fn draw(&self, bar: &Bar, style: Style) -> String {
        let (count, end) = (self.cells(bar.count), self.cells(bar.count + bar.added));
        let limit = bar.limit.filter(|limit| (0..=self.longest).contains(limit));
        let limit = limit.map(|limit| self.cells(limit));
        let cell = |at: i64| match at {
            _ if at < count => '█',
            _ if at < end => '▒',
            _ if limit.is_some_and(|limit| at < limit) => '·',
            _ => ' ',
        };
        let cells = |from: i64, to: i64| (from..to).map(cell).collect::<String>();
        let Some(limit) = limit else {
            return styled(style, cells(0, end).trim_end());
        };
        let (below, above) = (cells(0, limit), cells(limit, end.max(limit)));
        format!("{}│{}", styled(style, &below), styled(style, &above))
    }

    fn cells(&self, count: i64) -> i64 {
        match count {
            ..=0 => 0,
            _ => (count.min(self.longest) * self.cells / self.longest).max(self.fewest),
        }
    }
}
