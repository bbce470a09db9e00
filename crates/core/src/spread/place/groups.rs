//! Groups of nodes that no constraint distinguishes, and the choice of the best node.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::super::scoring::{RawRange, Weight, round_half_up};
use super::super::skew::SkewRule;
use super::tracked::{Grain, TrackedConstraint};

/// The nodes that can take another pod, grouped.
#[derive(Debug, Clone)]
pub struct Groups {
    by_key: HashMap<GroupKey, usize>,
    groups: Vec<NodeGroup>,
    /// The groups with nodes.
    live: Vec<usize>,
    /// The group of each node.
    group_of: Vec<Option<usize>>,
    /// The turn of each node.
    turns: Vec<NodeTurn>,
    /// The key of the last node, kept to reuse its memory.
    key: GroupKey,
    /// True if nodes that lack the key of a soft constraint are not scored.
    all_keys_required: bool,
    /// For each soft constraint and domain, the round in which the domain was last seen. It serves
    /// to count distinct domains.
    seen: Vec<Vec<u64>>,
    round: u64,
}

/// The properties that all nodes of a group share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct GroupKey {
    /// For each constraint, the mark of the nodes; 0 for a soft constraint if the group is not
    /// scored.
    marks: Vec<u32>,
    /// For each constraint, true if the nodes have the topology key.
    keyed: Vec<bool>,
    /// For each constraint, the number of pods nominated to the node that it counts. Empty if no
    /// constraint counts any.
    nominated: Vec<u32>,
    bonus: i64,
}

#[derive(Debug, Clone)]
struct NodeGroup {
    key: GroupKey,
    /// The group's nodes, each with its turn. The first is picked next.
    nodes: BTreeSet<(NodeTurn, u32)>,
    /// The group's position in `live`.
    at: usize,
    is_ignored: bool,
    /// The raw score of the group in the last round, if it was feasible.
    raw: Option<i64>,
}

/// A node's turn among nodes of equal score. The node with the smallest turn is picked, and among
/// equal turns the first in node order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTurn {
    /// The number of picks of the node.
    pub picks: u32,
    /// The number of the node's pods that the constraints counted before the first pick.
    pub counted: u32,
}

/// A node that can be picked in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoredChoice {
    /// The node.
    pub node: u32,
    /// The node's score, without its bonus.
    pub score: i64,
    /// The node's score with its bonus.
    pub total: i64,
}

impl Groups {
    /// Puts nodes into groups. A node with a bonus of `None` takes no pod and gets no group.
    pub fn of(
        nodes: impl Iterator<Item = (NodeTurn, Option<i64>)>,
        constraints: &[TrackedConstraint],
        all_keys_required: bool,
    ) -> Self {
        let seen = |tracked: &TrackedConstraint| {
            vec![0; if tracked.is_hard() { 0 } else { tracked.len() }]
        };
        let mut all = Self {
            by_key: HashMap::new(),
            groups: Vec::new(),
            live: Vec::new(),
            group_of: Vec::new(),
            turns: Vec::new(),
            key: GroupKey::default(),
            all_keys_required,
            seen: constraints.iter().map(seen).collect(),
            round: 0,
        };
        // Building a set from all its nodes at once is faster than inserting them one by one.
        let mut members: Vec<Vec<(NodeTurn, u32)>> = Vec::new();
        for (node, (turn, bonus)) in (0_u32..).zip(nodes) {
            let index = bonus.map(|bonus| all.index_of(node, bonus, constraints));
            if let Some(index) = index {
                members.resize_with(all.groups.len(), Vec::new);
                members[index].push((turn, node));
            }
            all.group_of.push(index);
            all.turns.push(turn);
        }
        for (index, (group, nodes)) in all.groups.iter_mut().zip(members).enumerate() {
            group.nodes = nodes.into_iter().collect();
            group.at = index;
            all.live.push(index);
        }
        all
    }

    /// Puts a node into its group.
    pub fn insert(&mut self, node: u32, bonus: i64, constraints: &[TrackedConstraint]) {
        let index = self.index_of(node, bonus, constraints);
        let group = &mut self.groups[index];
        if group.nodes.is_empty() {
            group.at = self.live.len();
            self.live.push(index);
        }
        group.nodes.insert((self.turns[node as usize], node));
        self.group_of[node as usize] = Some(index);
    }

    /// The group of a node, created if needed.
    fn index_of(&mut self, node: u32, bonus: i64, constraints: &[TrackedConstraint]) -> usize {
        let is_ignored =
            self.all_keys_required && !constraints.iter().all(|t| t.is_hard() || t.has_key(node));
        self.key.describe(node, bonus, is_ignored, constraints);
        if let Some(index) = self.by_key.get(&self.key) {
            return *index;
        }
        let index = self.groups.len();
        self.by_key.insert(self.key.clone(), index);
        self.groups.push(NodeGroup {
            key: self.key.clone(),
            nodes: BTreeSet::new(),
            at: 0,
            is_ignored,
            raw: None,
        });
        index
    }

    /// Counts a pick of a node. The node stays in its group, behind the others.
    pub fn take_turn(&mut self, node: u32) {
        let turn = &mut self.turns[node as usize];
        let before = *turn;
        turn.picks += 1;
        if let Some(index) = self.group_of[node as usize] {
            let nodes = &mut self.groups[index].nodes;
            nodes.remove(&(before, node));
            nodes.insert((*turn, node));
        }
    }

    /// Takes a node out of its group. Returns its bonus, if it was in a group.
    pub fn remove(&mut self, node: u32) -> Option<i64> {
        let index = self.group_of[node as usize].take()?;
        let group = &mut self.groups[index];
        group.nodes.remove(&(self.turns[node as usize], node));
        let (bonus, at) = (group.key.bonus, group.at);
        if group.nodes.is_empty() {
            self.live.swap_remove(at);
            if let Some(moved) = self.live.get(at) {
                self.groups[*moved].at = at;
            }
        }
        Some(bonus)
    }

    /// Returns the number of groups with nodes.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Filters and scores once. Returns the best node, if any is feasible.
    pub fn best(&mut self, constraints: &mut [TrackedConstraint]) -> Option<ScoredChoice> {
        let ranked = self.round(constraints).filter_map(|(_, group, score)| {
            let first = group.nodes.first()?;
            Some((
                score.saturating_add(group.key.bonus),
                Reverse(*first),
                score,
            ))
        });
        let best = ranked.max();
        best.map(|(total, Reverse((_, node)), score)| ScoredChoice { node, score, total })
    }

    /// As [`Self::best`], but only of these nodes.
    pub fn best_of(
        &mut self,
        nodes: impl Iterator<Item = u32>,
        constraints: &mut [TrackedConstraint],
    ) -> Option<ScoredChoice> {
        let ranked = self.round(constraints).map(|(index, group, score)| {
            let total = score.saturating_add(group.key.bonus);
            (index, (score, total))
        });
        let ranked: HashMap<usize, (i64, i64)> = ranked.collect();
        let feasible = nodes.filter_map(|node| {
            let (score, total) = *ranked.get(&self.group_of[node as usize]?)?;
            Some((total, Reverse((self.turns[node as usize], node)), score))
        });
        let best = feasible.max();
        best.map(|(total, Reverse((_, node)), score)| ScoredChoice { node, score, total })
    }

    /// Filters and scores once. Returns all feasible nodes.
    pub fn choices(&mut self, constraints: &mut [TrackedConstraint]) -> Vec<ScoredChoice> {
        let groups = self.round(constraints).flat_map(|(_, group, score)| {
            let total = score.saturating_add(group.key.bonus);
            let nodes = group.nodes.iter();
            nodes.map(move |(_, node)| ScoredChoice {
                node: *node,
                score,
                total,
            })
        });
        groups.collect()
    }

    /// Filters and scores. Returns the feasible groups with their numbers and scores.
    fn round(
        &mut self,
        constraints: &mut [TrackedConstraint],
    ) -> impl Iterator<Item = (usize, &NodeGroup, i64)> {
        self.filter(constraints);
        let is_scored = constraints.iter().any(|tracked| !tracked.is_hard());
        if is_scored {
            self.weigh(constraints);
            self.sum(constraints);
        }
        let live = self.live.iter().map(|index| (*index, &self.groups[*index]));
        let scored = live.clone().filter(|(_, group)| !group.is_ignored);
        let range = RawRange::of(scored.filter_map(|(_, group)| group.raw));
        live.filter_map(move |(index, group)| {
            let raw = group.raw?;
            let score = match !is_scored || group.is_ignored {
                true => 0,
                false => range.score(raw),
            };
            Some((index, group, score))
        })
    }

    /// Finds the feasible groups and sets their raw score.
    fn filter(&mut self, constraints: &[TrackedConstraint]) {
        let rules: Vec<SkewRule> = constraints.iter().map(TrackedConstraint::rule).collect();
        for index in &self.live {
            let group = &mut self.groups[*index];
            let key = &group.key;
            let mut marks = key.marks.iter().zip(constraints).zip(&rules).enumerate();
            let passes = marks.all(|(at, ((mark, tracked), rule))| {
                let nominated = key.nominated.get(at).copied().unwrap_or(0);
                !tracked.is_hard() || tracked.admits(*rule, tracked.count_of(*mark), nominated)
            });
            group.raw = passes.then_some(0);
        }
    }

    /// Sets the weights of the soft constraints from the number of domains of the feasible nodes
    /// that are scored.
    fn weigh(&mut self, constraints: &mut [TrackedConstraint]) {
        self.round += 1;
        for (i, tracked) in constraints
            .iter_mut()
            .enumerate()
            .filter(|(_, t)| !t.is_hard())
        {
            let groups = self.live.iter().map(|index| &self.groups[*index]);
            let scored = groups.filter(|group| group.raw.is_some() && !group.is_ignored);
            let size = if matches!(tracked.grain, Grain::Count(_)) {
                // Every node is a domain of its own.
                scored.map(|group| group.nodes.len()).sum()
            } else {
                let seen = &mut self.seen[i];
                let round = self.round;
                let mut size = 0_usize;
                for group in scored {
                    let last = &mut seen[group.key.marks[i] as usize];
                    size += usize::from(*last != round);
                    *last = round;
                }
                size
            };
            tracked.weight = Weight::of(&tracked.active.constraint, size);
        }
    }

    /// Sums up the raw scores of the feasible groups over the soft constraints.
    fn sum(&mut self, constraints: &[TrackedConstraint]) {
        for index in &self.live {
            let group = &mut self.groups[*index];
            if group.raw.is_none() || group.is_ignored {
                continue;
            }
            let mut sum = 0.0;
            for (i, tracked) in constraints.iter().enumerate() {
                if !tracked.is_hard() && group.key.keyed[i] {
                    sum += tracked.weight.part(tracked.count_of(group.key.marks[i]));
                }
            }
            group.raw = Some(round_half_up(sum));
        }
    }
}

impl GroupKey {
    /// Sets the key to that of a node.
    fn describe(
        &mut self,
        node: u32,
        bonus: i64,
        is_ignored: bool,
        constraints: &[TrackedConstraint],
    ) {
        self.bonus = bonus;
        self.marks.clear();
        self.keyed.clear();
        self.nominated.clear();
        for tracked in constraints {
            let is_marked = tracked.is_hard() || !is_ignored;
            self.marks
                .push(if is_marked { tracked.mark(node) } else { 0 });
            self.keyed.push(tracked.has_key(node));
        }
        let nominated = constraints.iter().map(|t| t.nominated_on(node));
        if nominated.clone().any(|pods| pods > 0) {
            self.nominated.extend(nominated);
        }
    }
}
