//! Draws counts as bars on one scale, with the limit.
//!
//! `██████▒▒▒···│`: six cells of pods, three cells of added pods, three cells of free room, and the
//! limit.

use anstyle::Style;

use super::layout::columns;
use super::look::{Look, styled};

/// The most cells of the longest bar, which takes at most a quarter of the output.
const WIDTH: i64 = 32;

/// The most cells of one pod, so that a single pod does not look like many.
const MAX_CELLS_PER_POD: i64 = 6;

/// The most cells of the longest bar of a count that changes.
const GROWTH_WIDTH: i64 = 30;

/// A bar, which is drawn in one line.
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
        let width = columns().map_or(WIDTH, |columns| {
            let quarter = i64::try_from(columns / 4).unwrap_or(WIDTH);
            quarter.clamp(1, WIDTH)
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style::new();

    fn bar(count: i64, added: i64, limit: Option<i64>) -> Bar {
        Bar {
            count,
            added,
            limit,
        }
    }

    #[test]
    fn bars_share_a_scale_and_show_the_limit() {
        let cases = [
            (
                "what is added, and the limit",
                vec![bar(1, 1, Some(2)), bar(3, 1, Some(2)), bar(0, 0, Some(2))],
                vec![
                    "██████▒▒▒▒▒▒│",
                    "████████████│██████▒▒▒▒▒▒",
                    "············│",
                ],
            ),
            (
                "no limit",
                vec![bar(2, 0, None), bar(0, 0, None)],
                vec!["████████████", ""],
            ),
            (
                "a limit off the scale is not drawn",
                vec![bar(1, 0, Some(1000))],
                vec!["██████"],
            ),
            (
                "many pods are scaled down, few of them stay visible",
                vec![bar(1, 0, None), bar(320, 0, None)],
                vec!["█", "████████████████████████████████"],
            ),
        ];
        for (case, bars, expected) in cases {
            let scale = BarScale::of(&bars);
            let drawn: Vec<String> = bars.iter().map(|bar| scale.draw(bar, PLAIN)).collect();
            assert_eq!(drawn, expected, "{case}");
        }
    }
}
