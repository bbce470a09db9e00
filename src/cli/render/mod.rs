//! Renders answers as text for a person, by pure functions from a response to a string. Styles are
//! always written; the output drops them if they are not wanted. The width of the output is looked
//! up only once.

mod bars;
mod constraint;
mod coverage;
mod explain;
mod filter;
#[cfg(test)]
mod hostile;
mod html;
mod layout;
mod lint;
mod log;
mod pending;
mod place;
mod rebalance;
mod replay;
mod report;
mod scale_down;
mod score;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use coverage::suggested_key;
pub(crate) use explain::explain;
pub(crate) use filter::filter;
pub(crate) use html::{explain_html, pending_html, rebalance_html, report_html, spread_html};
pub(crate) use layout::{fit, fit_message, look_up_width};
pub(crate) use lint::lint;
pub(crate) use log::{LogRow, logs};
pub(crate) use pending::{PendingPods, PendingWorkload, PodNotJudged, pending};
pub(crate) use place::{place, place_numbered, place_together, waiting};
pub(crate) use rebalance::rebalance;
pub(crate) use replay::{Different, Replayed, replayed};
pub(crate) use report::report;
pub(crate) use scale_down::scale_down;
pub(crate) use score::score;
pub(crate) use snapshot::{loss, reservations, snapshot, snapshots, states, verified};
pub(crate) use spread::{SpreadOf, full_name, name_of_workload, spread};
pub(crate) use text::{Head, Provenance, TAKEN_OUT, found_by_selector};
