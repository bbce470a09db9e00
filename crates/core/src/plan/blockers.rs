//! Causes that keep a workload from being even.

use std::collections::BTreeMap;

use super::mobility::Staying;
use super::movable::{MovablePod, PodClass};
use super::spread_model::SpreadModel;
use crate::matching::TaintedNode;
use crate::snapshot::{DomainId, ReadView, Stopped};
use crate::spread::{Filter, NodeChecks, Reason};

/// The most blockers that are reported for a workload.
const MOST_TOLD: usize = 20;

/// A cause that keeps a workload from being even.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// The kind of the blocker.
    pub kind: BlockerKind,
    /// The topology key of the constraint; empty if the blocker is about no domain.
    pub topology_key: String,
    /// The domain; empty if the blocker is about no domain.
    pub domain: String,
    /// The text.
    pub text: String,
    /// The number of pods or nodes that the blocker is about.
    pub count: usize,
}

/// The kinds of blockers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockerKind {
    /// No moves can satisfy the constraint, or another constraint refuses nodes.
    Constraint,
    /// Nodes refuse the pods for a reason other than room or constraints.
    Node,
    /// Nodes have no room for the pods.
    Room,
    /// A budget allows no eviction.
    Budget,
    /// Pods may not be moved.
    Pod,
    /// The limits allow no more moves.
    Cap,
}

impl Blocker {
    /// The blocker that the limits allow no more moves.
    pub fn of_cap() -> Self {
        Self {
            kind: BlockerKind::Cap,
            topology_key: String::new(),
            domain: String::new(),
            text: "no more moves are allowed".to_owned(),
            count: 0,
        }
    }
}

/// Returns the blockers of a workload: pods that stay in domains with too many pods, and nodes that
/// refuse pods in domains with too few.
pub fn of(
    model: &SpreadModel,
    workload: usize,
    read_view: &ReadView<'_>,
) -> Result<Vec<Blocker>, Stopped> {
    let mut found: BTreeMap<(BlockerKind, String, String, String), usize> = BTreeMap::new();
    let own = model.goals.iter().enumerate();
    for (at, goal) in own.filter(|(_, goal)| goal.workload == Some(workload)) {
        if goal.counts.excess() == 0 {
            continue;
        }
        let key = goal.key.to_string();
        let value = |domain| {
            goal.in_use
                .topology
                .value(DomainId::at(domain), read_view.nodes)
                .to_owned()
        };
        let mut note = |kind, domain: usize, text: String, count: usize| {
            *found
                .entry((kind, key.clone(), value(domain), text))
                .or_default() += count;
        };
        let (_, floor) = goal.counts.needed();
        read_view.deadline.step(model.pods.len())?;
        for pod in &model.pods {
            let class = &model.classes[pod.class];
            let domain = model.domain(at, pod.node).filter(|_| class.counts[at]);
            let domain = domain.filter(|it| goal.counts.leaving(*it, floor) > 0);
            if let (Some(domain), Some(staying)) = (domain, &pod.staying)
                && class.of.workload == workload
            {
                let (kind, text) = told(staying);
                note(kind, domain, text, 1);
            }
        }
        for (domain, others) in model.beside(at) {
            if goal.counts.leaving(domain, floor) > 0 {
                let text = "pods of other workloads, which the constraint counts".to_owned();
                note(BlockerKind::Pod, domain, text, others);
            }
        }
        if let Some(class) = leaving_class(model, workload, at) {
            let constraints = class.question.constraints_on(read_view)?;
            let filter = Filter::of(&class.question, &constraints, NodeChecks::All, read_view)?;
            for slot in read_view.nodes.order() {
                let domain = model.domain(at, *slot);
                let domain = domain.filter(|it| goal.counts.leaving(*it, floor) < 0);
                let Some(domain) = domain else { continue };
                if let Err(refusal) = filter.judge(*slot)? {
                    let tolerations = &class.question.subject.tolerations;
                    let node = read_view.nodes.get(*slot);
                    let node = node.filter(|_| refusal.reason == Reason::UntoleratedTaint);
                    let tainted = node.and_then(|it| TaintedNode::of(tolerations, it.taints()));
                    let text = tainted.map_or_else(
                        || refusal.text().into_owned(),
                        |it| format!("node(s) {}{}", it.what, TaintedNode::since(it.since)),
                    );
                    note(kind_of(&refusal.reason), domain, text, 1);
                }
            }
        }
        if !goal.counts.is_reachable() {
            let text = "there are fewer domains than minDomains".to_owned();
            found.insert(
                (BlockerKind::Constraint, key.clone(), String::new(), text),
                0,
            );
        }
    }
    let own = model.goals.iter();
    let own = own.filter(|goal| goal.workload == Some(workload) && goal.counts.excess() > 0);
    for goal in own {
        if !found.keys().any(|(_, key, ..)| **key == *goal.key) {
            let text = "no move helps that keeps the other constraints".to_owned();
            let key = goal.key.to_string();
            found.insert((BlockerKind::Constraint, key, String::new(), text), 0);
        }
    }
    let found = found.into_iter().take(MOST_TOLD);
    let found = found.map(|((kind, topology_key, domain, text), count)| Blocker {
        kind,
        topology_key,
        domain,
        text,
        count,
    });
    Ok(found.collect())
}

/// The kind of a reason why a pod stays, and its text.
pub(super) fn told(staying: &Staying) -> (BlockerKind, String) {
    match staying {
        Staying::Kind(text) => (BlockerKind::Pod, (*text).to_owned()),
        Staying::Wished(text) => (BlockerKind::Pod, text.clone()),
        Staying::Budget(text) => (BlockerKind::Budget, text.clone()),
    }
}

/// The class of the pods of a workload that a node could take: of those that have to leave their
/// domain, if there are any.
fn leaving_class(model: &SpreadModel, workload: usize, goal: usize) -> Option<&PodClass> {
    let counts = &model.goals[goal].counts;
    let (_, floor) = counts.needed();
    let own = model.pods.iter();
    let mut own = own.filter(|pod| model.classes[pod.class].of.workload == workload);
    let leaves = |pod: &&MovablePod| {
        let domain = model.domain(goal, pod.node);
        domain.is_some_and(|domain| counts.leaving(domain, floor) > 0)
    };
    let leaving = own.find(leaves).map(|pod| &*model.classes[pod.class].of);
    let mut all = model.classes.iter().map(|class| &*class.of);
    leaving.or_else(|| all.find(|class| class.workload == workload))
}

pub(super) fn kind_of(reason: &Reason) -> BlockerKind {
    match reason {
        Reason::Skew | Reason::MissingTopologyKey => BlockerKind::Constraint,
        Reason::TooManyPods | Reason::Insufficient(_) | Reason::HostPorts => BlockerKind::Room,
        _ => BlockerKind::Node,
    }
}
