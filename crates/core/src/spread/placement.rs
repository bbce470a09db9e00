//! Placing many pods at once, in either dialect: the options, the result, and the limits on further
//! picks. Plans of many picks are made from these limits, and pickers can follow such plans.

use std::collections::{BTreeMap, HashMap, HashSet};

use fixedbitset::FixedBitSet;

use super::hard::{ChangingCounts, SkewRule};
use super::report::Report;
use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{Deadline, Stopped};

/// The options of a caller that places pods.
#[derive(Debug, Clone, Default)]
pub struct PlaceOptions {
    /// The number of pods to place. In the Fleet dialect, the wanted number of holders in total.
    pub replicas: usize,
    /// The nodes to choose from; `None` means all.
    pub candidates: Option<Vec<String>>,
    /// The caller's preferences, by node. Other nodes have 0.
    pub bonuses: HashMap<String, i64>,
    /// The number of pods that fit, by node. Other nodes have no limit. Kubernetes dialect only.
    pub capacities: HashMap<String, u32>,
    /// A node that is taken to have room for all pods.
    pub emptied: Option<String>,
    /// The holders that the caller knows, by cluster. Fleet dialect only.
    pub holders: HashMap<String, Holding>,
    /// True if pods are planned together when placing them one by one leaves some unplaced.
    pub jointly: bool,
    /// Holders of an earlier policy. Fleet dialect only.
    pub sticky: HashSet<String>,
}

/// A cluster that holds the placement already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    /// True if the placement is in effect on the cluster. Holders with false are removed first.
    pub bound: bool,
    /// The cluster's topology spread score when it was picked. Holders without a score are removed
    /// first.
    pub spread_score: Option<i64>,
    /// The cluster's bonus when it was picked. Holders without a bonus are removed first.
    pub bonus: Option<i64>,
}

/// A picker, with all data that it needs from a read view. It keeps no reference to the snapshot.
pub trait Picker {
    /// Picks, and records every step if `with_steps` is true.
    fn run(&mut self, with_steps: bool, deadline: &Deadline<'_>) -> Result<Outcome, Stopped>;

    /// Returns the number of scores that all steps would list.
    fn step_scores(&self) -> usize;

    /// The numbers behind the constraints, in the order of the pod's or the default constraints.
    fn reports(&self, max_domains: usize) -> Vec<Report<'_>>;
}

/// The result of picking.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The picks, in order.
    pub picks: Vec<Pick>,
    /// The number of pods that found no node.
    pub unplaced: usize,
    /// The sum of the picks' scores and bonuses. In the Fleet dialect, the sum of their scores.
    pub total: i64,
    /// The most pods that any plan could place, if this was requested.
    pub bound: Option<usize>,
    /// A sum of scores and bonuses that no plan with this number of picks exceeds, if this was
    /// requested.
    pub total_bound: Option<i64>,
    /// The reasons against more picks, each with its number of nodes.
    pub reasons: BTreeMap<Reason, usize>,
    /// Every step, if steps are recorded. Fleet dialect only.
    pub steps: Vec<PickStep>,
    /// The holders that should give up the placement, ascending by name. Fleet dialect only.
    pub removed: Vec<String>,
}

/// One pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Name of the node.
    pub node: Box<str>,
    /// The node's score when it was picked: 0 to 100, or a topology spread score in the Fleet
    /// dialect.
    pub score: i64,
}

/// One step of the Fleet dialect.
#[derive(Debug, Default)]
pub struct PickStep {
    /// All clusters in node order, each with its score or the refusal by a constraint. Empty
    /// without constraints.
    pub verdicts: Vec<(Box<str>, Result<i64, NodeRefusal>)>,
    /// The nodes that could be picked, best first.
    pub ranking: Vec<Box<str>>,
    /// The picks.
    pub picked: Vec<Box<str>>,
}

/// The limits on further picks by hard constraints and room.
#[derive(Debug)]
pub struct Outlook {
    /// The number of pods that are wanted.
    pub wanted: usize,
    /// The hard constraints whose counts follow the picks. The verdicts of other hard constraints
    /// do not change; the nodes that they refuse are in no cell.
    pub constraints: Vec<HardOutlook>,
    /// The nodes that can take a pod, in cells. No hard constraint distinguishes the nodes of a
    /// cell. Nodes with nominated pods are left out.
    pub cells: Vec<NodeCell>,
    /// The most pods that fit on the nodes that are left out.
    pub beside: usize,
}

/// A hard constraint.
#[derive(Debug)]
pub struct HardOutlook {
    /// The rule that decides if a domain takes one more pod, at a smallest count of 0.
    pub rule: SkewRule,
    /// True if skews are measured from 0, whatever the smallest count is.
    pub from_zero: bool,
    /// The smallest count at which domains may exceed it by one pod only.
    pub narrow_at: Option<u32>,
    /// The count of each value of the topology key.
    pub counts: ChangingCounts,
}

impl HardOutlook {
    /// Returns the rule that decides if a domain takes one more pod, at this smallest count.
    pub fn rule_at(&self, smallest: Option<u32>) -> SkewRule {
        let minimum = smallest.filter(|_| !self.from_zero);
        let is_narrow = smallest.is_some() && smallest == self.narrow_at;
        SkewRule {
            max_skew: if is_narrow { 1 } else { self.rule.max_skew },
            minimum: minimum.unwrap_or(0).into(),
            ..self.rule
        }
    }
}

/// A node that can take a pod.
#[derive(Debug)]
pub struct NodeOutlook {
    /// The node.
    pub node: u32,
    /// The number of pods that fit on it.
    pub room: usize,
    /// For each constraint, the value by which the node is judged, and true if a pick counts.
    pub judged_by: Vec<(usize, bool)>,
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
    fn outlook(&self) -> Outlook;

    /// Picks by a plan as long as the constraints admit its picks, then always picks the best node.
    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        with_steps: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Outcome, Stopped>;

    /// Returns an upper bound of the number that a pick adds to the total.
    fn highest_total(&self) -> i64;
}

impl Outlook {
    /// The outlook for nodes.
    pub fn of(
        wanted: usize,
        constraints: Vec<HardOutlook>,
        nodes: impl Iterator<Item = NodeOutlook>,
    ) -> Self {
        let mut cells: Vec<NodeCell> = Vec::new();
        let mut places: HashMap<Vec<(usize, bool)>, usize> = HashMap::new();
        for of in nodes {
            let next = cells.len();
            let cell = *places.entry(of.judged_by.clone()).or_insert(next);
            if cell == next {
                let (judged_by, counts) = of.judged_by.into_iter().unzip();
                cells.push(NodeCell {
                    judged_by,
                    counts,
                    nodes: Vec::new(),
                    room: 0,
                });
            }
            let cell = &mut cells[cell];
            cell.nodes.push(of.node);
            cell.room = cell.room.saturating_add(of.room).min(wanted);
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
                let count = constraint.counts.count(cell.judged_by[index]);
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
    /// The nodes that may be picked.
    pub fn nodes(&self) -> FixedBitSet {
        let nodes = self.0.iter().flat_map(|(nodes, _)| nodes);
        nodes.map(|node| *node as usize).collect()
    }

    /// Counts a pick of a node that the plan has. Returns whether fewer nodes may be picked now.
    pub fn take(&mut self, node: u32) -> bool {
        let mut cells = self.0.iter_mut();
        if let Some((_, times)) = cells.find(|(nodes, _)| nodes.contains(&node)) {
            *times -= 1;
        }
        let before = self.0.len();
        self.0.retain(|(_, times)| *times > 0);
        self.0.len() < before
    }
}
