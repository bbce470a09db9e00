//! Tries every way to empty nodes in turn: every order of the nodes and of their pods, and every target.

use std::collections::HashSet;

use super::mobility::EvictionRules;
use super::movable::{PodClass, move_pod};
use super::node_pods::{LeavingPod, PodFate, PodsByNode, within_budgets};
use super::nodes_drain::{
    DrainOptions, DrainPlan, Drainer, JudgedAll, LeavingWorkloads, cordon, judge_all, worse_than,
};
use crate::proto::v1;
use crate::snapshot::{Imagined, Slot, Stopped};

/// The most pods to move, and the most nodes of a snapshot, with which every way is tried.
const MOST: usize = 64;

/// The most states that are looked at.
const MOST_STATES: usize = 5_000;

/// A search through all ways to empty nodes in turn.
struct DrainSearch<'s> {
    before: &'s JudgedAll,
    leaving: &'s LeavingWorkloads,
    rules: &'s EvictionRules,
    /// The states that were looked at.
    seen: HashSet<SearchState>,
}

/// What tells states apart: the node that is being emptied, and the moves by the classes of their pods.
#[derive(PartialEq, Eq, Hash)]
struct SearchState {
    node: String,
    is_gone: bool,
    left: Vec<String>,
    went: Vec<WentTo>,
}

/// A move: from, the class of the pod, and to.
pub type WentTo = (String, *const PodClass, String);

/// A node in a search.
struct SearchedNode<'n> {
    name: &'n str,
    /// The node before it was cordoned.
    before: v1::Node,
    pods: &'n [LeavingPod],
    /// The nodes after it.
    left: Vec<String>,
}

/// A plan that empties all nodes, and the spread after it.
type Found = Option<(DrainPlan, JudgedAll)>;

/// A plan that empties all nodes, and the spread after it. `None` if there is none, or too many ways.
pub fn search(
    imagined: &mut Imagined<'_>,
    pods: PodsByNode,
    options: &DrainOptions,
    before: &JudgedAll,
    leaving: &LeavingWorkloads,
) -> Result<Found, Stopped> {
    let stays = |pod: &LeavingPod| matches!(pod.fate, PodFate::Stays(..));
    let nodes = imagined.read_any(|view| view.nodes.len());
    let size = nodes.max(pods.values().map(Vec::len).sum());
    if size > MOST || pods.values().flatten().any(stays) {
        return Ok(None);
    }
    let mut search = DrainSearch {
        before,
        leaving,
        rules: &options.rules,
        seen: HashSet::new(),
    };
    imagined.attempt(|imagined| {
        let drainer = Drainer::of(imagined, pods, options)?;
        Ok((search.nodes(imagined, &drainer, &options.nodes)?, false))
    })
}

impl DrainSearch<'_> {
    /// Empties nodes in any order.
    fn nodes(
        &mut self,
        imagined: &mut Imagined<'_>,
        drainer: &Drainer,
        nodes: &[String],
    ) -> Result<Found, Stopped> {
        if nodes.is_empty() {
            let after = judge_all(imagined, self.leaving, self.rules)?;
            let is_worse = worse_than(self.before, &after).is_some();
            return Ok((!is_worse).then(|| (drainer.plan.clone(), after)));
        }
        for name in nodes {
            let mut drainer = drainer.clone();
            let pods = drainer.pods.remove(name).unwrap_or_default();
            let waiting: Vec<&LeavingPod> = pods.iter().filter(|it| it.class().is_some()).collect();
            let left = nodes.iter().filter(|it| *it != name).cloned().collect();
            let found = imagined.attempt(|imagined| {
                let before = cordon(imagined, name)?;
                let (pods, left) = (&*pods, left);
                let node = SearchedNode {
                    name,
                    before,
                    pods,
                    left,
                };
                Ok((
                    self.pods(imagined, &drainer, &node, &waiting, false)?,
                    false,
                ))
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Moves the pods of a node in any order to any nodes, some of them once the node is gone.
    fn pods(
        &mut self,
        imagined: &mut Imagined<'_>,
        drainer: &Drainer,
        node: &SearchedNode<'_>,
        waiting: &[&LeavingPod],
        is_gone: bool,
    ) -> Result<Found, Stopped> {
        if waiting.is_empty() && is_gone {
            let mut drainer = drainer.clone();
            drainer.note_node(node.name, node.pods, true);
            return self.nodes(imagined, &drainer, &node.left);
        }
        let mut went = drainer.went.clone();
        went.sort_unstable();
        let (name, left) = (node.name.to_owned(), node.left.clone());
        let state = SearchState {
            node: name,
            is_gone,
            left,
            went,
        };
        if self.seen.len() > MOST_STATES || !self.seen.insert(state) {
            return Ok(None);
        }
        let from = (node.name, is_gone);
        for (at, pod) in waiting.iter().enumerate() {
            let rest = [&waiting[..at], &waiting[at + 1..]].concat();
            for to in targets(imagined, drainer, from, pod)? {
                let found = imagined.attempt(|imagined| {
                    let mut drainer = drainer.clone();
                    let Ok(moved) = drainer.move_pod(imagined, from, pod, Some(to))? else {
                        return Ok((None, false));
                    };
                    drainer.note_move(node.name, pod, moved, is_gone);
                    Ok((self.pods(imagined, &drainer, node, &rest, is_gone)?, false))
                })?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        if is_gone || !within_budgets(waiting) {
            return Ok(None);
        }
        imagined.attempt(|imagined| {
            drainer.let_go(imagined, (node.name, &node.before), node.pods, waiting)?;
            Ok((self.pods(imagined, drainer, node, waiting, true)?, false))
        })
    }
}

/// The nodes to which a pod may go.
fn targets(
    imagined: &mut Imagined<'_>,
    drainer: &Drainer,
    (from, is_gone): (&str, bool),
    pod: &LeavingPod,
) -> Result<Vec<Slot>, Stopped> {
    let PodFate::Moves(class) = &pod.fate else {
        return Ok(Vec::new());
    };
    let listed = move_pod(imagined, (&pod.namespace, &pod.name), class, |view| {
        let constraints = class.question.constraints_on(view)?;
        let from = (view.nodes.find(from), is_gone);
        let open = drainer.open_nodes(class, &constraints, from, view)?;
        Ok(Err(open.unwrap_or_default()))
    })?;
    Ok(listed.err().unwrap_or_default())
}
