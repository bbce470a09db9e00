//! The interface of pickers that can follow a plan of many picks.

use super::super::placement::{Outcome, Picker};
use super::groups::ScoredChoice;
use super::outlook::{Outlook, PlannedPicks};

/// A picker that can pick along a plan.
pub trait PlannedPicker: Picker + Clone {
    /// Returns the limits on further picks by hard constraints and room.
    fn outlook(&self) -> Outlook<'_>;

    /// Picks by a plan as long as the constraints admit its picks, then always picks the best node.
    /// `None` when `cancelled` returned true.
    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        with_steps: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Outcome>;

    /// Returns an upper bound of the number that a pick adds to the total.
    fn highest_total(&self) -> i64;

    /// Returns the number of nodes.
    fn node_count(&self) -> usize;

    /// Returns the nodes that can be picked next.
    fn choices(&mut self) -> Vec<ScoredChoice>;

    /// Counts a pick.
    fn pick(&mut self, node: u32);
}
