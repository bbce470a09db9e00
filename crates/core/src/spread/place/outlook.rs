//! The limits on further picks by hard constraints and the room of nodes. Plans of many picks are
//! made from them, and pickers can follow these.

use std::collections::HashMap;
use std::fmt::Debug;

use super::super::placement::{Outcome, Picker};
use super::super::skew::SkewRule;
use super::groups::ScoredChoice;
use crate::snapshot::{Deadline, Stopped};

/// The limits on further picks by hard constraints and room.
#[derive(Debug)]
pub struct Outlook<'p> {
    /// The number of pods that are wanted.
    pub wanted: usize,
    /// The hard constraints whose counts follow the picks. The verdicts of other hard constraints
    /// do not change; the nodes that they refuse are in no cell.
    pub constraints: Vec<HardOutlook<'p>>,
    /// The nodes that can take a pod, in cells. No hard constraint distinguishes the nodes of a
    /// cell. Nodes with nominated pods are left out.
    pub cells: Vec<NodeCell>,
    /// The most pods that fit on the nodes that are left out.
    pub beside: usize,
}

/// A hard constraint.
#[derive(Debug)]
pub struct HardOutlook<'p> {
    /// The constraint, which decides if a domain takes one more pod.
    pub constraint: &'p dyn RuleByMinimum,
    /// The count of each value of the topology key; `None` if the value is no domain.
    pub counts: Vec<Option<u32>>,
}

/// A constraint whose rule depends on its smallest count.
pub trait RuleByMinimum: Debug {
    /// Returns the rule that decides if a domain takes one more pod, at this smallest count.
    fn rule_at(&self, smallest: Option<u32>) -> SkewRule;
}

/// Nodes that no hard constraint distinguishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCell {
    /// For each constraint, the index of the value by which the nodes are judged.
    pub judged_by: Vec<usize>,
    /// For each constraint, true if a pick in the cell counts.
    pub counts: Vec<bool>,
    /// The nodes.
    pub nodes: Vec<u32>,
    /// The number of pods that fit on the nodes, at most the wanted number.
    pub room: usize,
}

/// Picks of a plan whose order does not matter: sets of nodes, each with a number of picks.
#[derive(Debug, Clone, Default)]
pub struct PlannedPicks(Vec<(Vec<u32>, usize)>);

/// A picker that can pick along a plan.
pub trait PlannedPicker: Picker + Clone {
    /// Returns the limits on further picks by hard constraints and room.
    fn outlook(&self) -> Outlook<'_>;

    /// Picks by a plan as long as the constraints admit its picks, then always picks the best node.
    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        with_steps: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Outcome, Stopped>;

    /// Returns an upper bound of the number that a pick adds to the total.
    fn highest_total(&self) -> i64;

    /// Returns the number of nodes.
    fn node_count(&self) -> usize;

    /// Returns the nodes that can be picked next.
    fn choices(&mut self) -> Vec<ScoredChoice>;

    /// Counts a pick.
    fn pick(&mut self, node: u32, deadline: &Deadline<'_>) -> Result<(), Stopped>;
}

impl<'p> Outlook<'p> {
    /// The outlook for nodes. Each node comes with its room and, for each constraint, the value by
    /// which it is judged and a flag that is true if a pick counts.
    pub fn of(
        wanted: usize,
        constraints: Vec<HardOutlook<'p>>,
        nodes: impl Iterator<Item = (u32, usize, Vec<(usize, bool)>)>,
    ) -> Self {
        let mut cells: Vec<NodeCell> = Vec::new();
        let mut places: HashMap<Vec<(usize, bool)>, usize> = HashMap::new();
        for (node, room, key) in nodes {
            let next = cells.len();
            let cell = *places.entry(key.clone()).or_insert(next);
            if cell == next {
                let (judged_by, counts) = key.into_iter().unzip();
                cells.push(NodeCell {
                    judged_by,
                    counts,
                    nodes: Vec::new(),
                    room: 0,
                });
            }
            let cell = &mut cells[cell];
            cell.nodes.push(node);
            cell.room = cell.room.saturating_add(room).min(wanted);
        }
        Self {
            wanted,
            constraints,
            cells,
            beside: 0,
        }
    }

    /// Limits the room of cells to the picks that constraints admit by these rules.
    pub fn limit_rooms(&mut self, rules: &[SkewRule]) {
        for cell in &mut self.cells {
            let constraints = self.constraints.iter().zip(rules).enumerate();
            for (index, (constraint, rule)) in constraints {
                let count = constraint.counts[cell.judged_by[index]].unwrap_or(0);
                let takes = rule.takes(count);
                if cell.counts[index] || takes == 0 {
                    cell.room = cell.room.min(takes);
                }
            }
        }
    }

    /// Picks of cells, in any order.
    pub fn picks(&self, picks: &[(usize, usize)]) -> PlannedPicks {
        let picks = picks.iter();
        let picks = picks.map(|(cell, times)| (self.cells[*cell].nodes.clone(), *times));
        PlannedPicks(picks.collect())
    }
}

impl PlannedPicks {
    /// The plan of one pick of this node.
    pub fn of_node(node: u32) -> Self {
        Self(vec![(vec![node], 1)])
    }

    /// The nodes that may be picked.
    pub fn nodes(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(nodes, _)| nodes).copied()
    }

    /// Counts a pick of a node that the plan has.
    pub fn take(&mut self, node: u32) {
        let mut cells = self.0.iter_mut();
        if let Some((_, times)) = cells.find(|(nodes, _)| nodes.contains(&node)) {
            *times -= 1;
        }
        self.0.retain(|(_, times)| *times > 0);
    }
}
