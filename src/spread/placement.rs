//! Placing many at once: the caller's wishes and the result, in either dialect.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::report::Report;
use super::verdict::{NodeRefusal, Reason};

/// What a caller wishes for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many to place. In the Fleet dialect the wanted total, holders
    /// included.
    pub replicas: usize,
    /// Nodes to choose from; `None` is all.
    pub candidates: Option<Vec<String>>,
    /// Its preferences, by node; 0 for others.
    pub bonuses: HashMap<String, i64>,
    /// How many fit, by node; any number for others. Kubernetes dialect only.
    pub capacities: HashMap<String, u32>,
    /// What it knows of holders, by cluster. Fleet dialect only.
    pub holders: HashMap<String, Holding>,
    /// Whether all are planned together where one after the other leaves some unplaced.
    /// Kubernetes dialect only.
    pub jointly: bool,
    /// Holders of an earlier policy. Fleet dialect only.
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

/// Gathered from a read view: all that picking needs. Holds nothing of the snapshot.
pub trait Picker {
    /// Picks, and writes every step down if `with_steps`. `None` when
    /// `cancelled` said so.
    fn run(&mut self, with_steps: bool, cancelled: &dyn Fn() -> bool) -> Option<Outcome>;

    /// Returns how many scores all steps would list.
    fn step_scores(&self) -> usize;

    /// The numbers behind the constraints, in the order of the pod's or the
    /// default ones.
    fn reports(&self, max_domains: usize) -> Vec<Report<'_>>;
}

/// What came of picking.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The picks, in order.
    pub picks: Vec<Pick>,
    /// How many found no node.
    pub unplaced: usize,
    /// The most that any plan could place, if it was asked for.
    pub bound: Option<usize>,
    /// Why: nodes by reason.
    pub reasons: BTreeMap<Reason, usize>,
    /// Every step, if they are recorded. Fleet dialect only.
    pub steps: Vec<PickStep>,
    /// Holders that should give the placement up, ascending by name. Fleet dialect only.
    pub removed: Vec<String>,
}

/// One pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Name of the node.
    pub node: Box<str>,
    /// Its score at the time: 0 to 100, or a topology spread score in the Fleet
    /// dialect.
    pub score: i64,
}

/// One step of the Fleet dialect.
#[derive(Debug, Default)]
pub struct PickStep {
    /// All clusters in node order with their score or the constraint that
    /// refuses them; empty without constraints.
    pub verdicts: Vec<(Box<str>, Result<i64, NodeRefusal>)>,
    /// What could be picked, best first.
    pub ranking: Vec<Box<str>>,
    /// What was picked.
    pub picked: Vec<Box<str>>,
}
