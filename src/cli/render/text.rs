//! Writes an answer as text for a terminal: lines, wrapped and aligned, with styles.

use anstyle::Style;

use super::bars::{Bar, BarScale};
use super::layout::{DrawnCell, GAP, aligned, columns, paragraph};
use super::look::Look;
use super::page::{Fact, Page, PagePart, Parts, Table, TableCell};
pub(super) use crate::explain::{number, plural};
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
                if let Some((count, how)) = table.more {
                    let more = plural(count, &format!("more {}", table.noun));
                    let how = if how.is_empty() {
                        String::new()
                    } else {
                        format!(" ({how})")
                    };
                    self.line(Style::new(), &format!("... and {more}{how}"));
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
