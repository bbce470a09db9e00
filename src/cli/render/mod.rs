//! Renders answers for a person: pure functions from a response to a [`Page`], which is written as text
//! or as HTML. Styles are always written; the output drops them if they are not wanted. The width of
//! the output is looked up only once.

mod decision;
mod html;
mod nodes;
mod page;
mod pending;
mod place;
mod plans;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use decision::{explain, filter, score};
pub(crate) use nodes::nodes;
pub(crate) use page::{Head, Look, Page, Source, TAKEN_OUT, found_by_selector, styled};
pub(crate) use pending::{PendingPods, PendingWorkload, PodNotJudged, pending};
pub(crate) use place::{place, place_together, waiting};
pub(crate) use plans::{rebalance, scale_down};
pub(crate) use snapshot::{
    Different, LogRow, Replayed, loaded, logs, replayed, reservations, snapshot, snapshots,
    verified,
};
pub(crate) use spread::{SpreadOf, full_name, name_of_workload, report, spread, suggested_key};
pub(crate) use text::{fit, fit_message, look_up_width};
