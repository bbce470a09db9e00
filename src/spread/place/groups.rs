//! Nodes that no constraint can tell apart, and the best of them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::super::scoring::{RawRange, Weight, round_half_up};
use super::super::skew::SkewRule;
use super::tracked::{Grain, TrackedConstraint};

/// The nodes that can take another pod, grouped.
#[derive(Debug)]
pub struct Groups {
    by_key: HashMap<GroupKey, usize>,
    groups: Vec<NodeGroup>,
    /// Those with nodes.
    live: Vec<usize>,
    /// By node: its group.
    group_of: Vec<Option<usize>>,
    /// Whether nodes that lack the key of a soft constraint are left out of
    /// scoring.
    all_keys_required: bool,
    /// By soft constraint and domain, the round in which the domain was last
    /// seen. For counting distinct domains.
    seen: Vec<Vec<u64>>,
    round: u64,
}

/// What all nodes of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    /// By constraint; 0 where the group is not scored.
    marks: Box<[u32]>,
    /// By constraint: whether it has the topology key.
    keyed: Box<[bool]>,
    /// By constraint: how many pods that are nominated to the node it counts there;
    /// nothing where it is none of any.
    nominated: Box<[u32]>,
    bonus: i64,
}

#[derive(Debug)]
struct NodeGroup {
    key: GroupKey,
    /// Each with its turn: the first of them is next.
    nodes: BTreeSet<(Turn, u32)>,
    /// Where it is among the live ones.
    at: usize,
    is_ignored: bool,
    /// In the last round: whether it is feasible, and its raw score.
    raw: Option<i64>,
}

/// When a node is taken among equals: the one with the smallest turn first, then
/// the first in node order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// How often it was picked.
    pub picks: u32,
    /// How many of its pods the constraints counted before the first pick.
    pub counted: u32,
}

/// The best node of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Best {
    /// The node.
    pub node: u32,
    /// Its score, without its bonus.
    pub score: i64,
}

impl Groups {
    /// No nodes yet, out of `nodes`.
    pub fn of(nodes: usize, constraints: &[TrackedConstraint], all_keys_required: bool) -> Self {
        let seen = |tracked: &TrackedConstraint| {
            vec![0; if tracked.is_hard() { 0 } else { tracked.len() }]
        };
        Self {
            by_key: HashMap::new(),
            groups: Vec::new(),
            live: Vec::new(),
            group_of: vec![None; nodes],
            all_keys_required,
            seen: constraints.iter().map(seen).collect(),
            round: 0,
        }
    }

    /// Puts a node into its group.
    pub fn insert(&mut self, node: u32, turn: Turn, bonus: i64, constraints: &[TrackedConstraint]) {
        let keyed: Box<[bool]> = constraints.iter().map(|t| t.has_key(node)).collect();
        let soft_keyed = constraints
            .iter()
            .zip(&keyed)
            .all(|(t, keyed)| t.is_hard() || *keyed);
        let is_ignored = self.all_keys_required && !soft_keyed;
        let mark = |tracked: &TrackedConstraint| match is_ignored && !tracked.is_hard() {
            true => 0,
            false => tracked.mark(node),
        };
        let nominated = constraints.iter().map(|t| t.nominated_on(node));
        let has_any = nominated.clone().any(|pods| pods > 0);
        let key = GroupKey {
            nominated: match has_any {
                true => nominated.collect(),
                false => Box::default(),
            },
            marks: constraints.iter().map(mark).collect(),
            keyed,
            bonus,
        };
        let index = match self.by_key.get(&key) {
            Some(index) => *index,
            None => {
                let index = self.groups.len();
                self.by_key.insert(key.clone(), index);
                self.groups.push(NodeGroup {
                    key,
                    nodes: BTreeSet::new(),
                    at: 0,
                    is_ignored,
                    raw: None,
                });
                index
            }
        };
        let group = &mut self.groups[index];
        if group.nodes.is_empty() {
            group.at = self.live.len();
            self.live.push(index);
        }
        group.nodes.insert((turn, node));
        self.group_of[node as usize] = Some(index);
    }

    /// Takes a node out of its group, with the turn that it has there. Returns its
    /// bonus, if it was in one.
    pub fn remove(&mut self, node: u32, turn: Turn) -> Option<i64> {
        let index = self.group_of[node as usize].take()?;
        let group = &mut self.groups[index];
        group.nodes.remove(&(turn, node));
        let (bonus, at) = (group.key.bonus, group.at);
        if group.nodes.is_empty() {
            self.live.swap_remove(at);
            if let Some(moved) = self.live.get(at) {
                self.groups[*moved].at = at;
            }
        }
        Some(bonus)
    }

    /// One round of filtering and scoring: the best node, if any is feasible.
    pub fn best(&mut self, constraints: &mut [TrackedConstraint]) -> Option<Best> {
        self.filter(constraints);
        let is_scored = constraints.iter().any(|tracked| !tracked.is_hard());
        if is_scored {
            self.weigh(constraints);
            self.sum(constraints);
        }
        let live = self.live.iter().map(|index| &self.groups[*index]);
        let scored = live.filter(|group| !group.is_ignored);
        let scored = scored.filter_map(|group| group.raw);
        let range = RawRange::of(scored);
        let live = self.live.iter().map(|index| &self.groups[*index]);
        let ranked = live.filter_map(|group| {
            let (raw, first) = group.raw.zip(group.nodes.first())?;
            let score = match !is_scored || group.is_ignored {
                true => 0,
                false => range.score(raw),
            };
            let total = score.saturating_add(group.key.bonus);
            Some((total, Reverse(*first), score))
        });
        let best = ranked.max();
        best.map(|(_, Reverse((_, node)), score)| Best { node, score })
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

    /// Sets the weights of the soft constraints, by the number of domains of the
    /// feasible nodes that are scored.
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

    /// Adds up raw scores, constraint by constraint.
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
