//! Moves of the pods of one workload. They are searched for by counts, and then made one by one on
//! a copy of the snapshot, where each is judged as by kube-scheduler.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::movable::{MoveEffect, Moved, best_of, move_pod};
use super::moves::{BoardGoal, MoveBoard, SourceCell, TargetCell};
use super::spread_model::SpreadModel;
use crate::snapshot::{DomainId, Imagined, ReadView, Slot, Stopped};
use crate::spread::{Filter, NodeChecks, Reason};

/// A workload whose pods are to move.
pub struct Moving<'m, 'a> {
    /// The pods and constraints of its namespace.
    pub model: &'m SpreadModel,
    /// The index of the workload in the model.
    pub workload: usize,
    /// The state after the earlier moves.
    pub read_view: &'m ReadView<'a>,
}

/// The steps that were refused although the counts allow them: the class and the nodes of each.
pub type RefusedSteps = HashSet<(usize, Vec<Slot>)>;

/// Steps that were found.
#[derive(Debug, Default)]
pub struct FoundSteps {
    /// The steps, in order.
    pub steps: Vec<MoveStep>,
    /// True if no plan with fewer steps achieves the same.
    pub is_least: bool,
    /// True if more steps were wanted than the limits allow.
    pub is_capped: bool,
}

/// A step: a pod goes to one of several nodes that are alike.
#[derive(Debug, Clone)]
pub struct MoveStep {
    /// The index of the pod in the model.
    pub pod: usize,
    /// The index of the pod's class in the model.
    pub class: usize,
    /// The nodes.
    pub target: Vec<Slot>,
}

/// A step that was made: the index of the pod in the model, and the node that it left.
#[derive(Debug)]
pub struct Stepped {
    /// The index of the pod in the model.
    pub pod: usize,
    /// The slot of the node that the pod left.
    pub from_slot: Slot,
    /// The name of that node.
    pub from: String,
    /// Where it went.
    pub moved: Moved,
}

impl Moving<'_, '_> {
    /// Searches for the fewest steps, at most `most`. `affords_node` returns how many more pods may
    /// leave a node.
    pub fn search(
        &self,
        most: usize,
        refused: &RefusedSteps,
        affords_node: &dyn Fn(&str) -> usize,
    ) -> Result<FoundSteps, Stopped> {
        let classes = self.model.classes.iter().enumerate();
        let classes: Vec<usize> = classes
            .filter(|(_, class)| class.of.workload == self.workload && class.of.staying.is_none())
            .map(|(at, _)| at)
            .collect();
        let all = 0..self.model.goals.len();
        let goals: Vec<usize> = all
            .filter(|goal| {
                let is_own = self.model.goals[*goal].workload == Some(self.workload);
                is_own
                    || classes
                        .iter()
                        .any(|class| self.model.classes[*class].counts[*goal])
            })
            .collect();
        let place: HashMap<usize, usize> = classes
            .iter()
            .enumerate()
            .map(|(place, class)| (*class, place))
            .collect();
        let mut pods_of = Vec::new();
        let mut board = self.board(&goals, &classes);
        let deadline = self.read_view.deadline;
        let cells = self.model.cells(self.workload, &goals, deadline)?;
        let mut nodes = HashMap::new();
        for ((class, domains), pods) in cells {
            let Some(class) = place.get(&class) else {
                continue;
            };
            let mut pods = self.within_nodes(pods, &mut nodes, affords_node);
            // Pods that no earlier move created come first.
            pods.sort_by_key(|pod| self.model.pods[*pod].made_by.is_some());
            board.sources.push(SourceCell {
                class: *class,
                domains,
                left: pods.len(),
            });
            pods_of.push(pods);
        }
        let targets: Vec<Vec<(TargetCell, Vec<Slot>)>> = classes
            .iter()
            .map(|class| self.targets(*class, &goals, refused))
            .collect::<Result<_, _>>()?;
        let cells = targets.iter();
        let cells = cells.map(|of| of.iter().map(|(cell, _)| cell.clone()).collect());
        board.targets = cells.collect();
        let found = board.search(most, deadline)?;
        let mut taken = vec![0; pods_of.len()];
        let step = |(source, target): &(usize, usize)| {
            let pod = pods_of[*source][taken[*source]];
            taken[*source] += 1;
            let class = self.model.pods[pod].class;
            MoveStep {
                pod,
                class,
                target: targets[place[&class]][*target].1.clone(),
            }
        };
        Ok(FoundSteps {
            steps: found.moves.iter().map(step).collect(),
            is_least: found.is_least,
            is_capped: !found.is_whole && found.moves.len() >= most,
        })
    }

    fn board(&self, goals: &[usize], classes: &[usize]) -> MoveBoard {
        let goal = |at: &usize| {
            let goal = &self.model.goals[*at];
            BoardGoal {
                is_wanted: goal.workload == Some(self.workload),
                excess: goal.counts.excess(),
                counts: goal.counts.clone(),
            }
        };
        let place = |rule: &(usize, i64)| {
            let place = goals.iter().position(|goal| *goal == rule.0);
            place.map(|place| (place, rule.1))
        };
        let class = |at: &usize| &self.model.classes[*at];
        MoveBoard {
            goals: goals.iter().map(goal).collect(),
            counts: classes
                .iter()
                .map(|at| goals.iter().map(|goal| class(at).counts[*goal]).collect())
                .collect(),
            rules: classes
                .iter()
                .map(|at| class(at).rules.iter().filter_map(place).collect())
                .collect(),
            ..MoveBoard::default()
        }
    }

    /// Returns the pods that may leave by the limit of moves out of each node.
    fn within_nodes(
        &self,
        pods: Vec<usize>,
        nodes: &mut HashMap<Slot, usize>,
        affords_node: &dyn Fn(&str) -> usize,
    ) -> Vec<usize> {
        let name = |slot| self.read_view.nodes.name(slot);
        let may_leave = |pod: &usize| {
            let slot = self.model.pods[*pod].node;
            let left = nodes
                .entry(slot)
                .or_insert_with(|| affords_node(name(slot)));
            let may = *left > 0;
            *left = left.saturating_sub(1);
            may
        };
        pods.into_iter().filter(may_leave).collect()
    }

    /// Returns the nodes to which the pods of a class could go if counts are ignored, grouped by
    /// their domains.
    fn targets(
        &self,
        class: usize,
        goals: &[usize],
        refused: &RefusedSteps,
    ) -> Result<Vec<(TargetCell, Vec<Slot>)>, Stopped> {
        let of = &self.model.classes[class].of;
        let read_view = self.read_view;
        let constraints = of.question.constraints_on(read_view)?;
        let filter = Filter::of(&of.question, &constraints, NodeChecks::All, read_view)?;
        let mut cells: BTreeMap<Vec<Option<usize>>, (usize, Vec<Slot>)> = BTreeMap::new();
        for slot in read_view.nodes.order() {
            read_view.deadline.step(1 + goals.len())?;
            let is_possible = match filter.judge(*slot)? {
                Ok(()) => true,
                Err(refusal) => refusal.reason == Reason::Skew && filter.last_checks_admit(*slot),
            };
            if !is_possible {
                continue;
            }
            let wanted = self.model.pods.len();
            let room = filter.fitting(*slot);
            let room = room.map_or(wanted, |room| room as usize);
            let domains = goals
                .iter()
                .map(|goal| self.model.domain(*goal, *slot))
                .collect();
            let cell = cells.entry(domains).or_default();
            cell.0 += room;
            cell.1.push(*slot);
        }
        let cells = cells.into_iter().map(|(domains, (room, nodes))| {
            let is_refused = refused.contains(&(class, nodes.clone()));
            let room = if is_refused { 0 } else { room };
            (TargetCell { domains, room }, nodes)
        });
        Ok(cells.collect())
    }
}

/// Makes steps on a copy of the snapshot. Each pod goes to the best node that takes it.
///
/// # Errors
/// The deadline has passed; inside, a step whose pod no node takes. Then all steps are undone.
pub fn replay(
    imagined: &mut Imagined<'_>,
    (namespace, model): (&str, &mut SpreadModel),
    steps: &[MoveStep],
) -> Result<Result<Vec<Stepped>, MoveStep>, Stopped> {
    let mut made: Vec<Stepped> = Vec::new();
    let refused = imagined.attempt(|imagined| {
        for step in steps {
            let (pod, class) = (&model.pods[step.pod], &model.classes[step.class].of);
            let from_slot = pod.node;
            let from = imagined.read_any(|view| view.nodes.name(from_slot).to_owned());
            let choose = |read_view: &ReadView<'_>| {
                let constraints = class.question.constraints_on(read_view)?;
                let filter = Filter::of(&class.question, &constraints, NodeChecks::All, read_view)?;
                let mut passing = Vec::new();
                for slot in &step.target {
                    if filter.judge(*slot)?.is_ok() {
                        passing.push(*slot);
                    }
                }
                let best = best_of(&constraints, &passing, read_view)?;
                let to = best.map(|to| (to, effects(model, step, to, read_view)));
                Ok(to.ok_or(()))
            };
            let Ok(moved) = move_pod(imagined, (namespace, &pod.name), class, choose)? else {
                return Ok((Some(step), false));
            };
            model.note(step.pod, moved.to, model.pods[step.pod].made_by);
            made.push(Stepped {
                pod: step.pod,
                from_slot,
                from,
                moved,
            });
        }
        Ok((None, true))
    })?;
    let Some(refused) = refused else {
        return Ok(Ok(made));
    };
    for Stepped { pod, from_slot, .. } in made.into_iter().rev() {
        model.note(pod, from_slot, model.pods[pod].made_by);
    }
    Ok(Err(refused.clone()))
}

fn effects(
    model: &SpreadModel,
    step: &MoveStep,
    to: Slot,
    read_view: &ReadView<'_>,
) -> Vec<MoveEffect> {
    let class = &model.classes[step.class];
    let from = model.pods[step.pod].node;
    let own = model.goals.iter().enumerate();
    let own =
        own.filter(|(at, goal)| goal.workload == Some(class.of.workload) && class.counts[*at]);
    own.map(|(at, goal)| {
        let domain = |slot| {
            let domain = model.domain(at, slot);
            let value = domain.map(|it| {
                goal.in_use
                    .topology
                    .value(DomainId::at(it), read_view.nodes)
            });
            let count = domain.map_or(0, |domain| goal.counts.count(domain));
            (value.unwrap_or_default().to_owned(), i64::from(count))
        };
        MoveEffect {
            topology_key: goal.key.to_string(),
            from: domain(from),
            to: domain(to),
        }
    })
    .collect()
}
