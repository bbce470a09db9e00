//! Bars of pods in the cells of a table.

use maud::{Markup, html};

use crate::cli::render::bars::Bar;

/// What the whole width of a table's bars stands for.
pub(super) fn longest(bars: impl Iterator<Item = Bar>) -> i64 {
    let ends = bars.map(|bar| (bar.count + bar.added).max(bar.limit.unwrap_or(0)));
    ends.max().unwrap_or(1).max(1)
}

/// The cell with a bar whose whole width stands for `longest`. `label` says it in
/// words.
pub(super) fn cell(bar: Bar, longest: i64, label: &str) -> Markup {
    let percent = |count: i64| format!("{:.2}%", count as f64 * 100.0 / longest as f64);
    let style = format!(
        "--count:{};--added:{};--limit:{}",
        percent(bar.count),
        percent(bar.added),
        percent(bar.limit.unwrap_or(0)),
    );
    html! {
        td.bars {
            div.bar.limited[bar.limit.is_some()] role="img" aria-label=(label) style=(style) {
                span.room {} span.pods {}
                @if bar.added > 0 { span.added {} }
                span.limit {}
            }
        }
    }
}
