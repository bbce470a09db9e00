//! Answers as pages: each is one HTML file that needs nothing else, no script, no font, no image
//! from elsewhere. The macro that writes texts escapes them.

mod explain;
mod page;
mod rebalance;
mod report;
mod spread;
#[cfg(test)]
mod tests;

pub(crate) use explain::explain_html;
pub(crate) use rebalance::rebalance_html;
pub(crate) use report::report_html;
pub(crate) use spread::spread_html;
