//! The options and the result of placing many pods at once, in either dialect.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::report::Report;
use super::verdict::{NodeRefusal, Reason};

/// The options of a caller that places pods.
#[derive(Debug, Clone, Default)]
pub struct PlaceOptions {
    /// The number of pods to place. In the Fleet dialect the wanted total, holders included.
    pub replicas: usize,
    /// Nodes to choose from; `None` is all.
    pub candidates: Option<Vec<String>>,
    /// The caller's preferences, by node; 0 for other nodes.
    pub bonuses: HashMap<String, i64>,
    /// The number of pods that fit, by node; any number for other nodes. Kubernetes dialect only.
    pub capacities: HashMap<String, u32>,
    /// The holders that the caller knows, by cluster. Fleet dialect only.
    pub holders: HashMap<String, Holding>,
    /// True if all pods are planned together when placing them one after the other leaves some
    /// unplaced.
    pub jointly: bool,
    /// Holders of an earlier policy. Fleet dialect only.
    pub sticky: HashSet<String>,
}

/// A cluster that holds the placement already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    /// True if the placement is in effect there. Holders where it is not go first.
    pub bound: bool,
    /// The cluster's topology spread score when it was picked; holders without one go first.
    pub spread_score: Option<i64>,
    /// The cluster's bonus when it was picked; holders without one go first.
    pub bonus: Option<i64>,
}

/// A picker, with all that it needs from a read view. It holds nothing of the snapshot.
pub trait Picker {
    /// Picks, and records every step if `with_steps`. Returns `None` when `cancelled` returned
    /// true.
    fn run(&mut self, with_steps: bool, cancelled: &dyn Fn() -> bool) -> Option<Outcome>;

    /// Returns the number of scores that all steps would list.
    fn step_scores(&self) -> usize;

    /// The numbers behind the constraints, in the order of the pod's or the
    /// default ones.
    fn reports(&self, max_domains: usize) -> Vec<Report<'_>>;
}

/// The result of picking.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The picks, in order.
    pub picks: Vec<Pick>,
    /// The number of pods that found no node.
    pub unplaced: usize,
    /// The sum of the picks' scores and bonuses; in the Fleet dialect of their scores.
    pub total: i64,
    /// The most that any plan could place, if it was asked for.
    pub bound: Option<usize>,
    /// A sum of scores and bonuses that no plan of as many picks exceeds, if that was asked
    /// for.
    pub total_bound: Option<i64>,
    /// The reasons against more picks, each with its number of nodes.
    pub reasons: BTreeMap<Reason, usize>,
    /// Every step, if steps are recorded. Fleet dialect only.
    pub steps: Vec<PickStep>,
    /// Holders that should give the placement up, ascending by name. Fleet dialect only.
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

/// One step of the Fleet dialect.
#[derive(Debug, Default)]
pub struct PickStep {
    /// All clusters in node order with their score or the constraint that
    /// refuses them; empty without constraints.
    pub verdicts: Vec<(Box<str>, Result<i64, NodeRefusal>)>,
    /// The nodes that could be picked, best first.
    pub ranking: Vec<Box<str>>,
    /// The picks.
    pub picked: Vec<Box<str>>,
}
