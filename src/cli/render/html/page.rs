//! The parts that all pages share: the head, the footer with the origin of the answer, and tables
//! that fold, with bars.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::cli::render::bars::Bar;
use crate::cli::render::text::{Provenance, defaults_text, plural};
use crate::proto::v1::DefaultsKind;

/// The style of a page, in light and in dark.
const CSS: &str = include_str!("page.css");

/// The number of rows of a table that are visible at first. The others are folded away, if there
/// are more than [`FEW`].
const SHOWN: usize = 10;

/// The most further rows that are not folded away.
const FEW: usize = 3;

/// The title and content of a page.
pub(super) struct Page<'a> {
    /// The title in the browser.
    pub(super) title: String,
    /// The command that wrote the page.
    pub(super) command: &'static str,
    /// The origin of the answer.
    pub(super) origin: &'a Provenance<'a>,
    /// The revision of the answer.
    pub(super) revision: i64,
    /// The kind of default constraints.
    pub(super) defaults: DefaultsKind,
}

impl Page<'_> {
    /// Returns the page with this content.
    pub(super) fn write(&self, content: &Markup) -> String {
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
                    title { (self.title) }
                    style { (PreEscaped(CSS)) }
                }
                body {
                    main { (content) }
                    footer {
                        "evenkeel " (self.command) " · snapshot " (self.origin.snapshot)
                        ", revision " (self.revision) ", " (defaults_text(self.defaults))
                        " · " (self.origin.asked) " · "
                        time datetime=(self.origin.at) { (self.origin.at) }
                    }
                }
            }
        };
        page.into_string()
    }
}

/// A column of a table.
pub(super) enum Column<'a> {
    /// A column of text.
    Text(&'a str),
    /// A column of numbers.
    Number(&'a str),
    /// A column of numbers that a tip explains.
    Explained(&'a str, &'a str),
    /// A column of bars, with their legend.
    Bars(Markup),
}

impl Column<'_> {
    fn heading(&self) -> Markup {
        html! {
            @match self {
                Column::Text(name) => th scope="col" { (name) },
                Column::Number(name) => th.number scope="col" { (name) },
                Column::Explained(name, tip) => th.number scope="col" title=(tip) { (name) },
                Column::Bars(legend) => th.bars scope="col" { (legend) },
            }
        }
    }
}

/// The look of a page's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// All is well.
    Good,
    /// The verdict could be better.
    Fair,
    /// Something is wrong.
    Bad,
}

impl Look {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Bad => "bad",
        }
    }
}

/// Returns the header of a page: its subject, the verdict in a sentence, and more lines below.
pub(super) fn header(look: Look, about: &str, verdict: &str, more: &[String]) -> Markup {
    html! {
        header class=(look.class()) {
            p.pod { (about) }
            div.verdict {
                h1 { (verdict) }
                @for line in more { p { (line) } }
            }
        }
    }
}

/// A section with a table, unless it has no rows.
pub(super) fn listed(
    heading: &Markup,
    label: &str,
    head: &[Column<'_>],
    rows: impl Iterator<Item = Markup>,
) -> Markup {
    let mut rows = rows.peekable();
    html! {
        @if rows.peek().is_some() {
            section {
                h2 { (heading) }
                (table("list", label, "workload", head, rows))
            }
        }
    }
}

/// The remark that there are more domains than a table lists. It names the flag that lists them, if
/// the command has one.
pub(super) fn more_domains(count: i64, flag: Option<&str>) -> Markup {
    html! {
        @if count > 0 {
            p.more {
                "... and " (plural(count, "more domain"))
                @if let Some(flag) = flag { " (" (flag) " lists them)" }
            }
        }
    }
}

/// A table whose rows are folded away after the first few. `label` names its content, and `what` a
/// row.
pub(super) fn table(
    class: &str,
    label: &str,
    what: &str,
    head: &[Column<'_>],
    rows: impl Iterator<Item = Markup>,
) -> Markup {
    let rows: Vec<Markup> = rows.collect();
    let shown = match rows.len() {
        few if few <= SHOWN + FEW => few,
        _ => SHOWN,
    };
    let (first, rest) = rows.split_at(shown);
    let part = |rows: &[Markup]| {
        html! {
            div.scroll tabindex="0" role="region" aria-label=(label) {
                table class=(class) {
                    thead { tr { @for column in head { (column.heading()) } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    };
    html! {
        (part(first))
        @if !rest.is_empty() {
            details.more {
                summary { (plural(rest.len(), &format!("more {what}"))) }
                (part(rest))
            }
        }
    }
}

/// A cell with a number. It has the name of its column, for narrow screens without headings.
pub(super) fn number_cell(column: &str, text: &str) -> Markup {
    html! { td.number data-column=(column) { (text) } }
}

/// Returns the count that takes the whole width of a table's bars.
pub(super) fn longest_bar(bars: impl Iterator<Item = Bar>) -> i64 {
    let ends = bars.map(|bar| (bar.count + bar.added).max(bar.limit.unwrap_or(0)));
    ends.max().unwrap_or(1).max(1)
}

/// The cell with a bar, whose whole width stands for `longest`. `label` has the count in words. A
/// count above the bar's limit is drawn as bad, whatever its row is.
pub(super) fn bar_cell(bar: Bar, longest: i64, label: &str) -> Markup {
    let percent = |count: i64| format!("{:.2}%", count as f64 * 100.0 / longest as f64);
    let is_over = bar.limit.is_some_and(|limit| bar.count > limit);
    let style = format!(
        "--count:{};--added:{};--limit:{}",
        percent(bar.count),
        percent(bar.added),
        percent(bar.limit.unwrap_or(0)),
    );
    html! {
        td.bars {
            div.bar.limited[bar.limit.is_some()].over[is_over] role="img" aria-label=(label) style=(style) {
                span.room {} span.pods {}
                @if bar.added > 0 { span.added {} }
                span.limit {}
            }
        }
    }
}
