//! Colours.

use anstyle::{AnsiColor, Style};

/// Headings of columns and sections.
pub(super) const HEADING: Style = Style::new().bold();
/// What admits the pod.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// What keeps it out.
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// `text` in `style`; nothing stays nothing.
pub(super) fn styled(style: Style, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{style}{text}{style:#}")
}
