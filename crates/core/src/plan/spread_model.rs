//! The constraints of a namespace and the pods of the workloads that violate them, in a model that follows
//! the moves of a plan. Moves of the pods of one workload are searched for by counts, and then made one by
//! one on a copy of the snapshot, where each is judged as by kube-scheduler.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::movable::{MovablePod, MovablePods, PodClass, best_of, move_pod};
use super::moves::{BoardGoal, GoalCounts, MoveBoard, SourceCell, TargetCell};
use super::rebalance::RebalanceOptions;
use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::{
    Deadline, DomainId, Imagined, PartitionInUse, PodGroup, PodGroups, ReadView, Slot, Stopped,
};
use crate::spread::describe::{JudgedWorkload, WantedSpread, WorkloadId, WorkloadPods, selects};
use crate::spread::{Filter, NodeChecks, Reason};

/// Pods, by their class and their domain for each goal.
pub type PodCells = BTreeMap<(usize, Vec<Option<usize>>), Vec<usize>>;

/// The pods and constraints of a namespace.
#[derive(Default)]
pub struct SpreadModel {
    /// The constraints to repair, and those that must not get worse.
    pub goals: Vec<ModelGoal>,
    /// The workloads that violate constraints, and those of which some pods cannot be judged.
    pub workloads: Vec<ModelWorkload>,
    /// The classes of alike pods of these workloads.
    pub classes: Vec<MoveClass>,
    /// The pods of these workloads that are on nodes, ordered by node and name.
    pub pods: Vec<MovablePod>,
}

/// A constraint.
pub struct ModelGoal {
    /// The index of its workload, if the workload is repaired. `None` for a constraint that must
    /// only not get worse.
    pub workload: Option<usize>,
    /// The topology key.
    pub key: Arc<str>,
    /// The partition of the constraint.
    pub in_use: PartitionInUse,
    /// The counts of the goal.
    pub counts: GoalCounts,
    /// The selector of the pods that it counts; `None` means the pods of its workload.
    selector: Option<Selector>,
}

/// A workload that violates a constraint, or of which some pods cannot be judged.
pub struct ModelWorkload {
    /// The workload with its spread.
    pub before: JudgedWorkload,
    /// The topology key by which the workload is judged, if not by constraints.
    pub by: Option<Arc<str>>,
}

/// Pods of a workload that are alike.
#[derive(Clone)]
pub struct MoveClass {
    /// The pods.
    pub of: Arc<PodClass>,
    /// For each goal, true if it counts the pods.
    pub counts: Vec<bool>,
    /// The goals that decide where the pods may go, each with 1 if it counts the pod itself, else
    /// 0.
    pub rules: Vec<(usize, i64)>,
}

impl SpreadModel {
    /// Returns the model of a namespace, which is empty if nothing has to be repaired or told.
    pub fn of(
        pods: &PodGroups<'_>,
        namespace: &str,
        options: &RebalanceOptions,
    ) -> Result<Self, Stopped> {
        let survey = options
            .rules
            .survey(pods, namespace, options.workload.as_ref())?;
        let mut model = Self::default();
        let mut chosen = BTreeSet::new();
        let all = survey.all_wanted(options.by.as_ref())?;
        for (id, workload) in &all {
            if !options.means(namespace, id, workload, pods)? {
                continue;
            }
            let goals = goals_of(workload, pods, options, Some(model.workloads.len()))?;
            let violates = goals.iter().any(|goal| goal.counts.excess() > 0);
            if violates || workload.fault.is_some() {
                let by = options.by.clone().filter(|_| workload.by_key.is_some());
                let Some(before) = survey.judge_listed(id, by.as_ref())? else {
                    continue;
                };
                chosen.insert(*id);
                model.workloads.push(ModelWorkload { before, by });
                model.goals.extend(goals);
            }
        }
        if !model.workloads.is_empty() {
            model.add_pods(pods, namespace, options, &all, &chosen)?;
            model.add_others(pods, options, &all, &chosen)?;
        }
        Ok(model)
    }

    fn add_pods(
        &mut self,
        pods: &PodGroups<'_>,
        namespace: &str,
        options: &RebalanceOptions,
        all: &[(&WorkloadId, WorkloadPods<'_>)],
        chosen: &BTreeSet<&WorkloadId>,
    ) -> Result<(), Stopped> {
        let read_view = pods.read_view();
        let mine = all.iter().filter(|(id, _)| chosen.contains(id));
        let mine: Vec<_> = mine.map(|(id, workload)| (*id, workload)).collect();
        let groups = mine.iter().flat_map(|(_, workload)| &workload.groups);
        let groups: Vec<&PodGroup> = groups.copied().collect();
        let found = pods.named(groups.iter().copied())?.into_iter();
        let found = found.map(|pod| (groups[pod.group].id(), pod));
        let movable = MovablePods::of(pods, namespace, &mine, found, &options.rules)?;
        self.pods = movable.pods;
        let classes = movable.classes.into_iter();
        let classes = classes.map(|of| self.class(mine[of.workload].1, of, options));
        self.classes = classes.collect();
        let nodes = read_view.nodes;
        self.pods.sort_by(|one, other| {
            let place = |pod: &MovablePod| (nodes.name(pod.node).to_owned(), pod.name.clone());
            place(one).cmp(&place(other))
        });
        Ok(())
    }

    /// A class, with the goals that are about its pods.
    fn class(
        &self,
        workload: &WorkloadPods<'_>,
        of: Arc<PodClass>,
        options: &RebalanceOptions,
    ) -> MoveClass {
        let goals = self.goals.iter().enumerate();
        let own = goals.filter(|(_, goal)| goal.workload == Some(of.workload));
        let own = own.zip(wanted_of(workload, options));
        let own = own.filter_map(|((place, _), wanted)| {
            let active = wanted?;
            let is_rule = active.active.constraint.is_hard() && active.is_of(of.group);
            is_rule.then_some((place, active.active.self_match))
        });
        let counts = self.goals.iter().map(|goal| match &goal.selector {
            Some(selector) => selects(selector, &of.pod),
            None => goal.workload == Some(of.workload),
        });
        MoveClass {
            counts: counts.collect(),
            rules: own.collect(),
            of,
        }
    }

    /// Adds the constraints of other workloads that count these pods.
    fn add_others(
        &mut self,
        pods: &PodGroups<'_>,
        options: &RebalanceOptions,
        all: &[(&WorkloadId, WorkloadPods<'_>)],
        chosen: &BTreeSet<&WorkloadId>,
    ) -> Result<(), Stopped> {
        for (_, workload) in all.iter().filter(|(id, _)| !chosen.contains(id)) {
            for goal in goals_of(workload, pods, options, None)? {
                let Some(selector) = &goal.selector else {
                    continue;
                };
                let mut counts = Vec::new();
                for class in &self.classes {
                    pods.read_view().deadline.step(1 + selector.len())?;
                    counts.push(selects(selector, &class.of.pod));
                }
                if counts.iter().any(|it| *it) {
                    for (class, counts) in self.classes.iter_mut().zip(counts) {
                        class.counts.push(counts);
                    }
                    self.goals.push(goal);
                }
            }
        }
        Ok(())
    }

    /// The domain of a goal that a node is in.
    pub fn domain(&self, goal: usize, node: Slot) -> Option<usize> {
        let domain = self.goals[goal].in_use.partition.member(node);
        domain.is_some().then(|| DomainId::index(domain))
    }

    /// The numbers of pods that a goal counts in each domain beside those of the workloads that are
    /// to be repaired.
    pub fn beside(&self, goal: usize) -> impl Iterator<Item = (usize, usize)> {
        let mut own: HashMap<usize, usize> = HashMap::new();
        for pod in &self.pods {
            if self.classes[pod.class].counts[goal]
                && let Some(domain) = self.domain(goal, pod.node)
            {
                *own.entry(domain).or_default() += 1;
            }
        }
        let all = self.goals[goal].counts.all();
        let beside = all.map(move |(domain, count)| {
            let own = own.get(&domain).copied().unwrap_or(0);
            (domain, (count as usize).saturating_sub(own))
        });
        beside.filter(|(_, count)| *count > 0)
    }

    /// Records that a pod is on another node now.
    pub fn note(&mut self, pod: usize, to: Slot, successor_of: i32) {
        let (class, from) = (self.pods[pod].class, self.pods[pod].node);
        for goal in 0..self.goals.len() {
            if self.classes[class].counts[goal] {
                let (from, to) = (self.domain(goal, from), self.domain(goal, to));
                self.goals[goal].counts.shift(from, to);
            }
        }
        self.pods[pod].node = to;
        self.pods[pod].successor_of = successor_of;
    }

    /// Returns whether a workload violates a constraint that is to be repaired.
    pub fn violates(&self, workload: usize) -> bool {
        let mut goals = self.goals.iter();
        goals.any(|goal| goal.workload == Some(workload) && goal.counts.excess() > 0)
    }

    /// The pods of a workload that may move, by class and by their domains.
    pub fn cells(
        &self,
        workload: usize,
        goals: &[usize],
        deadline: &Deadline<'_>,
    ) -> Result<PodCells, Stopped> {
        let mut cells: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, pod) in self.pods.iter().enumerate() {
            deadline.step(1 + goals.len())?;
            if self.classes[pod.class].of.workload != workload || pod.staying.is_some() {
                continue;
            }
            let domains = goals
                .iter()
                .map(|goal| self.domain(*goal, pod.node))
                .collect();
            cells.entry((pod.class, domains)).or_default().push(at);
        }
        Ok(cells)
    }
}

/// The constraints of a workload that matter to the plan, in order; `None` stands for the topology
/// key.
fn wanted_of<'w, 's>(
    workload: &'w WorkloadPods<'s>,
    options: &RebalanceOptions,
) -> Vec<Option<&'w WantedSpread<'s>>> {
    let is_wanted = |hard: bool| hard || options.soft;
    let wanted = workload.wanted.iter();
    let wanted = wanted.filter(|wanted| is_wanted(wanted.active.constraint.is_hard()));
    let by_key = workload.by_key.as_ref().map(|_| None);
    wanted.map(Some).chain(by_key).collect()
}

fn goals_of(
    workload: &WorkloadPods<'_>,
    pods: &PodGroups<'_>,
    options: &RebalanceOptions,
    at: Option<usize>,
) -> Result<Vec<ModelGoal>, Stopped> {
    let own = workload.groups.iter().flat_map(|group| &group.nodes);
    let goal = |wanted: Option<&WantedSpread<'_>>| {
        let (counted, key, constraint, selector) = match (wanted, &workload.by_key) {
            (Some(wanted), _) => {
                let constraint = &wanted.active.constraint;
                (
                    pods.count(wanted.query())?,
                    Arc::clone(&constraint.topology_key),
                    Some(constraint),
                    Some(wanted.active.counted().clone()),
                )
            }
            (None, Some(partition)) => {
                let nodes = own.clone().map(|slot| (*slot, 1));
                let Some(key) = options.by.clone() else {
                    return Ok(None);
                };
                (
                    pods.read_view().count_nodes(partition, nodes)?,
                    key,
                    None,
                    None,
                )
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(ModelGoal {
            workload: at,
            key,
            in_use: counted.in_use().clone(),
            counts: GoalCounts::of(&counted, constraint),
            selector,
        }))
    };
    let goals = wanted_of(workload, options).into_iter().map(goal);
    goals.filter_map(Result::transpose).collect()
}

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

/// A step that was made.
#[derive(Debug)]
pub struct Stepped {
    /// The index of the pod in the model.
    pub pod: usize,
    /// The node that the pod left.
    pub from: Slot,
    /// The node of its successor.
    pub to: Slot,
    /// The move, without the workload and the history of the pod.
    pub step: v1::PodMove,
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
        let mut board = self.board(&goals);
        let deadline = self.read_view.deadline;
        let cells = self.model.cells(self.workload, &goals, deadline)?;
        let mut nodes = HashMap::new();
        for ((class, domains), pods) in cells {
            let mut pods = self.within_nodes(pods, &mut nodes, affords_node);
            // Pods that no earlier move created come first.
            pods.sort_by_key(|pod| self.model.pods[*pod].successor_of > 0);
            board.sources.push(SourceCell {
                class,
                domains,
                left: pods.len(),
                pods,
            });
        }
        for class in classes {
            board.targets[class] = self.targets(class, &goals, refused)?;
        }
        let found = board.search(most, deadline)?;
        let mut taken = vec![0; board.sources.len()];
        let step = |(source, target): &(usize, usize)| {
            let from = &board.sources[*source];
            let pod = from.pods[taken[*source]];
            taken[*source] += 1;
            MoveStep {
                pod,
                class: from.class,
                target: board.targets[from.class][*target].nodes.clone(),
            }
        };
        Ok(FoundSteps {
            steps: found.moves.iter().map(step).collect(),
            is_least: found.is_least,
            is_capped: !found.is_whole && found.moves.len() >= most,
        })
    }

    fn board(&self, goals: &[usize]) -> MoveBoard {
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
        let counts = |class: &MoveClass| goals.iter().map(|goal| class.counts[*goal]).collect();
        let rules = |class: &MoveClass| class.rules.iter().filter_map(place).collect();
        let classes = &self.model.classes;
        MoveBoard {
            goals: goals.iter().map(goal).collect(),
            sources: Vec::new(),
            targets: vec![Vec::new(); classes.len()],
            counts: classes.iter().map(counts).collect(),
            rules: classes.iter().map(rules).collect(),
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
    ) -> Result<Vec<TargetCell>, Stopped> {
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
            TargetCell {
                room: if is_refused { 0 } else { room },
                domains,
                nodes,
            }
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
            let from = pod.node;
            let left = imagined.read_any().nodes.name(from).to_owned();
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
            let moved = move_pod(imagined, (namespace, &pod.name), class, choose)?;
            let Ok((to, moved)) = moved else {
                return Ok((Some(step), false));
            };
            let pod = step.pod;
            model.note(pod, to, model.pods[pod].successor_of);
            let step = v1::PodMove {
                from: left,
                ..moved
            };
            made.push(Stepped {
                pod,
                from,
                to,
                step,
            });
        }
        Ok((None, true))
    })?;
    let Some(refused) = refused else {
        return Ok(Ok(made));
    };
    for Stepped { pod, from, .. } in made.into_iter().rev() {
        model.note(pod, from, model.pods[pod].successor_of);
    }
    Ok(Err(refused.clone()))
}

fn effects(
    model: &SpreadModel,
    step: &MoveStep,
    to: Slot,
    read_view: &ReadView<'_>,
) -> Vec<v1::MoveEffect> {
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
        let ((from_value, from_pods), (to_value, to_pods)) = (domain(from), domain(to));
        v1::MoveEffect {
            topology_key: goal.key.to_string(),
            from_value,
            from_pods,
            to_value,
            to_pods,
        }
    })
    .collect()
}
