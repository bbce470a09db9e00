//! Renders answers for a person: pure functions from a response to a [`Page`], which is written as text
//! or as HTML. Styles are always written; the output drops them if they are not wanted. The width of
//! the output is looked up only once.

mod bars;
mod coverage;
mod decision;
mod explain;
#[cfg(test)]
mod hostile;
mod html;
mod layout;
mod lint;
mod look;
mod nodes;
mod page;
mod pending;
mod place;
mod plans;
mod replay;
mod report;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use coverage::suggested_key;
pub(crate) use decision::{filter, score};
pub(crate) use explain::explain;
pub(crate) use layout::{fit, fit_message, look_up_width};
pub(crate) use lint::lint;
pub(crate) use nodes::nodes;
pub(crate) use page::{Head, Page, Source, TAKEN_OUT, found_by_selector};
pub(crate) use pending::{PendingPods, PendingWorkload, PodNotJudged, pending};
pub(crate) use place::{place, place_numbered, place_together, waiting};
pub(crate) use plans::{rebalance, scale_down};
pub(crate) use replay::{Different, Replayed, replayed};
pub(crate) use report::report;
pub(crate) use snapshot::{LogRow, loaded, logs, reservations, snapshot, snapshots, verified};
pub(crate) use spread::{SpreadOf, full_name, name_of_workload, spread};
