//! What the hard constraints and the room of nodes say of the picks to come, for plans
//! of many picks at once.

use std::collections::HashMap;

use super::super::skew::SkewRule;
use super::tracked::TrackedConstraint;
use crate::snapshot::DomainId;

/// What hard constraints and room say of more picks.
#[derive(Debug)]
pub struct Outlook<'p> {
    /// How many are wanted.
    pub wanted: usize,
    /// The hard constraints whose counts follow the picks. Others decide once and for
    /// all, and the nodes that they refuse are in no cell.
    pub constraints: Vec<HardOutlook<'p>>,
    /// The nodes that can take a pod, those together that no hard constraint tells
    /// apart. Nodes that other pods are nominated to are left out.
    pub cells: Vec<NodeCell>,
    /// How many more pods fit on nodes that are left out, at most.
    pub beside: usize,
}

/// A hard constraint.
#[derive(Debug)]
pub struct HardOutlook<'p> {
    tracked: &'p TrackedConstraint,
    /// By value of the topology key: its count, if it is a domain.
    pub counts: Vec<Option<u32>>,
}

/// Nodes that no hard constraint tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCell {
    /// By constraint: the value that the nodes are judged by.
    pub judged_by: Vec<usize>,
    /// By constraint: whether a pick counts there.
    pub counts: Vec<bool>,
    /// The nodes.
    pub nodes: Vec<u32>,
    /// How many more pods fit on them, no more than are wanted.
    pub room: usize,
}

/// Picks that a plan has in any order.
#[derive(Debug, Clone, Default)]
pub struct PlannedPicks {
    cell_of: HashMap<u32, usize>,
    /// By cell.
    picks: Vec<usize>,
}

impl<'p> Outlook<'p> {
    /// That of nodes with this room for more pods.
    pub(super) fn of(
        constraints: &'p [TrackedConstraint],
        rooms: impl Iterator<Item = Option<u32>>,
        wanted: usize,
    ) -> Self {
        let hard: Vec<_> = constraints.iter().filter(|t| t.is_hard()).collect();
        let (moving, fixed): (Vec<_>, Vec<_>) = hard.into_iter().partition(|t| t.counts_picks());
        let mut outlook = Self {
            wanted,
            constraints: moving
                .iter()
                .map(|tracked| HardOutlook::of(tracked))
                .collect(),
            cells: Vec::new(),
            beside: 0,
        };
        let mut places: HashMap<Vec<(DomainId, bool)>, usize> = HashMap::new();
        for (node, room) in (0_u32..).zip(rooms) {
            let room = room.map_or(wanted, |room| wanted.min(room as usize));
            let lacks_key = |t: &&TrackedConstraint| !t.domain_of(node).is_some();
            let refuses = |t: &&TrackedConstraint| {
                let nominated = t.nominated_on(node);
                !t.admits(t.rule(), t.count(t.domain_of(node)), nominated)
            };
            let mut all = moving.iter().chain(&fixed);
            if room == 0 || all.any(lacks_key) || fixed.iter().any(refuses) {
                continue;
            }
            if moving.iter().any(|tracked| tracked.nominated_on(node) > 0) {
                outlook.beside = outlook.beside.saturating_add(room).min(wanted);
                continue;
            }
            let key = moving.iter().map(|tracked| {
                let domain = tracked.domain_of(node);
                (domain, tracked.counted_in(node) == Some(domain))
            });
            let key: Vec<_> = key.collect();
            let next = outlook.cells.len();
            let cell = *places.entry(key.clone()).or_insert(next);
            if cell == next {
                outlook.cells.push(NodeCell {
                    judged_by: key.iter().map(|(domain, _)| domain.index()).collect(),
                    counts: key.iter().map(|(_, counts)| *counts).collect(),
                    nodes: Vec::new(),
                    room: 0,
                });
            }
            let cell = &mut outlook.cells[cell];
            cell.nodes.push(node);
            cell.room = cell.room.saturating_add(room).min(wanted);
        }
        outlook
    }

    /// So many picks of each cell, in any order.
    pub fn picks(&self, picks: Vec<usize>) -> PlannedPicks {
        let cells = self.cells.iter().enumerate();
        let used = cells.filter(|(index, _)| picks[*index] > 0);
        let cell_of = used.flat_map(|(index, cell)| cell.nodes.iter().map(move |it| (*it, index)));
        PlannedPicks {
            cell_of: cell_of.collect(),
            picks,
        }
    }
}

impl<'p> HardOutlook<'p> {
    fn of(tracked: &'p TrackedConstraint) -> Self {
        Self {
            tracked,
            counts: tracked.domain_counts().collect(),
        }
    }

    /// Decides whether a domain takes one more pod, at these counts.
    pub fn rule(&self, counts: &[Option<u32>]) -> SkewRule {
        self.tracked.rule_at(counts.iter().flatten().min().copied())
    }
}

impl PlannedPicks {
    /// Returns how many picks are left.
    pub fn left(&self) -> usize {
        self.picks.iter().sum()
    }

    /// Returns whether a node may be picked.
    pub fn has(&self, node: u32) -> bool {
        let cell = self.cell_of.get(&node);
        cell.is_some_and(|cell| self.picks[*cell] > 0)
    }

    /// Counts a pick of a node that it has.
    pub fn take(&mut self, node: u32) {
        if let Some(cell) = self.cell_of.get(&node) {
            self.picks[*cell] = self.picks[*cell].saturating_sub(1);
        }
    }
}
