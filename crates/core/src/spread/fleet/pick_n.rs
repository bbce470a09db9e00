//! PickN: picks clusters for a placement until the wanted number hold it, or holders that give it
//! up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use fixedbitset::FixedBitSet;

use super::super::hard::Report;
use super::super::place::{
    Holding, NodeOutlook, Outcome, Outlook, Pick, Picker, PlaceOptions, PlannedPicks, ScoredChoice,
    pick_along,
};
use super::super::question::NodeChecks;
use super::super::verdict::Reason;
use super::{HolderSpread, Judge, PlacementSpec, holders, score};
use crate::proto::v1;
use crate::snapshot::{Deadline, ReadView, Slot, Stopped};

/// Picks clusters.
#[derive(Clone)]
pub struct PickN<'a> {
    /// The constraints, hard ones first.
    spreads: Vec<HolderSpread<'a>>,
    /// All clusters, in node order.
    clusters: Vec<KnownCluster<'a>>,
    /// The clusters that can be picked, best first among equal scores.
    candidates: Vec<usize>,
    /// For each candidate, true once it was picked.
    taken: Vec<bool>,
    wanted: usize,
    /// The holders that should give up the placement, ascending by name.
    removed: Vec<String>,
    /// Clusters that a check refuses or that hold the placement, by reason.
    refused: BTreeMap<Reason, usize>,
}

#[derive(Clone)]
struct KnownCluster<'a> {
    slot: Slot,
    name: &'a str,
    bonus: i64,
    sticky: bool,
}

impl<'a> PickN<'a> {
    /// Gathers the data from a read view.
    pub fn of(
        question: &'a PlacementSpec,
        checks: NodeChecks,
        options: &PlaceOptions,
        read_view: &ReadView<'a>,
    ) -> Result<Self, Stopped> {
        let judge = Judge::of(question, checks, read_view)?;
        let holds = holders(&question.holders, read_view)?;
        let slots = read_view.nodes.order();
        let clusters: Vec<KnownCluster<'_>> = slots
            .iter()
            .map(|s| KnownCluster::of(*s, options, read_view))
            .collect();

        let asked = options.candidates.as_ref();
        let asked: Option<HashSet<&str>> = asked.map(|c| c.iter().map(|n| &**n).collect());
        let mut refused = BTreeMap::new();
        let mut candidates = Vec::new();
        let mut holders = Vec::new();
        for (index, cluster) in clusters.iter().enumerate() {
            if holds(cluster.slot) {
                *refused.entry(Reason::HoldsPlacement).or_default() += 1;
                holders.push(cluster);
            } else if asked.as_ref().is_some_and(|a| !a.contains(cluster.name)) {
                // The caller excluded the cluster, so it has no reason here.
            } else if let Err(refusal) = judge.checks.judge(cluster.slot)? {
                *refused.entry(refusal.reason).or_default() += 1;
            } else {
                candidates.push(index);
            }
        }
        let surplus = holders.len().saturating_sub(options.replicas);
        let removed = cut_down(&holders, surplus, options);
        let wanted = options.replicas.saturating_sub(holders.len());
        candidates.sort_unstable_by_key(|i| Reverse(clusters[*i].worth(judge.spreads.is_empty())));
        Ok(Self {
            spreads: judge.spreads,
            clusters,
            taken: vec![false; candidates.len()],
            candidates,
            wanted,
            removed,
            refused,
        })
    }

    fn candidates(&self) -> impl Iterator<Item = &KnownCluster<'a>> + Clone {
        self.candidates.iter().map(|i| &self.clusters[*i])
    }

    /// Picks the first candidates. Without constraints nothing changes from pick to pick.
    fn pick_all_at_once(&self, with_steps: bool) -> Result<Outcome, Stopped> {
        let names = self.candidates().map(|cluster| cluster.name);
        let picked = names.clone().take(self.wanted);
        let pick = |node: &str| Pick {
            node: node.into(),
            score: 0,
        };
        let picks: Vec<Pick> = picked.clone().map(pick).collect();
        let mut outcome = Outcome {
            unplaced: self.wanted - picks.len(),
            picks,
            ..Outcome::default()
        };
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons(&outcome.picks)?;
        }
        if with_steps {
            outcome.steps.push(v1::PlacementStep {
                ranking: names.map(str::to_owned).collect(),
                picked: picked.map(str::to_owned).collect(),
                ..Default::default()
            });
        }
        Ok(outcome)
    }

    /// A candidate, by its rank. Among candidates of equal score the smallest rank wins.
    fn cluster(&self, rank: u32) -> &KnownCluster<'a> {
        &self.clusters[self.candidates[rank as usize]]
    }

    /// The candidates that can be picked.
    fn scored(&self) -> impl Iterator<Item = ScoredChoice> {
        (0..self.candidates.len() as u32).filter_map(|node| {
            let score = self.score(node)?;
            let total = score;
            Some(ScoredChoice { node, score, total })
        })
    }

    /// The score of a candidate, if it can be picked.
    fn score(&self, rank: u32) -> Option<i64> {
        let score = || score(&self.spreads, self.cluster(rank).slot).ok();
        (!self.taken[rank as usize]).then(score).flatten()
    }
}

impl Picker for PickN<'_> {
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

    fn outlook(&self) -> Outlook {
        let hard = self.spreads.iter();
        let hard = hard.filter(|spread| spread.active.constraint.is_hard());
        let (moving, fixed): (Vec<_>, Vec<_>) = hard.partition(|spread| spread.follows_picks());
        let candidates = (0..).zip(self.candidates().map(|cluster| cluster.slot));
        let admitted = candidates.filter(|(_, slot)| fixed.iter().all(|it| it.admits(*slot)));
        let nodes = admitted.map(|(node, slot)| NodeOutlook {
            node,
            room: 1,
            judged_by: moving.iter().map(|it| it.judged_by(slot)).collect(),
        });
        let constraints = moving.iter().map(|spread| spread.outlook());
        Outlook::of(self.wanted, constraints.collect(), nodes)
    }

    fn run_along(
        &mut self,
        plan: &[PlannedPicks],
        with_steps: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Outcome, Stopped> {
        let outcome = match self.spreads.is_empty() && self.wanted > 0 {
            true => self.pick_all_at_once(with_steps)?,
            false => pick_along(self, plan, with_steps, deadline)?,
        };
        Ok(Outcome {
            removed: std::mem::take(&mut self.removed),
            ..outcome
        })
    }

    fn wanted(&self) -> usize {
        self.wanted
    }

    fn name(&self, node: u32) -> &str {
        self.cluster(node).name
    }

    fn best(
        &mut self,
        planned: Option<&FixedBitSet>,
        is_first: bool,
        deadline: &Deadline<'_>,
    ) -> Result<Option<ScoredChoice>, Stopped> {
        let steps = (1 + self.spreads.len()).saturating_mul(self.candidates.len());
        deadline.step(steps)?;
        let choices = self
            .scored()
            .filter(|it| planned.is_none_or(|all| all.contains(it.node as usize)));
        let worth = |it: &ScoredChoice| self.cluster(it.node).worth(is_first);
        Ok(choices.max_by_key(|it| (it.score, worth(it))))
    }

    fn step(&self, is_first: bool) -> v1::PlacementStep {
        let mut step = v1::PlacementStep::default();
        for cluster in &self.clusters {
            let node = cluster.name.to_owned();
            match score(&self.spreads, cluster.slot) {
                // A cluster's topology spread score is taken as it is.
                Ok(score) => step.scores.push(v1::NodeScore {
                    node,
                    score,
                    raw: score,
                    ignored: false,
                }),
                Err(by) => step.violations.push(by.refusal(cluster.slot).to_wire(node)),
            }
        }
        let ranked = (0..).zip(self.candidates());
        let ranked = ranked.filter_map(|(rank, cluster)| Some((self.score(rank)?, cluster)));
        let mut ranked: Vec<(i64, &KnownCluster<'_>)> = ranked.collect();
        ranked.sort_by_key(|(score, cluster)| Reverse((*score, cluster.worth(is_first))));
        step.ranking = ranked.iter().map(|(_, it)| it.name.to_owned()).collect();
        step
    }

    fn reasons(&self, picks: &[Pick]) -> Result<BTreeMap<Reason, usize>, Stopped> {
        let mut reasons = self.refused.clone();
        let picked: HashSet<&str> = picks.iter().map(|pick| &*pick.node).collect();
        for cluster in self.candidates() {
            let reason = if picked.contains(cluster.name) {
                Reason::HoldsPlacement
            } else if let Err(by) = score(&self.spreads, cluster.slot) {
                by.violation()
            } else {
                continue;
            };
            *reasons.entry(reason).or_default() += 1;
        }
        Ok(reasons)
    }

    // Each constraint adds at most 1. Bonuses only decide between equal scores.
    fn highest_total(&self) -> i64 {
        i64::try_from(self.spreads.len()).unwrap_or(i64::MAX)
    }

    fn node_count(&self) -> usize {
        self.candidates.len()
    }

    fn choices(&mut self, _: &Deadline<'_>) -> Result<Vec<ScoredChoice>, Stopped> {
        Ok(self.scored().collect())
    }

    fn pick(&mut self, node: u32, _: &Deadline<'_>) -> Result<(), Stopped> {
        self.taken[node as usize] = true;
        let slot = self.cluster(node).slot;
        for spread in &mut self.spreads {
            spread.add(slot);
        }
        Ok(())
    }
}

impl<'a> KnownCluster<'a> {
    fn of(slot: Slot, options: &PlaceOptions, read_view: &ReadView<'a>) -> Self {
        let name = read_view.nodes.name(slot);
        Self {
            slot,
            name,
            bonus: options.bonuses.get(name).copied().unwrap_or(0),
            sticky: options.sticky.contains(name),
        }
    }

    /// Returns the values that decide between clusters of equal score; more is better.
    fn worth(&self, counts_sticky: bool) -> (i64, bool, &str) {
        (self.bonus, self.sticky && counts_sticky, self.name)
    }
}

/// The holders that give up the placement when there are too many.
fn cut_down(holders: &[&KnownCluster<'_>], surplus: usize, options: &PlaceOptions) -> Vec<String> {
    let mut leaving: Vec<(Holding, &str)> = holders
        .iter()
        .map(|cluster| {
            let unknown = Holding {
                bound: true,
                ..Holding::default()
            };
            let holding = options.holders.get(cluster.name).copied();
            (holding.unwrap_or(unknown), cluster.name)
        })
        .collect();
    leaving.sort_unstable();
    leaving.truncate(surplus);
    let mut removed: Vec<String> = leaving.iter().map(|(_, name)| (*name).to_owned()).collect();
    removed.sort_unstable();
    removed
}
