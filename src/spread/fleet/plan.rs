//! PickN: which clusters a placement goes to until it holds as many as are
//! wanted, or which it leaves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::question::NodeChecks;
use super::super::report::Report;
use super::cells::{Cells, Rank};
use super::judge::{self, Judge, Refused};
use super::question::Question;
use super::spread::{self, Spread};
use crate::snapshot::{ReadView, Slot};

/// The reason for clusters that cannot be picked again.
const HOLDS_ALREADY: &str = "cluster(s) hold the placement";

/// What a caller wishes for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The wanted total, holders included.
    pub replicas: usize,
    /// Clusters to choose from; `None` is all.
    pub candidates: Option<Vec<String>>,
    /// Its preferences, by cluster; 0 for others.
    pub bonuses: HashMap<String, i64>,
    /// What it knows of holders, by cluster.
    pub holders: HashMap<String, Holding>,
    /// Holders of an earlier policy.
    pub sticky: HashSet<String>,
}

/// What is known about a holder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    /// Whether it is in effect; others go first.
    pub bound: bool,
    /// Its topology spread score when it was picked; `None` goes first.
    pub spread_score: Option<i64>,
    /// Its bonus when it was picked; `None` goes first.
    pub bonus: Option<i64>,
}

/// How picking goes on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// Whether every step is written down.
    pub with_steps: bool,
}

/// All that picking needs. Holds nothing of the snapshot.
#[derive(Debug)]
pub struct Plan {
    /// The constraints, hard ones first.
    pub spreads: Vec<Spread>,
    /// All clusters, in node order.
    clusters: Vec<Cluster>,
    /// What can be picked, best first among equal scores.
    candidates: Vec<usize>,
    wanted: usize,
    /// Holders that should go, ascending by name.
    pub removed: Vec<String>,
    /// Clusters that no constraint refuses but a check or the caller does.
    refused: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Cluster {
    slot: Slot,
    name: Box<str>,
    bonus: i64,
    sticky: bool,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The picks, in order.
    pub picks: Vec<Pick>,
    /// How many found no cluster.
    pub unplaced: usize,
    /// Why: clusters by reason.
    pub reasons: BTreeMap<String, usize>,
    /// Every step, if wished for.
    pub steps: Vec<Step>,
}

/// One pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Name of the cluster.
    pub node: Box<str>,
    /// Its topology spread score at the time.
    pub score: i64,
}

/// One step.
#[derive(Debug, Default)]
pub struct Step {
    /// All clusters in node order with their score or the constraint that
    /// refuses them; empty without constraints.
    pub verdicts: Vec<(Box<str>, Result<i64, Verdict>)>,
    /// What could be picked, best first.
    pub ranking: Vec<Box<str>>,
    /// What was picked.
    pub picked: Vec<Box<str>>,
}

/// A refusal by a hard constraint.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The words.
    pub reason: String,
    /// Index of the constraint.
    pub constraint_index: usize,
    /// Holders in the cluster's domain.
    pub holders: u32,
    /// What the skew would become.
    pub skew: i64,
}

impl Plan {
    /// Gathers what picking needs from a read view.
    pub fn of(
        question: &Question,
        checks: NodeChecks,
        wish: &Wish,
        read_view: &ReadView<'_>,
    ) -> Self {
        let judge = Judge::of(question, checks, read_view);
        let holds = spread::holders(&question.holders, read_view);
        let slots = read_view.nodes.order();
        let clusters: Vec<Cluster> = slots
            .iter()
            .map(|s| Cluster::of(*s, wish, read_view))
            .collect();

        let asked = wish.candidates.as_ref();
        let asked: Option<HashSet<&str>> = asked.map(|c| c.iter().map(|n| &**n).collect());
        let mut refused = BTreeMap::new();
        let mut candidates = Vec::new();
        let mut holders = Vec::new();
        for (index, cluster) in clusters.iter().enumerate() {
            if holds(cluster.slot) {
                *refused.entry(HOLDS_ALREADY.to_owned()).or_default() += 1;
                holders.push(cluster);
            } else if asked.as_ref().is_some_and(|a| !a.contains(&*cluster.name)) {
                // The caller refused it for reasons of its own.
            } else if let Err(refusal) = judge.check(cluster.slot) {
                *refused
                    .entry(refusal.reason.as_str().to_owned())
                    .or_default() += 1;
            } else {
                candidates.push(index);
            }
        }
        let surplus = holders.len().saturating_sub(wish.replicas);
        let removed = cut_down(&holders, surplus, wish);
        let wanted = wish.replicas.saturating_sub(holders.len());
        candidates
            .sort_unstable_by_key(|i| Reverse(clusters[*i].worth(judge.spreads().is_empty())));
        Self {
            spreads: judge.into_spreads(),
            clusters,
            candidates,
            wanted,
            removed,
            refused,
        }
    }

    /// How many scores all steps would list.
    pub fn step_scores(&self) -> usize {
        let steps = if self.spreads.is_empty() {
            1
        } else {
            self.wanted
        };
        steps.saturating_mul(self.clusters.len())
    }

    /// Picks. `None` when `cancelled` said so.
    pub fn run(&mut self, policy: Policy, cancelled: &dyn Fn() -> bool) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        if self.wanted > 0 && self.spreads.is_empty() {
            self.pick_all_at_once(policy, &mut outcome);
        } else if self.wanted > 0 {
            self.pick_by_step(policy, &mut outcome, cancelled)?;
        }
        outcome.unplaced = self.wanted - outcome.picks.len();
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons(&outcome.picks);
        }
        Some(outcome)
    }

    fn pick_all_at_once(&self, policy: Policy, outcome: &mut Outcome) {
        let names = self
            .candidates
            .iter()
            .map(|i| self.clusters[*i].name.clone());
        let picked: Vec<Box<str>> = names.clone().take(self.wanted).collect();
        let pick = |node| Pick { node, score: 0 };
        outcome.picks = picked.iter().cloned().map(pick).collect();
        if policy.with_steps {
            outcome.steps.push(Step {
                verdicts: Vec::new(),
                ranking: names.collect(),
                picked,
            });
        }
    }

    fn pick_by_step(
        &mut self,
        policy: Policy,
        outcome: &mut Outcome,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<()> {
        let slots = self.candidates.iter().map(|i| self.clusters[*i].slot);
        let mut cells = Cells::of(slots, &self.spreads);
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
            if policy.with_steps {
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

    /// The first pick, in which alone it matters who held the placement
    /// before.
    fn best_of_all(&self) -> Option<(Rank, i64)> {
        let scored = (0..)
            .zip(&self.candidates)
            .filter_map(|(rank, index): (Rank, _)| {
                let cluster = &self.clusters[*index];
                let score = judge::score(&self.spreads, cluster.slot).ok()?;
                Some((score, cluster, rank))
            });
        let best = scored.max_by_key(|(score, cluster, _)| (*score, cluster.worth(true)));
        best.map(|(score, _, rank)| (rank, score))
    }

    fn step(&self, taken: &[bool], is_first: bool) -> Step {
        let verdict = |cluster: &Cluster| {
            let score = judge::score(&self.spreads, cluster.slot);
            (
                cluster.name.clone(),
                score.map_err(|refused| Verdict::of(&refused)),
            )
        };
        let left = self
            .candidates
            .iter()
            .zip(taken)
            .filter(|(_, taken)| !**taken);
        let mut ranked: Vec<(i64, &Cluster)> = left
            .filter_map(|(index, _)| {
                let cluster = &self.clusters[*index];
                Some((judge::score(&self.spreads, cluster.slot).ok()?, cluster))
            })
            .collect();
        ranked.sort_by_key(|(score, cluster)| Reverse((*score, cluster.worth(is_first))));
        Step {
            verdicts: self.clusters.iter().map(verdict).collect(),
            ranking: ranked.iter().map(|(_, c)| c.name.clone()).collect(),
            picked: Vec::new(),
        }
    }

    /// Why the clusters that are left could not be picked.
    fn reasons(&self, picks: &[Pick]) -> BTreeMap<String, usize> {
        let mut reasons = self.refused.clone();
        let picked: HashSet<&str> = picks.iter().map(|pick| &*pick.node).collect();
        for cluster in self.candidates.iter().map(|i| &self.clusters[*i]) {
            let reason = if picked.contains(&*cluster.name) {
                HOLDS_ALREADY.to_owned()
            } else if let Err(refused) = judge::score(&self.spreads, cluster.slot) {
                refused.reason()
            } else {
                continue;
            };
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    }

    /// The numbers behind the constraints, in the order of the pod's.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        let mut reports: Vec<_> = self.spreads.iter().map(|s| s.report(max_domains)).collect();
        reports.sort_by_key(|report| report.active.index);
        reports
    }
}

impl Cluster {
    fn of(slot: Slot, wish: &Wish, read_view: &ReadView<'_>) -> Self {
        let name = read_view.nodes.name(slot);
        Self {
            slot,
            name: name.into(),
            bonus: wish.bonuses.get(name).copied().unwrap_or(0),
            sticky: wish.sticky.contains(name),
        }
    }

    /// What decides between clusters of equal score; more is better.
    fn worth(&self, counts_sticky: bool) -> (i64, bool, &str) {
        (self.bonus, self.sticky && counts_sticky, &self.name)
    }
}

impl Verdict {
    /// What a constraint's refusal says.
    pub fn of(refused: &Refused<'_>) -> Self {
        let reason = refused.reason();
        match refused {
            Refused::ByCheck(refusal) => Self {
                reason,
                constraint_index: refusal.constraint_index.unwrap_or(usize::MAX),
                holders: 0,
                skew: 0,
            },
            Refused::BySpread {
                spread,
                holders,
                skew,
            } => Self {
                reason,
                constraint_index: spread.active.index,
                holders: *holders,
                skew: *skew,
            },
        }
    }
}

/// The holders that go when there are too many.
fn cut_down(holders: &[&Cluster], surplus: usize, wish: &Wish) -> Vec<String> {
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
