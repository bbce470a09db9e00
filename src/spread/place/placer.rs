//! What is placed where, pick by pick.

use std::collections::{BTreeMap, HashSet};

use super::super::active::{Active, Constraints, NO_CONSTRAINTS};
use super::super::filter::Filter;
use super::super::placement::{Outcome, Pick, Picker, Wish};
use super::super::question::{NodeChecks, Question};
use super::super::report::Report;
use super::super::verdict::Reason;
use super::super::volumes::Volumes;
use super::groups::{Groups, NodeTurn};
use super::outlook::{Outlook, PlannedPicks};
use super::pod_terms::TrackedPodTerms;
use super::tracked::TrackedConstraint;
use super::tracked_volumes::TrackedVolumes;
use crate::snapshot::{DomainKey, Query, ReadView, Slot, partition};

/// What it costs to gather a node besides looking at its room, in units.
const UNITS_PER_NODE: usize = 50;

/// How many picks are made between two checks whether to go on.
const PICKS_PER_LOOK: usize = 32;

/// Everything that placing needs. It holds nothing of the snapshot.
#[derive(Debug, Clone)]
pub struct Placer {
    /// The constraints, in the order of the pod's or the default ones.
    constraints: Vec<TrackedConstraint>,
    /// Affinity between pods; `None` where no term matters.
    pod_terms: Option<TrackedPodTerms>,
    /// Its storage; `None` where picks change nothing.
    volumes: Option<TrackedVolumes>,
    groups: Groups,
    /// The candidates that pass the checks before spread, in node order.
    nodes: Vec<Candidate>,
    refused: BTreeMap<Reason, usize>,
    wanted: usize,
}

#[derive(Debug, Clone)]
struct Candidate {
    name: Box<str>,
    /// How many more fit.
    room: Option<u32>,
    /// Why no more than those.
    full: Vec<Reason>,
    /// What is added to its score.
    bonus: i64,
    /// Whether it lacks the key of a hard constraint.
    lacks_key: bool,
    /// Whether it declares the features that the pod needs.
    declares_needed: bool,
}

impl Placer {
    /// Gathers what placing needs from a read view.
    pub fn of(
        question: &Question,
        checks: NodeChecks,
        wish: &Wish,
        read_view: &ReadView<'_>,
    ) -> Self {
        let mut refused = BTreeMap::new();
        let filter = Filter::of(question, &NO_CONSTRAINTS, checks, read_view);
        let slots = passing(&filter, wish, read_view, &mut refused);
        let in_force = question.constraints_on(read_view);
        let track =
            |active: &Active| TrackedConstraint::of(active, &slots, filter.nominated(), read_view);
        let constraints: Vec<TrackedConstraint> = in_force.all.iter().map(track).collect();
        let pod_terms = filter.pod_terms();
        let pod_terms = pod_terms
            .map(|terms| TrackedPodTerms::of(terms, &slots, filter.nominated(), read_view));
        let volumes = filter.volumes();
        let volumes = volumes.and_then(|it| TrackedVolumes::of(it, &slots, read_view));
        let candidate = |(index, slot): (u32, &Slot)| {
            let lacks_key = |t: &TrackedConstraint| t.is_hard() && !t.domain_of(index).is_some();
            let candidate = Candidate::of(*slot, &filter, wish, read_view);
            Candidate {
                lacks_key: constraints.iter().any(lacks_key),
                ..candidate
            }
        };
        let nodes: Vec<Candidate> = (0_u32..).zip(&slots).map(candidate).collect();
        let counted = counted_on(&slots, &in_force, read_view);
        let waiting = (0_u32..).zip(&nodes).zip(counted);
        let waiting = waiting.map(|((index, node), counted)| {
            let refusal = pod_terms.as_ref().and_then(|terms| terms.refusal(index));
            let takes_pods = node.takes_pods() && refusal.is_none();
            (
                NodeTurn { picks: 0, counted },
                takes_pods.then_some(node.bonus),
            )
        });
        let groups = Groups::of(waiting, &constraints, in_force.all_keys_required);
        Self {
            constraints,
            pod_terms,
            volumes,
            groups,
            nodes,
            refused,
            wanted: wish.replicas,
        }
    }

    /// Counts a pick, and brings nodes into the groups where they belong now.
    fn pick(&mut self, picked: u32) {
        let mut moved = Vec::new();
        for tracked in &mut self.constraints {
            moved.extend_from_slice(tracked.pick(picked));
        }
        moved.sort_unstable();
        moved.dedup();
        let room = &mut self.nodes[picked as usize].room;
        *room = room.map(|room| room - 1);
        if *room == Some(0) {
            self.groups.remove(picked);
        }
        let bonuses: Vec<Option<i64>> =
            moved.iter().map(|node| self.groups.remove(*node)).collect();
        self.groups.take_turn(picked);
        for (node, bonus) in moved.into_iter().zip(bonuses) {
            if let Some(bonus) = bonus {
                self.groups.insert(node, bonus, &self.constraints);
            }
        }
        self.follow(picked);
    }

    /// Has affinity between pods and storage count a pick.
    fn follow(&mut self, picked: u32) {
        let terms = self.pod_terms.as_mut();
        let mut changed = terms.map_or_else(Vec::new, |terms| terms.pick(picked));
        let volumes = self.volumes.as_mut();
        changed.extend(volumes.into_iter().flat_map(|volumes| volumes.pick(picked)));
        for node in changed {
            self.groups.remove(node);
            if self.nodes[node as usize].takes_pods() && self.refusal(node).is_none() {
                let candidate = &self.nodes[node as usize];
                self.groups.insert(node, candidate.bonus, &self.constraints);
            }
        }
    }

    /// Why affinity between pods or storage has a node take no pod now.
    fn refusal(&self, node: u32) -> Option<Reason> {
        let volumes = self.volumes.as_ref();
        let by_volumes = volumes.and_then(|volumes| volumes.refusal(node));
        let terms = self.pod_terms.as_ref();
        by_volumes.or_else(|| terms.and_then(|terms| terms.refusal(node)))
    }

    /// Returns how many are wanted.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Returns what hard constraints and room say of more picks, for plans.
    pub fn outlook(&self) -> Outlook<'_> {
        let rooms = self.nodes.iter().map(|node| node.room);
        Outlook::of(&self.constraints, rooms, self.wanted)
    }

    /// Picks along a plan, as far as every constraint accepts that, and then what is
    /// best. `None` when `cancelled` said so.
    pub fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        for part in plan {
            let mut part = part.clone();
            while part.left() > 0
                && let Some(node) = self.pick_best(&mut outcome, cancelled, |it| part.has(it))?
            {
                part.take(node);
            }
        }
        while self.pick_best(&mut outcome, cancelled, |_| true)?.is_some() {}
        outcome.unplaced = self.wanted - outcome.picks.len();
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons();
        }
        Some(outcome)
    }

    /// Picks the best of the nodes that are `allowed`, if there is one.
    fn pick_best(
        &mut self,
        outcome: &mut Outcome,
        cancelled: &dyn Fn() -> bool,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<Option<u32>> {
        if outcome.picks.len() >= self.wanted {
            return Some(None);
        }
        if outcome.picks.len().is_multiple_of(PICKS_PER_LOOK) && cancelled() {
            return None;
        }
        let Some(best) = self.groups.best(&mut self.constraints, allowed) else {
            return Some(None);
        };
        outcome.picks.push(Pick {
            node: self.nodes[best.node as usize].name.clone(),
            score: best.score,
        });
        self.pick(best.node);
        Some(Some(best.node))
    }

    /// Why each node takes no more.
    fn reasons(&self) -> BTreeMap<Reason, usize> {
        let mut reasons = self.refused.clone();
        for (index, node) in (0_u32..).zip(&self.nodes) {
            for reason in self.reasons_of(index, node) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        reasons
    }

    /// Why a node takes no more; none if it does.
    fn reasons_of(&self, index: u32, node: &Candidate) -> Vec<Reason> {
        if node.room == Some(0) {
            return node.full.clone();
        }
        let mut hard = self.constraints.iter().filter(|t| t.is_hard());
        let by_constraint = hard.find_map(|tracked| {
            let domain = tracked.domain_of(index);
            if !domain.is_some() {
                return Some(Reason::MissingTopologyKey);
            }
            let (count, nominated) = (tracked.count(domain), tracked.nominated_on(index));
            let takes = tracked.admits(tracked.rule(), count, nominated);
            (!takes).then_some(Reason::Skew)
        });
        let others = || self.refusal(index);
        let by_features = || (!node.declares_needed).then_some(Reason::DeclaredFeatures);
        let reason = by_constraint.or_else(others).or_else(by_features);
        reason.into_iter().collect()
    }
}

impl Candidate {
    /// A node that passes the checks besides spread.
    fn of(slot: Slot, filter: &Filter<'_>, wish: &Wish, read_view: &ReadView<'_>) -> Self {
        let name = read_view.nodes.name(slot);
        let capacity = wish.capacities.get(name).copied();
        let capacity = capacity.map(|pods| (pods, vec![Reason::Capacity]));
        let fitting = filter.fitting(slot, wish.replicas);
        let [by_disks, _] = filter.volumes().map(Volumes::most).unwrap_or_default();
        let by_disks = by_disks.map(|(pods, reason)| (pods, vec![reason]));
        let limits = capacity.into_iter().chain(fitting).chain(by_disks);
        let (room, full) = match limits.min_by_key(|(pods, _)| *pods) {
            Some((pods, why)) => (Some(pods), why),
            None => (None, Vec::new()),
        };
        Self {
            bonus: wish.bonuses.get(name).copied().unwrap_or(0),
            name: name.into(),
            room,
            full,
            lacks_key: false,
            declares_needed: filter.features_refusal(slot).is_none(),
        }
    }

    /// Returns whether it takes pods as far as constraints and terms allow.
    fn takes_pods(&self) -> bool {
        self.room != Some(0) && !self.lacks_key && self.declares_needed
    }
}

impl Picker for Placer {
    fn run(&mut self, _with_steps: bool, cancelled: &dyn Fn() -> bool) -> Option<Outcome> {
        self.run_along(&[], cancelled)
    }

    // This dialect lists no steps.
    fn step_scores(&self) -> usize {
        0
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let all = self.constraints.iter();
        all.map(|tracked| tracked.report(max_domains)).collect()
    }
}

/// The candidates that pass the checks besides spread, in node order.
fn passing(
    filter: &Filter<'_>,
    wish: &Wish,
    read_view: &ReadView<'_>,
    refused: &mut BTreeMap<Reason, usize>,
) -> Vec<Slot> {
    let asked = wish.candidates.as_ref();
    let asked: Option<HashSet<Slot>> = asked.map(|names| {
        names
            .iter()
            .filter_map(|name| read_view.nodes.find(name))
            .collect()
    });
    let order = read_view.nodes.order().iter().copied();
    let mut slots: Vec<Slot> = order
        .filter(|slot| asked.as_ref().is_none_or(|asked| asked.contains(slot)))
        .collect();
    // Judged here, and then asked how many fit.
    let units = UNITS_PER_NODE + 2 * filter.units_per_node();
    slots.retain(|slot| match filter.judge_besides_pods(*slot) {
        _ if !read_view.affords(units) => false,
        Ok(()) => true,
        Err(refusal) => {
            for reason in refusal.reasons() {
                *refused.entry(reason.clone()).or_default() += 1;
            }
            false
        }
    });
    slots
}

/// Returns how many pods on each node the constraints count, added up over them.
fn counted_on(slots: &[Slot], in_force: &Constraints, read_view: &ReadView<'_>) -> Vec<u32> {
    let by_node = partition::Key::everywhere(DomainKey::Node);
    let mut counted: Vec<u32> = vec![0; slots.len()];
    let mut left: Vec<_> = in_force.all.iter().map(Active::counted).collect();
    while let Some(selector) = left.pop() {
        // Most constraints of a pod have one selector.
        let before = left.len();
        left.retain(|other| *other != selector);
        let times = 1 + (before - left.len()) as u32;
        let partition = &by_node;
        let counts = read_view.count(Query {
            selector,
            partition,
        });
        for (sum, slot) in counted.iter_mut().zip(slots) {
            let pods = counts.matching_pods(counts.domain_of(*slot));
            *sum = sum.saturating_add(pods.saturating_mul(times));
        }
    }
    counted
}
