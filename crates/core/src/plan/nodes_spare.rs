//! Finds nodes that can go together: one after the other, the least used first, each if all of its pods
//! find other nodes after those of the nodes before.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::mobility::RebalanceOptions;
use super::node_pods::{Fate, LeavingPod, PodsOfNodes};
use super::nodes_drain::{DrainOptions, DrainPlan, Leaving, empty_node, is_for_good};
use crate::matching::{Lack, Requested, Selector};
use crate::snapshot::{Imagined, NodeRef, ReadView, Slot, Stopped};

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
    pub rules: RebalanceOptions,
}

/// A node that may go.
struct SpareCandidate {
    name: String,
    slot: Slot,
    /// The largest share of a resource that pods request.
    usage: f64,
}

/// The free amounts of each resource on a node, and the amounts that its moving pods request.
type RoomAmounts = BTreeMap<Lack, i128>;

impl DrainPlan {
    /// Finds nodes that can go together, and plans how they are drained.
    pub fn of_spare(imagined: &mut Imagined<'_>, options: &SpareOptions) -> Result<Self, Stopped> {
        let (mut all, free) = imagined.read_any(|read_view| candidates(&read_view, options))?;
        let names: Vec<String> = all.iter().map(|it| it.name.clone()).collect();
        let pods = PodsOfNodes::of(imagined, &names, &options.rules)?;
        let of = |node: &SpareCandidate| {
            pods.by_node
                .get(&node.name)
                .map_or(&[][..], |pods| &pods[..])
        };
        all.retain(|node| {
            !of(node)
                .iter()
                .any(|pod| matches!(pod.fate, Fate::Stays(..)))
        });
        let bound = room_bound(&all, &free, of, &pods);
        let may_go = all.len();
        let chosen = imagined
            .attempt(|imagined| Ok((choose(imagined, &all, of, &pods, options.most)?, false)))?;
        let drain = DrainOptions {
            nodes: chosen,
            one_at_a_time: false,
            whole_only: true,
            rules: options.rules.clone(),
        };
        let mut plan = Self::of(imagined, &drain)?;
        let (most, why) = [
            (options.most, "as many were asked for".to_owned()),
            (
                may_go,
                "the other nodes have to stay, or have pods that stay".to_owned(),
            ),
            (
                bound.0,
                format!(
                    "the pods of more nodes have no room on the others: {}",
                    bound.1
                ),
            ),
        ]
        .into_iter()
        .min_by_key(|(most, _)| *most)
        .unwrap_or_default();
        plan.is_proven = plan.nodes.len() == most;
        plan.bound = Some((most, why));
        Ok(plan)
    }
}

/// The nodes that may go, the least used first, and the free amounts of all nodes.
fn candidates(
    read_view: &ReadView<'_>,
    options: &SpareOptions,
) -> Result<(Vec<SpareCandidate>, HashMap<Slot, RoomAmounts>), Stopped> {
    let mut all = Vec::new();
    let mut free = HashMap::new();
    for slot in read_view.deadline.each(read_view.nodes.order()) {
        let slot = *slot?;
        let Some(node) = read_view.nodes.get(slot) else {
            continue;
        };
        let requested = read_view.requested(slot);
        let (left, usage) = free_of(node, requested);
        free.insert(slot, left);
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
            all.push(SpareCandidate {
                name: node.name().to_owned(),
                slot,
                usage,
            });
        }
    }
    // The sort is stable, and nodes come in the order of their names.
    all.sort_by(|one, other| one.usage.total_cmp(&other.usage));
    Ok((all, free))
}

/// The free amounts of a node, and the largest share of a resource that is requested.
fn free_of(node: NodeRef<'_>, requested: &Requested) -> (RoomAmounts, f64) {
    let has = node.allocatable().map(|has| has.totals());
    let mut left: RoomAmounts = has.into_iter().flatten().collect();
    let mut usage = 0.0_f64;
    for (of, amount) in requested.totals() {
        let Some(left) = left.get_mut(&of) else {
            continue;
        };
        if *left > 0 {
            usage = usage.max(amount as f64 / *left as f64);
        }
        *left = (*left - amount).max(0);
    }
    (left, usage)
}

/// The nodes that can go one after the other.
fn choose<'p>(
    imagined: &mut Imagined<'_>,
    all: &[SpareCandidate],
    pods_of: impl Fn(&SpareCandidate) -> &'p [LeavingPod],
    pods: &'p PodsOfNodes,
    most: usize,
) -> Result<Vec<String>, Stopped> {
    let mut chosen = Vec::new();
    // Pods do not go to nodes that are likely to go next, unless there is no other.
    let next = all.iter().take(most.saturating_mul(2)).map(|it| it.slot);
    let how = Leaving {
        classes: &pods.classes,
        never: HashSet::new(),
        later: next.collect(),
        come_back: false,
    };
    let mut moved: HashMap<String, Vec<LeavingPod>> = HashMap::new();
    // Pods of these classes find no node any more, because room only becomes scarcer.
    let mut stuck: HashSet<usize> = HashSet::new();
    let mut tried = 0;
    for node in all {
        if chosen.len() == most || tried == MOST_TRIED {
            break;
        }
        let came = moved.remove(&node.name).unwrap_or_default();
        let own: Vec<LeavingPod> = pods_of(node).iter().chain(&came).cloned().collect();
        let is_stuck =
            |pod: &LeavingPod| matches!(pod.fate, Fate::Moves(class) if stuck.contains(&class));
        if own.iter().any(is_stuck) {
            continue;
        }
        tried += 1;
        imagined.deadline().step(1 + own.len())?;
        let emptied = imagined.attempt(|imagined| {
            let emptied = empty_node(imagined, &node.name, &own, &how, true)?;
            let is_kept = emptied.is_empty;
            Ok((emptied, is_kept))
        })?;
        if emptied.is_empty {
            chosen.push(node.name.clone());
            for step in emptied.moves {
                let pods = own.iter().filter(|pod| step.is_of(pod)).cloned();
                moved.entry(step.to.clone()).or_default().extend(pods);
            }
            continue;
        }
        stuck.extend(
            emptied
                .rest
                .iter()
                .filter_map(|(pod, refused)| match pod.fate {
                    Fate::Moves(class) if is_for_good(refused) => Some(class),
                    _ => None,
                }),
        );
    }
    Ok(chosen)
}

/// The most of these nodes that can go by the room of all nodes together, and the resource that
/// limits them: what is free on the nodes that are left has to hold the pods that move.
fn room_bound<'p>(
    all: &[SpareCandidate],
    free: &HashMap<Slot, RoomAmounts>,
    pods_of: impl Fn(&SpareCandidate) -> &'p [LeavingPod],
    pods: &PodsOfNodes,
) -> (usize, String) {
    let mut total = RoomAmounts::new();
    for (of, amount) in free.values().flatten() {
        *total.entry(of.clone()).or_default() += amount;
    }
    let mut costs: HashMap<Lack, Vec<i128>> = HashMap::new();
    for node in all {
        let mut cost = free.get(&node.slot).cloned().unwrap_or_default();
        for pod in pods_of(node) {
            let Fate::Moves(class) = pod.fate else {
                continue;
            };
            *cost.entry(Lack::Pods).or_default() += 1;
            let requests = pods.classes[class].question.checks.requests.as_ref();
            for (of, amount) in requests.iter().flat_map(|it| it.amounts.iter()) {
                *cost.entry(Lack::Resource(of)).or_default() += i128::from(amount);
            }
        }
        for (of, amount) in cost {
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
        Some((missing + fitting.count(), of.as_str().to_owned()))
    });
    limits.min().unwrap_or((usize::MAX, String::new()))
}
