//! Writes an answer as a page: one HTML file without scripts, fonts or images from elsewhere. The
//! `html!` macro escapes all texts.

use std::borrow::Cow;
use std::time::SystemTime;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::page::{Look, Page, PagePart, Parts, Table, TableCell};
use super::text::{Bar, plural};
use crate::visible;

/// The style of a page, in light and in dark.
const CSS: &str = include_str!("page.css");
/// The number of rows of a table that are visible at first. The others are folded away, if there
/// are more than [`FEW`].
const SHOWN: usize = 10;
/// The most further rows that are not folded away.
const FEW: usize = 3;

fn seen(text: &str) -> Cow<'_, str> {
    visible::text(text)
}

impl Look {
    /// The class of an element, unless it looks like others.
    const fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Strong => None,
            Self::Good => Some("good"),
            Self::Fair => Some("fair"),
            Self::Bad => Some("bad"),
        }
    }
}

impl Page {
    /// The answer as a page.
    pub(crate) fn html(&self) -> String {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    // This policy lets the page load and run nothing, even if a name contained
                    // HTML.
                    meta http-equiv="Content-Security-Policy"
                        content="default-src 'none'; style-src 'unsafe-inline'";
                    title { (seen(&self.title)) }
                    style { (PreEscaped(CSS)) }
                }
                body {
                    main { (self.header()) (parts(&self.parts, 0)) }
                    footer {
                        "evenkeel " (self.command) " · "
                        @if let Some(state) = &self.state {
                            "snapshot " (seen(&state.source.snapshot)) ", " (state.words()) " · "
                            (seen(&state.source.asked)) " · "
                        }
                        time datetime=(now) { (now) }
                    }
                }
            }
        };
        page.into_string() + "\n"
    }

    fn header(&self) -> Markup {
        let subject = self.subject.as_ref().unwrap_or(&self.title);
        let look = self.verdict.as_ref().map_or(Look::Plain, |(look, _)| *look);
        html! {
            header class=[look.class()] {
                p.pod { (seen(subject)) }
                @for line in &self.remarks { p.pod { (seen(line)) } }
                @if let Some((_, verdict)) = &self.verdict {
                    div.verdict { h1 { (seen(verdict)) } }
                }
            }
        }
    }
}

/// Parts below `depth` headings.
fn parts(all: &Parts, depth: usize) -> Markup {
    html! { @for one in &all.0 { (part(one, depth)) } }
}

fn part(part: &PagePart, depth: usize) -> Markup {
    html! {
        @match part {
            PagePart::Line(look, text) => p class=[look.class()] { (seen(text)) },
            PagePart::Facts(facts) => dl {
                @for fact in facts {
                    dt { (fact.name) }
                    dd class=[fact.look.class()] { (seen(&fact.value)) }
                }
            },
            PagePart::Bullets(bullets) => ul.hints {
                @for text in bullets { li { p { (seen(text)) } } }
            },
            PagePart::Table(rows) if depth == 0 => section { (table(rows)) },
            PagePart::Table(rows) => (table(rows)),
            PagePart::Section(heading, below) if heading.is_empty() => (parts(below, depth + 1)),
            PagePart::Section(heading, below) if depth == 0 => section {
                h2 { (heading_of(heading)) }
                (parts(below, depth + 1))
            },
            PagePart::Section(heading, below) => {
                h3 { (heading_of(heading)) }
                (parts(below, depth + 1))
            },
            PagePart::Folded(summary, below) => details {
                summary { (seen(summary)) }
                (parts(below, depth + 1))
            },
            PagePart::Names(names) => p.names { @for name in names { code { (seen(name)) } " " } },
            PagePart::OnPage(below) => (parts(below, depth)),
            PagePart::InText(_) => {},
        }
    }
}

fn heading_of(pieces: &[(Look, String)]) -> Markup {
    html! {
        @for (look, text) in pieces {
            @match look.class() {
                Some(class) => span class=(class) { (seen(text)) },
                None => (seen(text)),
            }
        }
    }
}

/// A table whose rows are folded away after the first few.
fn table(table: &Table) -> Markup {
    let shown = match table.rows.len() {
        few if few <= SHOWN + FEW => few,
        _ => SHOWN,
    };
    let (first, rest) = table.rows.split_at(shown);
    let columns = 0..table.headings.len();
    let columns: Vec<TableColumn> = columns.map(|at| TableColumn::of(table, at)).collect();
    let part = |rows: &[Vec<TableCell>]| {
        html! {
            div.scroll tabindex="0" role="region" aria-label=(plural(table.rows.len(), table.noun)) {
                table {
                    thead { tr { @for column in &columns { (column.head(&table.legend)) } } }
                    tbody {
                        @for row in rows {
                            tr { @for (column, cell) in columns.iter().zip(row) { (column.cell(cell)) } }
                        }
                    }
                }
            }
        }
    };
    html! {
        @if !first.is_empty() { (part(first)) }
        @if !rest.is_empty() {
            details.more {
                summary { (plural(rest.len(), &format!("more {}", table.noun))) }
                (part(rest))
            }
        }
        @if let Some(more) = table.more_text() { p.more { (more) } }
    }
}

/// A column of a table.
struct TableColumn {
    heading: String,
    is_first: bool,
    is_number: bool,
    /// The count that takes the whole width of the column's bars, if it has bars.
    longest: Option<i64>,
}

impl TableColumn {
    fn of(table: &Table, at: usize) -> Self {
        let cells = || table.rows.iter().filter_map(|row| row.get(at));
        let ends = cells().flat_map(bars_of).map(|bar| {
            let filled = bar.count + bar.added.max(0);
            filled.max(bar.limit.unwrap_or(0))
        });
        Self {
            heading: table.headings[at].to_lowercase(),
            is_first: at == 0,
            is_number: cells().all(is_number),
            longest: ends.max().map(|longest| longest.max(1)),
        }
    }

    fn head(&self, legend: &[(&'static str, String)]) -> Markup {
        let mut letters = self.heading.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let name: String = first.into_iter().chain(letters).collect();
        html! {
            th.bars[self.longest.is_some()].number[self.is_number] scope="col" {
                @match self.longest.is_some() && !legend.is_empty() {
                    true => { @for (class, said) in legend { span class={ "key " (class) } { (seen(said)) } } }
                    false => (name),
                }
            }
        }
    }

    fn cell(&self, cell: &TableCell) -> Markup {
        let longest = self.longest.unwrap_or(1);
        html! {
            @match cell {
                TableCell::Text { look, text, .. } if self.is_first => {
                    th scope="row" class=[look.class()] { (seen(text)) }
                }
                TableCell::Text { text, .. } if self.is_number => {
                    td.number data-column=(self.heading) { (seen(text)) }
                }
                TableCell::Text { look, text, is_whole: true } => {
                    td class={ "said " (look.class().unwrap_or_default()) } { (seen(text)) }
                }
                TableCell::Text { look, text, .. } => td class=[look.class()] { (seen(text)) },
                TableCell::Bar(look, shown, said) => td class={ "bars " (look.class().unwrap_or_default()) } { (bar(*shown, longest, said)) },
                TableCell::Change(before, after) => td.bars.good {
                    (bar(*before, longest, &format!("{} before", plural(before.count, "pod"))))
                    (bar(*after, longest, &format!("{} after", plural(after.count, "pod"))))
                },
            }
        }
    }
}

fn bars_of(cell: &TableCell) -> Vec<Bar> {
    match cell {
        TableCell::Text { .. } => Vec::new(),
        TableCell::Bar(_, bar, _) => vec![*bar],
        TableCell::Change(before, after) => vec![*before, *after],
    }
}

/// Returns whether a cell has nothing but a number.
fn is_number(cell: &TableCell) -> bool {
    match cell {
        TableCell::Text { text, .. } => {
            let mut chars = text.chars();
            text.starts_with(|c: char| c.is_ascii_digit())
                && chars.all(|c| c.is_ascii_digit() || ",./ %".contains(c))
        }
        _ => false,
    }
}

/// A bar, whose whole width stands for `longest`; `said` has the count in words. A count above its limit
/// is drawn as bad, whatever its row is.
fn bar(bar: Bar, longest: i64, said: &str) -> Markup {
    let percent = |count: i64| format!("{:.2}%", count as f64 * 100.0 / longest as f64);
    let is_over = bar.limit.is_some_and(|limit| bar.count > limit);
    let style = format!(
        "--count:{};--added:{};--limit:{}",
        percent(bar.count),
        percent(bar.added),
        percent(bar.limit.unwrap_or(0)),
    );
    html! {
        div.bar.limited[bar.limit.is_some()].over[is_over] role="img" aria-label=(seen(said)) style=(style) {
            span.room {} span.pods {}
            @if bar.added > 0 { span.added {} }
            span.limit {}
        }
    }
}
