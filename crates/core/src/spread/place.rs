//! Places many pods at once by the rules of the Kubernetes dialect, as if each were filtered,
//! scored and put on its best node before the next pod (`docs/placing.md`), with the options, the result
//! and the limits on further picks in either dialect. Plans of many picks are made from these limits, and
//! pickers can follow such plans.
//!
//! The [`Placer`] makes the counts of Filter and Score once, and each pick counts in both of them. So
//! a pick is judged as by a Filter of a state that holds the picks before it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use fixedbitset::FixedBitSet;

use super::filter::Filter;
use super::hard::{ChangingCounts, GlobalMinimum, HardCount, Report, SkewRule};
use super::question::{Active, Constraints, NodeChecks, Question};
use super::score::{MAX_SCORE, Scores};
use super::verdict::{NODES_PER_STEP, Reason};
use super::volumes::Volumes;
use crate::proto::v1;
use crate::snapshot::{Deadline, DomainKey, Query, ReadView, Slot, Stopped, partition};

/// Puts pods on nodes pick by pick.
#[derive(Clone)]
pub struct Placer<'a> {
    /// Judges nodes, as if the picks were on them.
    filter: Filter<'a>,
    /// Scores nodes, as if the picks were on them.
    scores: Scores<'a>,
    /// The nodes that pass the checks before spread, in node order.
    slots: Cow<'a, [Slot]>,
    /// The same nodes.
    candidates: Vec<Candidate>,
    /// The candidates with nominated pods.
    with_nominated: Vec<usize>,
    /// The candidates that take a pod if the hard constraints admit it. Picks only close some.
    open: FixedBitSet,
    refused: BTreeMap<Reason, usize>,
    wanted: usize,
    read_view: ReadView<'a>,
}

#[derive(Clone)]
struct Candidate {
    /// The number of further pods that the caller allows; `None` if unlimited.
    capacity: Option<u32>,
    /// The bonus that is added to the node's score.
    bonus: i64,
    turn: NodeTurn,
}

/// A node's turn among nodes of equal score. The node with the smallest turn is picked, and among
/// equal turns the first in node order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NodeTurn {
    /// The number of picks of the node.
    picks: u32,
    /// The number of the node's pods that the constraints counted before the first pick.
    counted: u32,
}

impl<'a> Placer<'a> {
    /// Makes the counts for placing pods by these constraints.
    pub fn of(
        question: &'a Question,
        constraints: &'a Constraints,
        checks: NodeChecks,
        options: &PlaceOptions,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let mut filter = Filter::of(question, constraints, checks, read_view)?;
        let emptied = options.emptied.as_deref();
        if let Some(emptied) = emptied.and_then(|name| read_view.nodes.find(name)) {
            filter.empty(emptied);
        }
        let mut refused = BTreeMap::new();
        let slots = passing(&filter, options, read_view, &mut refused)?;
        let counted = counted_on(&slots, constraints, read_view)?;
        let candidates = slots.iter().zip(counted).map(|(slot, counted)| {
            let name = read_view.nodes.name(*slot);
            Candidate {
                capacity: options.capacities.get(name).copied(),
                bonus: options.bonuses.get(name).copied().unwrap_or(0),
                turn: NodeTurn { picks: 0, counted },
            }
        });
        let mut placer = Self {
            candidates: candidates.collect(),
            with_nominated: filter.nominated.places(&slots),
            open: FixedBitSet::with_capacity(slots.len()),
            scores: Scores::counted(constraints, read_view)?,
            filter,
            slots,
            refused,
            wanted: options.replicas,
            read_view: *read_view,
        };
        for node in 0..placer.slots.len() {
            let takes_pods = placer.takes_pods(node)?;
            placer.open.set(node, takes_pods);
        }
        Ok(placer)
    }

    /// Returns whether a candidate takes a pod if the hard constraints admit it.
    fn takes_pods(&self, node: usize) -> Result<bool, Stopped> {
        let is_full = self.candidates[node].capacity == Some(0);
        Ok(!is_full && self.filter.judge_besides_spread(self.slots[node])?.is_ok())
    }

    /// Filters and scores once. Returns the candidates that take a pod, in node order, which is the
    /// order of the scores.
    fn feasible(&mut self, deadline: &Deadline<'_>) -> Result<Vec<usize>, Stopped> {
        let hard = self.filter.hard();
        deadline.step((1 + hard.len()) * (1 + self.slots.len() / NODES_PER_STEP))?;
        let mut passing = self.open.clone();
        for hard in hard {
            passing.intersect_with(&hard.admitted(&self.slots));
        }
        for node in &self.with_nominated {
            let mut all = 0..self.filter.hard().len();
            let admits = |at| self.filter.constraint_admits(at, self.slots[*node]);
            passing.set(*node, self.open.contains(*node) && all.all(admits));
        }
        let passing: Vec<usize> = passing.ones().collect();
        if self.scores.skipped {
            return Ok(passing);
        }
        deadline.step(passing.len())?;
        let slots = passing.iter().map(|node| self.slots[*node]);
        self.scores.score(&slots.collect::<Vec<_>>());
        Ok(passing)
    }

    /// The candidate that came at this position of those that take a pod.
    fn choice(&self, at: usize, node: usize) -> ScoredChoice {
        let score = match self.scores.skipped {
            true => 0,
            false => self.scores.at(at),
        };
        ScoredChoice {
            // There are fewer nodes than 2^32.
            node: node as u32,
            score,
            total: score.saturating_add(self.candidates[node].bonus),
        }
    }

    /// The number of further pods for which a candidate has room, at most the wanted number.
    fn room(&self, node: usize) -> usize {
        let volumes = self.filter.volumes.as_ref();
        let by_disks = volumes.is_some_and(Volumes::is_exclusive).then_some(1);
        let by_room = self.filter.fitting(self.slots[node]);
        let limits = [self.candidates[node].capacity, by_disks, by_room];
        let room = limits.into_iter().flatten().min();
        room.map_or(self.wanted, |room| self.wanted.min(room as usize))
    }
}

impl Picker for Placer<'_> {
    fn outlook(&self) -> Outlook {
        let hard = self.filter.hard().iter();
        let (moving, fixed): (Vec<&HardCount<'_>>, Vec<_>) =
            hard.partition(|hard| hard.active.counts_itself());
        let mut beside: usize = 0;
        let nodes = self.slots.iter().enumerate().filter_map(|(node, slot)| {
            let room = self.room(node);
            let with = self.filter.nominated.on(*slot);
            let refuses = |hard: &&HardCount<'_>| hard.judge(*slot, with).is_err();
            let lacks_key = |hard: &&HardCount<'_>| !hard.counted.domain_of(*slot).is_some();
            if room == 0 || moving.iter().any(lacks_key) || fixed.iter().any(refuses) {
                return None;
            }
            let counts_nominated = |hard: &&HardCount<'_>| hard.nominated_on(*slot, with) > 0;
            if moving.iter().any(counts_nominated) {
                beside = beside.saturating_add(room).min(self.wanted);
                return None;
            }
            let judged_by = moving.iter().map(|hard| {
                let domain = hard.counted.domain_of(*slot);
                let counts = hard.counted.in_use().partition.member(*slot) == domain;
                (domain.index(), counts)
            });
            Some(NodeOutlook {
                node: node as u32,
                room,
                judged_by: judged_by.collect(),
            })
        });
        let constraints = moving.iter().map(|hard| outlook_of(hard));
        let outlook = Outlook::of(self.wanted, constraints.collect(), nodes);
        Outlook { beside, ..outlook }
    }

    fn wanted(&self) -> usize {
        self.wanted
    }

    fn name(&self, node: u32) -> &str {
        self.read_view.nodes.name(self.slots[node as usize])
    }

    fn best(
        &mut self,
        planned: Option<&FixedBitSet>,
        _is_first: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Option<ScoredChoice>, Stopped> {
        let feasible = self.feasible(deadline)?.into_iter().enumerate();
        let planned = feasible.filter(|(_, node)| planned.is_none_or(|it| it.contains(*node)));
        let choices = planned.map(|(at, node)| self.choice(at, node));
        // Of equal ones the last would be taken, so the order is reversed.
        Ok(choices.rev().max_by_key(|choice| {
            let turn = self.candidates[choice.node as usize].turn;
            (choice.total, Reverse(turn))
        }))
    }

    fn reasons(&self, _: &[Pick]) -> Result<BTreeMap<Reason, usize>, Stopped> {
        let mut reasons = self.refused.clone();
        for (slot, candidate) in self.slots.iter().zip(&self.candidates) {
            if candidate.capacity == Some(0) {
                *reasons.entry(Reason::Capacity).or_default() += 1;
            } else if let Err(refusal) = self.filter.judge(*slot)? {
                for reason in refusal.reasons() {
                    *reasons.entry(reason.clone()).or_default() += 1;
                }
            }
        }
        Ok(reasons)
    }

    fn highest_total(&self) -> i64 {
        let score = if self.scores.skipped { 0 } else { MAX_SCORE };
        let bonuses = self.candidates.iter().map(|node| node.bonus);
        score.saturating_add(bonuses.max().unwrap_or(0))
    }

    fn node_count(&self) -> usize {
        self.slots.len()
    }

    fn choices(&mut self, deadline: &Deadline<'_>) -> Result<Vec<ScoredChoice>, Stopped> {
        let feasible = self.feasible(deadline)?.into_iter().enumerate();
        Ok(feasible.map(|(at, node)| self.choice(at, node)).collect())
    }

    fn pick(&mut self, picked: u32, deadline: &Deadline<'_>) -> Result<(), Stopped> {
        let candidate = &mut self.candidates[picked as usize];
        candidate.turn.picks += 1;
        candidate.capacity = candidate.capacity.map(|left| left - 1);
        let slot = self.slots[picked as usize];
        self.scores.add(slot);
        let affected = self.filter.add(slot)?;
        let takes_pods = self.takes_pods(picked as usize)?;
        self.open.set(picked as usize, takes_pods);
        if affected.is_none() {
            return Ok(());
        }
        deadline.step(self.slots.len() / NODES_PER_STEP)?;
        for node in self.open.clone().ones() {
            if affected.has(self.slots[node]) && !self.takes_pods(node)? {
                self.open.remove(node);
            }
        }
        Ok(())
    }

    // The Kubernetes dialect lists no steps.
    fn step(&self, _: bool) -> v1::PlacementStep {
        v1::PlacementStep::default()
    }

    fn step_scores(&self) -> usize {
        0
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let hard = self.filter.hard().iter();
        let hard = hard.map(|it| Report::counted(it.active, &it.counted, max_domains));
        let soft = self.scores.whole_reports(max_domains);
        let mut all: Vec<_> = hard.chain(soft).collect();
        all.sort_by_key(|report| report.active.index);
        all
    }
}

/// The limits that a constraint sets to further picks.
fn outlook_of(hard: &HardCount<'_>) -> HardOutlook {
    let minimum = GlobalMinimum::counted(hard.active, &hard.counted, None);
    HardOutlook {
        rule: hard.rule_at(None),
        from_zero: minimum.min_domains_unmet,
        narrow_at: None,
        counts: ChangingCounts::from(&hard.counted),
    }
}

/// The candidates that pass the checks before spread, in node order.
fn passing<'a>(
    filter: &Filter<'a>,
    options: &PlaceOptions,
    read_view: &ReadView<'a>,
    refused: &mut BTreeMap<Reason, usize>,
) -> Result<Cow<'a, [Slot]>, Stopped> {
    let nodes = read_view.nodes;
    let asked = options.candidates.as_ref();
    let asked: Option<HashSet<Slot>> =
        asked.map(|names| names.iter().filter_map(|name| nodes.find(name)).collect());
    let order = nodes.order().iter().copied();
    let mut slots = Vec::new();
    for slot in order.filter(|slot| asked.as_ref().is_none_or(|asked| asked.contains(slot))) {
        match filter.judge_before_spread(slot)? {
            Ok(()) => slots.push(slot),
            Err(refusal) => {
                for reason in refusal.reasons() {
                    *refused.entry(reason.clone()).or_default() += 1;
                }
            }
        }
    }
    // The slots of all nodes are known by their address, and judged at once.
    Ok(match slots.len() == nodes.len() {
        true => Cow::Borrowed(nodes.order()),
        false => Cow::Owned(slots),
    })
}

/// Returns for each node the number of its pods that the constraints count, summed over the
/// constraints.
fn counted_on(
    slots: &[Slot],
    in_force: &Constraints,
    read_view: &ReadView<'_>,
) -> Result<Vec<u32>, Stopped> {
    let by_node = partition::Key::everywhere(DomainKey::Node);
    let mut counted: Vec<u32> = vec![0; slots.len()];
    let mut left: Vec<_> = in_force.all.iter().map(Active::counted).collect();
    while let Some(selector) = left.pop() {
        // Most constraints of a pod have the same selector, which is counted once.
        let before = left.len();
        left.retain(|other| *other != selector);
        let times = 1 + (before - left.len()) as u32;
        let partition = &by_node;
        let counts = read_view.count(Query {
            selector,
            partition,
        })?;
        read_view.deadline.step(slots.len())?;
        for (sum, slot) in counted.iter_mut().zip(slots) {
            let pods = counts.matching_pods(counts.domain_of(*slot));
            *sum = sum.saturating_add(pods.saturating_mul(times));
        }
    }
    Ok(counted)
}

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
    pub steps: Vec<v1::PlacementStep>,
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

/// A node that can be picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoredChoice {
    /// The node.
    pub node: u32,
    /// The node's score, without its bonus.
    pub score: i64,
    /// The node's score with its bonus.
    pub total: i64,
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

/// A picker, with all data that it needs from a read view.
pub trait Picker: Clone {
    /// Returns the limits on further picks by hard constraints and room.
    fn outlook(&self) -> Outlook;

    /// Picks by a plan as long as the constraints admit its picks, then always picks the best node.
    /// Records every step if `with_steps` is true.
    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        with_steps: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Outcome, Stopped> {
        pick_along(self, plan, with_steps, deadline)
    }

    /// Returns the number of picks that are wanted.
    fn wanted(&self) -> usize;

    /// Returns the number of nodes.
    fn node_count(&self) -> usize;

    /// The name of a node.
    fn name(&self, node: u32) -> &str;

    /// Returns the nodes that can be picked next.
    fn choices(&mut self, deadline: &Deadline<'_>) -> Result<Vec<ScoredChoice>, Stopped>;

    /// The best node that can be picked next, of those that are planned if any are.
    fn best(
        &mut self,
        planned: Option<&FixedBitSet>,
        is_first: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Option<ScoredChoice>, Stopped>;

    /// Counts a pick.
    fn pick(&mut self, node: u32, deadline: &Deadline<'_>) -> Result<(), Stopped>;

    /// The verdicts and the ranking before the next pick.
    fn step(&self, is_first: bool) -> v1::PlacementStep;

    /// The reasons why nodes take no more pods, with the number of nodes.
    fn reasons(&self, picks: &[Pick]) -> Result<BTreeMap<Reason, usize>, Stopped>;

    /// Returns an upper bound of the number that a pick adds to the total.
    fn highest_total(&self) -> i64;

    /// Returns the number of scores that all steps would list.
    fn step_scores(&self) -> usize;

    /// The numbers behind the constraints, in the order of the pod's or the default constraints.
    fn reports(&self, max_domains: usize) -> Vec<Report<'_>>;
}

/// Picks by a plan, and then the best node each time.
pub fn pick_along<P: Picker>(
    picker: &mut P,
    plan: &[PlannedPicks],
    with_steps: bool,
    deadline: &Deadline<'_>,
) -> Result<Outcome, Stopped> {
    let with_nodes = |part: &PlannedPicks| (part.clone(), part.nodes());
    let mut parts = plan.iter().map(with_nodes);
    let mut part = parts.next();
    let mut outcome = Outcome::default();
    while outcome.picks.len() < picker.wanted() {
        let is_first = outcome.picks.is_empty();
        let planned = part.as_ref().map(|(_, nodes)| nodes);
        let best = picker.best(planned, is_first, deadline)?;
        if best.is_none() && part.is_some() {
            part = parts.next();
            continue;
        }
        if with_steps {
            outcome.steps.push(picker.step(is_first));
        }
        let Some(best) = best else { break };
        if let Some((part, nodes)) = &mut part
            && part.take(best.node)
        {
            *nodes = part.nodes();
        }
        let node: Box<str> = picker.name(best.node).into();
        if let Some(step) = outcome.steps.last_mut() {
            step.picked.push(node.to_string());
        }
        let score = best.score;
        outcome.picks.push(Pick { node, score });
        outcome.total = outcome.total.saturating_add(best.total);
        picker.pick(best.node, deadline)?;
    }
    outcome.unplaced = picker.wanted() - outcome.picks.len();
    if outcome.unplaced > 0 {
        outcome.reasons = picker.reasons(&outcome.picks)?;
    }
    Ok(outcome)
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
    /// The plan of one pick of this node.
    pub fn of_node(node: u32) -> Self {
        Self(vec![(vec![node], 1)])
    }

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
