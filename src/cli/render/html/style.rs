//! How the page looks, in light and in dark.

/// The style sheet.
pub(super) const CSS: &str = include_str!("explain.css");
