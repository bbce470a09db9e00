//! Renders answers as pages. Each is one HTML file without scripts, fonts or images from elsewhere.
//! The `html!` macro escapes all texts.

mod explain;
mod nodes;
mod page;
mod pending;
mod rebalance;
mod report;
mod spread;
#[cfg(test)]
mod tests;

pub(crate) use explain::explain_html;
pub(crate) use nodes::nodes_html;
pub(crate) use pending::pending_html;
pub(crate) use rebalance::rebalance_html;
pub(crate) use report::report_html;
pub(crate) use spread::spread_html;
