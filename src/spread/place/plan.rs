//! What is placed where, pick by pick.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::active::Constraints;
use super::super::filter::Filter;
use super::super::question::{NodeChecks, Question};
use super::super::report::Report;
use super::super::verdict::Reason;
use super::groups::Groups;
use super::tracked::Tracked;
use crate::snapshot::{ReadView, Slot};

/// How many picks are made before looking whether to go on.
const PICKS_PER_LOOK: usize = 32;

/// What a caller wishes for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many to place.
    pub replicas: usize,
    /// Nodes to choose from; `None` is all.
    pub candidates: Option<Vec<String>>,
    /// Its preferences, by node; 0 for others.
    pub bonuses: HashMap<String, i64>,
    /// How many fit, by node; any number for others.
    pub capacities: HashMap<String, u32>,
}

/// All that placing needs. Holds nothing of the snapshot.
#[derive(Debug)]
pub struct Plan {
    /// The constraints, in the order of the pod's or the default ones.
    constraints: Vec<Tracked>,
    groups: Groups,
    /// The candidates that pass the checks besides spread, in node order.
    nodes: Vec<Node>,
    refused: BTreeMap<Reason, usize>,
    wanted: usize,
}

#[derive(Debug)]
struct Node {
    name: Box<str>,
    /// How many more fit.
    room: Option<u32>,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The picks, in order.
    pub picks: Vec<Pick>,
    /// How many found no node.
    pub unplaced: usize,
    /// Why: nodes by reason.
    pub reasons: BTreeMap<Reason, usize>,
}

/// One pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Name of the node.
    pub node: Box<str>,
    /// Its score at the time: 0 to 100.
    pub score: i64,
}

impl Plan {
    /// Gathers what placing needs from a read view.
    pub fn of(
        question: &Question,
        checks: NodeChecks,
        wish: &Wish,
        read_view: &ReadView<'_>,
    ) -> Self {
        let mut refused = BTreeMap::new();
        let slots = passing(question, checks, wish, read_view, &mut refused);
        let in_force = question.constraints_on(read_view);
        let track = |active: &super::super::active::Active| {
            Tracked::of(active, &slots, active.self_match > 0, read_view)
        };
        let constraints: Vec<Tracked> = in_force.all.iter().map(track).collect();
        let mut groups = Groups::of(slots.len(), &constraints, in_force.all_keys_required);
        let mut nodes = Vec::with_capacity(slots.len());
        for (index, slot) in (0_u32..).zip(&slots) {
            let name = read_view.nodes.name(*slot);
            let room = wish.capacities.get(name).copied();
            let lacks_key = |t: &Tracked| t.is_hard() && !t.domain_of(index).is_some();
            if room != Some(0) && !constraints.iter().any(lacks_key) {
                let bonus = wish.bonuses.get(name).copied().unwrap_or(0);
                groups.insert(index, bonus, &constraints);
            }
            nodes.push(Node {
                name: name.into(),
                room,
            });
        }
        Self {
            constraints,
            groups,
            nodes,
            refused,
            wanted: wish.replicas,
        }
    }

    /// Places. `None` when `cancelled` said so.
    pub fn run(&mut self, cancelled: &dyn Fn() -> bool) -> Option<Outcome> {
        let mut outcome = Outcome::default();
        while outcome.picks.len() < self.wanted {
            if outcome.picks.len().is_multiple_of(PICKS_PER_LOOK) && cancelled() {
                return None;
            }
            let Some(best) = self.groups.best(&mut self.constraints) else {
                break;
            };
            outcome.picks.push(Pick {
                node: self.nodes[best.node as usize].name.clone(),
                score: best.score,
            });
            self.pick(best.node);
        }
        outcome.unplaced = self.wanted - outcome.picks.len();
        if outcome.unplaced > 0 {
            outcome.reasons = self.reasons();
        }
        Some(outcome)
    }

    /// Counts a pick, and brings nodes into the groups where they belong now.
    fn pick(&mut self, node: u32) {
        let mut moved = BTreeSet::from([node]);
        for tracked in &mut self.constraints {
            moved.extend(tracked.pick(node));
        }
        let room = &mut self.nodes[node as usize].room;
        *room = room.map(|room| room - 1);
        for node in moved {
            if let Some(bonus) = self.groups.remove(node)
                && self.nodes[node as usize].room != Some(0)
            {
                self.groups.insert(node, bonus, &self.constraints);
            }
        }
    }

    /// Why each node takes no more.
    fn reasons(&self) -> BTreeMap<Reason, usize> {
        let mut reasons = self.refused.clone();
        for (index, node) in (0_u32..).zip(&self.nodes) {
            let reason = if node.room == Some(0) {
                Some(Reason::Capacity)
            } else {
                self.constraints
                    .iter()
                    .filter(|t| t.is_hard())
                    .find_map(|tracked| {
                        let domain = tracked.domain_of(index);
                        if !domain.is_some() {
                            return Some(Reason::MissingTopologyKey);
                        }
                        let takes = tracked.rule().admits(tracked.count(domain).into());
                        (!takes).then_some(Reason::Skew)
                    })
            };
            if let Some(reason) = reason {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        reasons
    }

    /// The numbers behind the constraints.
    pub fn reports(&self, max_domains: usize) -> Vec<Report<'_>> {
        self.constraints
            .iter()
            .map(|t| t.report(max_domains))
            .collect()
    }
}

/// The candidates that pass the checks besides spread, in node order.
fn passing(
    question: &Question,
    checks: NodeChecks,
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
    let no_constraints = Constraints::default();
    let filter = Filter::of(question, &no_constraints, checks, read_view);
    let order = read_view.nodes.order().iter().copied();
    let mut slots: Vec<Slot> = order
        .filter(|slot| asked.as_ref().is_none_or(|asked| asked.contains(slot)))
        .collect();
    slots.retain(|slot| match filter.judge(*slot) {
        Ok(()) => true,
        Err(refusal) => {
            *refused.entry(refusal.reason).or_default() += 1;
            false
        }
    });
    slots
}
