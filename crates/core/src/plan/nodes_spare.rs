//! Finds nodes that can go together: one after the other, the least used first, each if all of its pods
//! find other nodes after those of the nodes before.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::movable::EvictionRules;
use super::nodes_drain::{DrainOptions, Drainer, PodFate, PodsByNode, drain_nodes, gather};
use crate::matching::{Requested, Resource, Selector};
use crate::proto::{count, v1};
use crate::snapshot::{Deadline, Imagined, NodeRef, ReadView, Slot, Stopped};

/// The most nodes that are tried.
const MOST_TRIED: usize = 1_000;

/// The labels of nodes that run the control plane, which never go unless a selector matches them.
const CONTROL_PLANE: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];

/// The options of a search for nodes that can go.
#[derive(Debug, Clone)]
pub struct SpareOptions {
    /// The most nodes.
    pub most: usize,
    /// Selects the nodes that may go; `None` means all but control planes.
    pub selector: Option<Selector>,
    /// The nodes that stay.
    pub stay: HashSet<String>,
    /// The rules about pods.
    pub rules: EvictionRules,
}

/// A node that may go.
struct SpareCandidate {
    name: String,
    slot: Slot,
    /// The largest share of a resource that pods request.
    usage: f64,
}

/// Amounts of each resource.
type RoomAmounts = BTreeMap<Resource, i128>;

/// Finds nodes that can go together, and plans how they are drained. The answer is as that of a drain.
pub fn spare_nodes(
    imagined: &mut Imagined<'_>,
    options: &SpareOptions,
) -> Result<v1::PlanNodesResponse, Stopped> {
    let (mut all, free) = candidates(&imagined.read_any(), options)?;
    let names: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
    let pods = gather(imagined, &names, &options.rules)?;
    let stays = match all.is_empty() {
        true => "there are no such nodes that may go",
        false => "the other nodes have to stay, or have pods that stay",
    };
    all.retain(|node| {
        let mut own = pods.get(&node.name).into_iter().flatten();
        !own.any(|pod| matches!(pod.fate, PodFate::Stays(..)))
    });
    let mut bounds = vec![
        (options.most, "as many were asked for".to_owned()),
        (all.len(), stays.to_owned()),
    ];
    bounds.extend(room_bound(&all, free, &pods, imagined.deadline())?);
    let (most, why) = bounds.into_iter().min_by_key(|it| it.0).unwrap_or_default();
    let options = DrainOptions {
        nodes: choose(imagined, &all, &pods, most)?,
        one_at_a_time: false,
        whole_only: true,
        rules: options.rules.clone(),
    };
    let drained = drain_nodes(imagined, &options)?;
    Ok(v1::PlanNodesResponse {
        optimal: drained.nodes.len() == most,
        bound: count(most),
        bound_reason: why,
        ..drained
    })
}

/// The free amounts of all nodes.
type FreeRoom = HashMap<Slot, RoomAmounts>;

/// The nodes that may go, the least used first, and the free amounts; `None` if the room of a node is
/// not known.
fn candidates(
    read_view: &ReadView<'_>,
    options: &SpareOptions,
) -> Result<(Vec<SpareCandidate>, Option<FreeRoom>), Stopped> {
    let mut all = Vec::new();
    let mut free = Some(FreeRoom::new());
    for slot in read_view.deadline.each(read_view.nodes.order()) {
        let slot = *slot?;
        let Some(node) = read_view.nodes.get(slot) else {
            continue;
        };
        let (usage, left) = room_of(node, read_view.requested(slot));
        match (&mut free, left) {
            (Some(free), Some(left)) => drop(free.insert(slot, left)),
            _ => free = None,
        }
        let may_go = match &options.selector {
            Some(selector) => {
                read_view.deadline.step(selector.len())?;
                selector.matches::<str>(|key| node.label_text(key))
            }
            None => CONTROL_PLANE
                .iter()
                .all(|key| node.label_text(key).is_none()),
        };
        if may_go && !options.stay.contains(node.name()) {
            let name = node.name().to_owned();
            all.push(SpareCandidate { name, slot, usage });
        }
    }
    // The sort is stable, and nodes come in the order of their names.
    all.sort_by(|one, other| one.usage.total_cmp(&other.usage));
    Ok((all, free))
}

/// The largest share of a resource of a node that pods request, and the node's free amounts; `None` if
/// its room is not known.
fn room_of(node: NodeRef<'_>, requested: &Requested) -> (f64, Option<RoomAmounts>) {
    let Some(has) = node.allocatable() else {
        return (0.0, None);
    };
    let (mut usage, mut left) = (0.0_f64, RoomAmounts::from_iter(has.totals()));
    for (of, amount) in requested.totals() {
        let Some(left) = left.get_mut(&of) else {
            continue;
        };
        if *left > 0 {
            usage = usage.max(amount as f64 / *left as f64);
        }
        *left = (*left - amount).max(0);
    }
    (usage, Some(left))
}

/// The nodes that can go one after the other.
fn choose(
    imagined: &mut Imagined<'_>,
    all: &[SpareCandidate],
    pods: &PodsByNode,
    most: usize,
) -> Result<Vec<String>, Stopped> {
    let next = all.iter().take(most.saturating_mul(2));
    let mut drainer = Drainer::looking(pods.clone(), next.map(|it| it.slot).collect());
    imagined.attempt(|imagined| {
        for node in all.iter().take(MOST_TRIED) {
            if drainer.answer.nodes.len() == most {
                break;
            }
            drainer.empty(imagined, &node.name, true)?;
        }
        let nodes = drainer.answer.nodes.into_iter();
        Ok((nodes.map(|node| node.name).collect(), false))
    })
}

/// The most of these nodes that can go by the room of all nodes together, and what proves that: what is
/// free on the nodes that are left has to hold the pods that move.
fn room_bound(
    all: &[SpareCandidate],
    free: Option<FreeRoom>,
    pods: &PodsByNode,
    deadline: &Deadline<'_>,
) -> Result<Option<(usize, String)>, Stopped> {
    let Some(free) = free else { return Ok(None) };
    let mut total = RoomAmounts::new();
    for amount in deadline.each(free.values().flatten()) {
        let (of, amount) = amount?;
        *total.entry(of.clone()).or_default() += amount;
    }
    let mut costs: HashMap<Resource, Vec<i128>> = HashMap::new();
    for node in all {
        let mut cost = free.get(&node.slot).cloned().unwrap_or_default();
        let own = pods.get(&node.name).into_iter().flatten();
        for class in own.filter_map(|pod| pod.class()) {
            for amount in deadline.each(class.question.checks.amounts()) {
                let (of, amount) = amount?;
                *cost.entry(of).or_default() += amount;
            }
        }
        for amount in deadline.each(cost) {
            let (of, amount) = amount?;
            costs.entry(of).or_default().push(amount);
        }
    }
    let limits = total.iter().filter_map(|(of, total)| {
        let mut costs = costs.remove(of)?;
        costs.sort_unstable();
        let missing = all.len() - costs.len();
        let mut sum = 0;
        let fitting = costs.iter().take_while(|cost| {
            sum += **cost;
            sum <= *total
        });
        Some((missing + fitting.count(), of.as_str()))
    });
    let bound = limits.min();
    Ok(bound.map(|(most, of)| {
        let why = format!("the pods of more nodes have no room on the others: {of}");
        (most, why)
    }))
}
