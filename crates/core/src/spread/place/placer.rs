//! The placer, which puts pods on nodes pick by pick.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::super::active::{Active, Constraints, NO_CONSTRAINTS};
use super::super::filter::Filter;
use super::super::placement::{Outcome, Pick, Picker, PlaceOptions};
use super::super::question::{NodeChecks, Question};
use super::super::report::Report;
use super::super::scoring::MAX_SCORE;
use super::super::skew::SkewRule;
use super::super::verdict::Reason;
use super::super::volumes::Volumes;
use super::groups::{Groups, NodeTurn, ScoredChoice};
use super::outlook::{HardOutlook, Outlook, PlannedPicker, PlannedPicks, RuleByMinimum};
use super::pod_terms::TrackedPodTerms;
use super::tracked::TrackedConstraint;
use super::tracked_volumes::TrackedVolumes;
use crate::snapshot::{Deadline, DomainKey, Query, ReadView, Slot, Stopped, partition};

/// The data that placing needs. It keeps no reference to the snapshot.
#[derive(Debug, Clone)]
pub struct Placer {
    /// The constraints, in the order of the pod's or the default constraints.
    constraints: Vec<TrackedConstraint>,
    /// Affinity between pods; `None` if no term matters.
    pod_terms: Option<TrackedPodTerms>,
    /// The pod's storage; `None` if picks do not affect it.
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
    /// The number of further pods that fit; `None` if unlimited.
    room: Option<u32>,
    /// The reasons why no more pods fit. There may be one for each resource of the pod.
    full: Arc<[Reason]>,
    /// The bonus that is added to the node's score.
    bonus: i64,
    /// True if the node lacks the key of a hard constraint.
    lacks_key: bool,
    /// True if the node declares the features that the pod needs.
    declares_needed: bool,
}

impl Placer {
    /// Gathers the data from a read view.
    pub fn of(
        question: &Question,
        checks: NodeChecks,
        options: &PlaceOptions,
        read_view: &ReadView<'_>,
    ) -> Result<Self, Stopped> {
        let in_force = question.constraints_on(read_view)?;
        Self::under(question, &in_force, checks, options, read_view)
    }

    /// Gathers the data for placing by other constraints than those of the question.
    pub fn under(
        question: &Question,
        in_force: &Constraints,
        checks: NodeChecks,
        options: &PlaceOptions,
        read_view: &ReadView<'_>,
    ) -> Result<Self, Stopped> {
        let mut refused = BTreeMap::new();
        let filter = Filter::of(question, &NO_CONSTRAINTS, checks, read_view)?;
        let slots = passing(&filter, options, read_view, &mut refused)?;
        let track =
            |active: &Active| TrackedConstraint::of(active, &slots, &filter.nominated, read_view);
        let constraints = in_force.all.iter().map(track);
        let constraints: Vec<TrackedConstraint> = constraints.collect::<Result<_, _>>()?;
        let pod_terms = filter.pod_terms.as_ref();
        let pod_terms =
            pod_terms.map(|terms| TrackedPodTerms::of(terms, &slots, &filter.nominated, read_view));
        let volumes = match &filter.volumes {
            Some(volumes) => TrackedVolumes::of(volumes, &slots, read_view)?,
            None => None,
        };
        let [by_disks, _] = filter
            .volumes
            .as_ref()
            .map(Volumes::most)
            .unwrap_or_default();
        let candidate = |(index, slot): (u32, &Slot)| {
            let lacks_key = |t: &TrackedConstraint| t.is_hard() && !t.domain_of(index).is_some();
            let lacks_key = constraints.iter().any(lacks_key);
            let by_disks = by_disks.clone();
            Candidate::of(*slot, lacks_key, by_disks, &filter, options, read_view)
        };
        let nodes = (0_u32..).zip(&slots).map(candidate);
        let nodes: Vec<Candidate> = nodes.collect::<Result<_, _>>()?;
        let counted = counted_on(&slots, in_force, read_view)?;
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
        Ok(Self {
            constraints,
            pod_terms,
            volumes,
            groups,
            nodes,
            refused,
            wanted: options.replicas,
        })
    }

    /// Counts a pick in affinity between pods and in storage.
    fn follow(&mut self, picked: u32, deadline: &Deadline<'_>) -> Result<(), Stopped> {
        let terms = self.pod_terms.as_mut();
        let mut changed = terms.map_or_else(Vec::new, |terms| terms.pick(picked));
        if let Some(volumes) = &mut self.volumes {
            changed.extend(volumes.pick(picked, deadline)?);
        }
        for node in deadline.each(changed) {
            let node = node?;
            self.groups.remove(node);
            if self.nodes[node as usize].takes_pods() && self.refusal(node).is_none() {
                let candidate = &self.nodes[node as usize];
                self.groups.insert(node, candidate.bonus, &self.constraints);
            }
        }
        Ok(())
    }

    /// The reason why affinity between pods or storage lets a node take no pod at present.
    fn refusal(&self, node: u32) -> Option<Reason> {
        let volumes = self.volumes.as_ref();
        let by_volumes = volumes.and_then(|volumes| volumes.refusal(node));
        let terms = self.pod_terms.as_ref();
        by_volumes.or_else(|| terms.and_then(|terms| terms.refusal(node)))
    }

    /// Returns whether more picks are wanted.
    fn wants_more(&self, outcome: &Outcome, deadline: &Deadline<'_>) -> Result<bool, Stopped> {
        deadline.step(self.groups.len() * (1 + self.constraints.len()))?;
        Ok(outcome.picks.len() < self.wanted)
    }

    /// Picks a node and records the pick in the outcome.
    fn note(
        &mut self,
        best: ScoredChoice,
        outcome: &mut Outcome,
        deadline: &Deadline<'_>,
    ) -> Result<(), Stopped> {
        outcome.picks.push(Pick {
            node: self.nodes[best.node as usize].name.clone(),
            score: best.score,
        });
        outcome.total = outcome.total.saturating_add(best.total);
        self.pick(best.node, deadline)
    }

    /// The reasons why nodes take no more pods, with the number of nodes.
    fn reasons(&self) -> BTreeMap<Reason, usize> {
        let mut reasons = self.refused.clone();
        for (index, node) in (0_u32..).zip(&self.nodes) {
            for reason in self.reasons_of(index, node) {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        reasons
    }

    /// The reasons why a node takes no more pods; empty if it takes one.
    fn reasons_of(&self, index: u32, node: &Candidate) -> Vec<Reason> {
        if node.room == Some(0) {
            return node.full.to_vec();
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
    /// The candidate for a node that passes the checks before spread.
    fn of(
        slot: Slot,
        lacks_key: bool,
        by_disks: Option<(u32, Reason)>,
        filter: &Filter<'_>,
        options: &PlaceOptions,
        read_view: &ReadView<'_>,
    ) -> Result<Self, Stopped> {
        read_view.deadline.step(1 + filter.steps_per_node())?;
        let name = read_view.nodes.name(slot);
        let capacity = options.capacities.get(name).copied();
        let capacity = capacity.map(|pods| (pods, vec![Reason::Capacity]));
        let fitting = filter.fitting(slot, options.replicas);
        let fitting = fitting.filter(|_| options.emptied.as_deref() != Some(name));
        let by_disks = by_disks.map(|(pods, reason)| (pods, vec![reason]));
        let limits = capacity.into_iter().chain(fitting).chain(by_disks);
        let (room, full) = match limits.min_by_key(|(pods, _)| *pods) {
            Some((pods, why)) => (Some(pods), why),
            None => (None, Vec::new()),
        };
        Ok(Self {
            bonus: options.bonuses.get(name).copied().unwrap_or(0),
            name: name.into(),
            room,
            full: full.into(),
            lacks_key,
            declares_needed: filter.features_refusal(slot).is_none(),
        })
    }

    /// Returns whether the node takes pods if constraints and terms allow it.
    fn takes_pods(&self) -> bool {
        self.room != Some(0) && !self.lacks_key && self.declares_needed
    }
}

impl PlannedPicker for Placer {
    fn outlook(&self) -> Outlook<'_> {
        let hard = self.constraints.iter().filter(|t| t.is_hard());
        let (moving, fixed): (Vec<_>, Vec<_>) = hard.partition(|t| t.counts_picks);
        let mut beside: usize = 0;
        let nodes = (0_u32..).zip(&self.nodes).filter_map(|(node, candidate)| {
            let room = candidate.room.map_or(self.wanted, |room| room as usize);
            let room = room.min(self.wanted);
            let refuses = |t: &&TrackedConstraint| {
                let nominated = t.nominated_on(node);
                !t.admits(t.rule(), t.count(t.domain_of(node)), nominated)
            };
            if room == 0 || candidate.lacks_key || fixed.iter().any(refuses) {
                return None;
            }
            if moving.iter().any(|tracked| tracked.nominated_on(node) > 0) {
                beside = beside.saturating_add(room).min(self.wanted);
                return None;
            }
            let key = moving.iter().map(|tracked| {
                let domain = tracked.domain_of(node);
                (domain.index(), tracked.counted_in(node) == Some(domain))
            });
            Some((node, room, key.collect()))
        });
        let constraints = moving.iter();
        let constraints = constraints.map(|t| HardOutlook {
            constraint: *t,
            counts: t.domain_counts().collect(),
        });
        let outlook = Outlook::of(self.wanted, constraints.collect(), nodes);
        Outlook { beside, ..outlook }
    }

    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        _with_steps: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Outcome, Stopped> {
        let mut outcome = Outcome::default();
        for part in plan {
            let mut part = part.clone();
            while self.wants_more(&outcome, deadline)?
                && let Some(best) = self.groups.best_of(part.nodes(), &mut self.constraints)
            {
                part.take(best.node);
                self.note(best, &mut outcome, deadline)?;
            }
        }
        while self.wants_more(&outcome, deadline)?
            && let Some(best) = self.groups.best(&mut self.constraints)
        {
            self.note(best, &mut outcome, deadline)?;
        }
        outcome.unplaced = self.wanted - outcome.picks.len();
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons();
        }
        Ok(outcome)
    }

    fn highest_total(&self) -> i64 {
        let is_scored = self.constraints.iter().any(|tracked| !tracked.is_hard());
        let score = if is_scored { MAX_SCORE } else { 0 };
        let bonuses = self.nodes.iter().map(|node| node.bonus);
        score.saturating_add(bonuses.max().unwrap_or(0))
    }

    fn node_count(&self) -> usize {
        self.nodes.len()
    }

    fn choices(&mut self) -> Vec<ScoredChoice> {
        self.groups.choices(&mut self.constraints)
    }

    // Nodes whose key changes by the pick move to their new groups.
    fn pick(&mut self, picked: u32, deadline: &Deadline<'_>) -> Result<(), Stopped> {
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
        self.follow(picked, deadline)
    }
}

impl RuleByMinimum for TrackedConstraint {
    fn rule_at(&self, smallest: Option<u32>) -> SkewRule {
        SkewRule::of(&self.active, self.minimum_of(smallest).pods)
    }
}

impl Picker for Placer {
    fn run(&mut self, with_steps: bool, deadline: &Deadline<'_>) -> Result<Outcome, Stopped> {
        self.run_along(&[], with_steps, deadline)
    }

    // The Kubernetes dialect lists no steps.
    fn step_scores(&self) -> usize {
        0
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let all = self.constraints.iter();
        all.map(|tracked| tracked.report(max_domains)).collect()
    }
}

/// The candidates that pass the checks before spread, in node order.
fn passing(
    filter: &Filter<'_>,
    options: &PlaceOptions,
    read_view: &ReadView<'_>,
    refused: &mut BTreeMap<Reason, usize>,
) -> Result<Vec<Slot>, Stopped> {
    let asked = options.candidates.as_ref();
    let asked: Option<HashSet<Slot>> = asked.map(|names| {
        names
            .iter()
            .filter_map(|name| read_view.nodes.find(name))
            .collect()
    });
    let order = read_view.nodes.order().iter().copied();
    let order = order.filter(|slot| asked.as_ref().is_none_or(|asked| asked.contains(slot)));
    let emptied = options.emptied.as_deref();
    let is_emptied = |slot: Slot| emptied == Some(read_view.nodes.name(slot));
    let mut slots = Vec::new();
    for slot in order {
        match filter.judge_besides_pods(slot)? {
            Err(refusal) if !(refusal.is_of_room() && is_emptied(slot)) => {
                for reason in refusal.reasons() {
                    *refused.entry(reason.clone()).or_default() += 1;
                }
            }
            _ => slots.push(slot),
        }
    }
    Ok(slots)
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
