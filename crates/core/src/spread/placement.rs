//! The options and the result of placing many pods at once, in either dialect.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::report::Report;
use super::verdict::{NodeRefusal, Reason};
use crate::snapshot::{Deadline, Stopped};

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

/// A picker, with all data that it needs from a read view. It keeps no reference to the snapshot.
pub trait Picker {
    /// Picks, and records every step if `with_steps` is true.
    fn run(&mut self, with_steps: bool, deadline: &Deadline<'_>) -> Result<Outcome, Stopped>;

    /// Returns the number of scores that all steps would list.
    fn step_scores(&self) -> usize;

    /// The numbers behind the constraints, in the order of the pod's or the default constraints.
    fn reports(&self, max_domains: usize) -> Vec<Report<'_>>;
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
    pub steps: Vec<PickStep>,
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

/// One step of the Fleet dialect.
#[derive(Debug, Default)]
pub struct PickStep {
    /// All clusters in node order, each with its score or the refusal by a constraint. Empty
    /// without constraints.
    pub verdicts: Vec<(Box<str>, Result<i64, NodeRefusal>)>,
    /// The nodes that could be picked, best first.
    pub ranking: Vec<Box<str>>,
    /// The picks.
    pub picked: Vec<Box<str>>,
}
