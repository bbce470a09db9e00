//! The constraints of a namespace and the pods of the workloads that violate them. The model
//! follows the moves of a plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::movable::{MovablePod, MovablePods, PodClass};
use super::moves::GoalCounts;
use super::rebalance::RebalanceOptions;
use crate::matching::Selector;
use crate::snapshot::{Deadline, DomainId, PartitionInUse, PodGroup, PodGroups, Slot, Stopped};
use crate::spread::describe::{
    By, JudgedWorkload, WantedSpread, WorkloadId, WorkloadPods, selects,
};

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
    /// The identity of the workload.
    pub id: WorkloadId,
    /// The spread of the workload.
    pub before: JudgedWorkload,
    /// The measure by which the workload is judged.
    pub by: By,
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
        let survey = options.survey(pods, namespace)?;
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
                let by = match (&workload.by_key, &options.by) {
                    (Some(_), Some(key)) => By::Key(Arc::clone(key)),
                    _ => By::Constraints,
                };
                let Some(before) = survey.judge_listed(id, &by)? else {
                    continue;
                };
                chosen.insert(*id);
                model.workloads.push(ModelWorkload {
                    id: (*id).clone(),
                    before,
                    by,
                });
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
        let groups: Vec<&PodGroup> = groups.map(|(group, _)| *group).collect();
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
    pub fn note(&mut self, pod: usize, to: Slot, made_by: Option<usize>) {
        let (class, from) = (self.pods[pod].class, self.pods[pod].node);
        for goal in 0..self.goals.len() {
            if self.classes[class].counts[goal] {
                let (from, to) = (self.domain(goal, from), self.domain(goal, to));
                self.goals[goal].counts.shift(from, to);
            }
        }
        self.pods[pod].node = to;
        self.pods[pod].made_by = made_by;
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
    let own = workload.groups.iter().flat_map(|(group, _)| &group.nodes);
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
