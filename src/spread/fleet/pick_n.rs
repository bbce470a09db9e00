//! PickN: which clusters a placement goes to until it has as many as wanted, or
//! which it leaves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::super::placement::{Holding, Outcome, Pick, PickStep, Picker, Wish};
use super::super::question::NodeChecks;
use super::super::report::Report;
use super::super::verdict::Reason;
use super::cells::{CandidateCells, Rank};
use super::holders::{self, HolderSpread};
use super::judge::{self, Judge};
use super::placement::PlacementSpec;
use crate::snapshot::{ReadView, Slot};

/// Everything that picking needs. It holds nothing of the snapshot.
#[derive(Debug)]
pub struct PickN {
    /// The constraints, hard ones first.
    spreads: Vec<HolderSpread>,
    /// All clusters, in node order.
    clusters: Vec<KnownCluster>,
    /// What can be picked, best first among equal scores.
    candidates: Vec<usize>,
    wanted: usize,
    /// Holders that should give the placement up, ascending by name.
    removed: Vec<String>,
    /// Clusters that a check refuses or that hold the placement, by reason.
    refused: BTreeMap<Reason, usize>,
}

#[derive(Debug)]
struct KnownCluster {
    slot: Slot,
    name: Box<str>,
    bonus: i64,
    sticky: bool,
}

impl PickN {
    /// Gathers what picking needs from a read view.
    pub fn of(
        question: &PlacementSpec,
        checks: NodeChecks,
        wish: &Wish,
        read_view: &ReadView<'_>,
    ) -> Self {
        let judge = Judge::of(question, checks, read_view);
        let holds = holders::holders(&question.holders, read_view);
        let slots = read_view.nodes.order();
        let clusters: Vec<KnownCluster> = slots
            .iter()
            .map(|s| KnownCluster::of(*s, wish, read_view))
            .collect();

        let asked = wish.candidates.as_ref();
        let asked: Option<HashSet<&str>> = asked.map(|c| c.iter().map(|n| &**n).collect());
        let mut refused = BTreeMap::new();
        let mut candidates = Vec::new();
        let mut holders = Vec::new();
        for (index, cluster) in clusters.iter().enumerate() {
            if holds(cluster.slot) {
                *refused.entry(Reason::HoldsPlacement).or_default() += 1;
                holders.push(cluster);
            } else if asked.as_ref().is_some_and(|a| !a.contains(&*cluster.name)) {
                // The caller refused it for reasons of its own.
            } else if let Err(refusal) = judge.checks.judge(cluster.slot) {
                *refused.entry(refusal.reason).or_default() += 1;
            } else {
                candidates.push(index);
            }
        }
        let surplus = holders.len().saturating_sub(wish.replicas);
        let removed = cut_down(&holders, surplus, wish);
        let wanted = wish.replicas.saturating_sub(holders.len());
        candidates.sort_unstable_by_key(|i| Reverse(clusters[*i].worth(judge.spreads.is_empty())));
        Self {
            spreads: judge.spreads,
            clusters,
            candidates,
            wanted,
            removed,
            refused,
        }
    }

    fn candidates(&self) -> impl Iterator<Item = &KnownCluster> + Clone {
        self.candidates.iter().map(|i| &self.clusters[*i])
    }

    fn pick_all_at_once(&self, with_steps: bool, outcome: &mut Outcome) {
        let names = self.candidates().map(|cluster| cluster.name.clone());
        let picked: Vec<Box<str>> = names.clone().take(self.wanted).collect();
        let pick = |node| Pick { node, score: 0 };
        outcome.picks = picked.iter().cloned().map(pick).collect();
        if with_steps {
            outcome.steps.push(PickStep {
                verdicts: Vec::new(),
                ranking: names.collect(),
                picked,
            });
        }
    }

    fn pick_by_step(
        &mut self,
        with_steps: bool,
        outcome: &mut Outcome,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<()> {
        let slots = self.candidates().map(|cluster| cluster.slot);
        let mut cells = CandidateCells::of(slots, &self.spreads);
        let mut taken = vec![false; self.candidates.len()];
        while outcome.picks.len() < self.wanted {
            if cancelled() {
                return None;
            }
            let is_first = outcome.picks.is_empty();
            let best = if is_first {
                self.best_of_all()
            } else {
                cells.best(&self.spreads)
            };
            if with_steps {
                outcome.steps.push(self.step(&taken, is_first));
            }
            let Some((rank, score)) = best else { break };
            let node = self.clusters[self.candidates[rank as usize]].name.clone();
            if let Some(step) = outcome.steps.last_mut() {
                step.picked.push(node.clone());
            }
            outcome.picks.push(Pick { node, score });
            taken[rank as usize] = true;
            cells.pick(rank, &mut self.spreads);
        }
        Some(())
    }

    /// The first pick: the only one in which it matters who held the placement
    /// before.
    fn best_of_all(&self) -> Option<(Rank, i64)> {
        let ranked = (0..).zip(self.candidates());
        let scored = ranked.filter_map(|(rank, cluster): (Rank, _)| {
            let score = judge::score(&self.spreads, cluster.slot).ok()?;
            Some((score, cluster, rank))
        });
        let best = scored.max_by_key(|(score, cluster, _)| (*score, cluster.worth(true)));
        best.map(|(score, _, rank)| (rank, score))
    }

    fn step(&self, taken: &[bool], is_first: bool) -> PickStep {
        let verdict = |cluster: &KnownCluster| {
            let score = judge::score(&self.spreads, cluster.slot);
            (cluster.name.clone(), score.map_err(|over| over.refusal()))
        };
        let left = self.candidates().zip(taken).filter(|(_, taken)| !**taken);
        let mut ranked: Vec<(i64, &KnownCluster)> = left
            .filter_map(|(cluster, _)| {
                Some((judge::score(&self.spreads, cluster.slot).ok()?, cluster))
            })
            .collect();
        ranked.sort_by_key(|(score, cluster)| Reverse((*score, cluster.worth(is_first))));
        PickStep {
            verdicts: self.clusters.iter().map(verdict).collect(),
            ranking: ranked.iter().map(|(_, c)| c.name.clone()).collect(),
            picked: Vec::new(),
        }
    }

    /// Why the remaining clusters could not be picked.
    fn reasons(&self, picks: &[Pick]) -> BTreeMap<Reason, usize> {
        let mut reasons = self.refused.clone();
        let picked: HashSet<&str> = picks.iter().map(|pick| &*pick.node).collect();
        for cluster in self.candidates() {
            let reason = if picked.contains(&*cluster.name) {
                Reason::HoldsPlacement
            } else if let Err(over) = judge::score(&self.spreads, cluster.slot) {
                over.spread.violation()
            } else {
                continue;
            };
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }
}

impl Picker for PickN {
    fn run(&mut self, with_steps: bool, cancelled: &dyn Fn() -> bool) -> Option<Outcome> {
        let mut outcome = Outcome {
            removed: std::mem::take(&mut self.removed),
            ..Outcome::default()
        };
        if self.wanted > 0 && self.spreads.is_empty() {
            self.pick_all_at_once(with_steps, &mut outcome);
        } else if self.wanted > 0 {
            self.pick_by_step(with_steps, &mut outcome, cancelled)?;
        }
        outcome.unplaced = self.wanted - outcome.picks.len();
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons(&outcome.picks);
        }
        Some(outcome)
    }

    fn step_scores(&self) -> usize {
        let steps = if self.spreads.is_empty() {
            1
        } else {
            self.wanted
        };
        steps.saturating_mul(self.clusters.len())
    }

    fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let mut reports: Vec<_> = self.spreads.iter().map(|s| s.report(max_domains)).collect();
        reports.sort_by_key(|report| report.active.index);
        reports
    }
}

impl KnownCluster {
    fn of(slot: Slot, wish: &Wish, read_view: &ReadView<'_>) -> Self {
        let name = read_view.nodes.name(slot);
        Self {
            slot,
            name: name.into(),
            bonus: wish.bonuses.get(name).copied().unwrap_or(0),
            sticky: wish.sticky.contains(name),
        }
    }

    /// Returns what decides between clusters of equal score; more is better.
    fn worth(&self, counts_sticky: bool) -> (i64, bool, &str) {
        (self.bonus, self.sticky && counts_sticky, &self.name)
    }
}

/// The holders that give the placement up when there are too many.
fn cut_down(holders: &[&KnownCluster], surplus: usize, wish: &Wish) -> Vec<String> {
    let mut leaving: Vec<(Holding, &str)> = holders
        .iter()
        .map(|cluster| {
            let unknown = Holding {
                bound: true,
                ..Holding::default()
            };
            let holding = wish.holders.get(&*cluster.name).copied();
            (holding.unwrap_or(unknown), &*cluster.name)
        })
        .collect();
    leaving.sort_unstable();
    leaving.truncate(surplus);
    let mut removed: Vec<String> = leaving.iter().map(|(_, name)| (*name).to_owned()).collect();
    removed.sort_unstable();
    removed
}
