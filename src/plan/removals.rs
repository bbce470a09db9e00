//! Plans which pods of a workload should go when it scales down.

use std::collections::{BTreeMap, HashMap};

use super::choice::{Choice, ChosenDomain, PodCell};
use super::deletion_order::DeletionRank;
use crate::proto::v1;
use crate::snapshot::{DomainCounts, DomainId, NamedPod, PodGroups, ReadView, Slot};
use crate::spread::describe::{Balance, WantedSpread, WorkloadPods, selects};

/// The cost of gathering a pod, for each constraint, in units.
const UNITS_PER_MEMBER: usize = 20;

/// The options of a plan of removals.
#[derive(Debug, Clone, Copy)]
pub struct RemovalOptions<'a> {
    /// The number of pods that should go.
    pub count: usize,
    /// The fields of the pods that their controller reads, by the pod's name.
    pub facts: &'a BTreeMap<String, v1::PodFacts>,
    /// The number of domains to list.
    pub max_domains: usize,
}

/// The pods that should go, and the spread before and after.
#[derive(Debug, Clone, Default)]
pub struct RemovalPlan {
    /// The pods that should go, in order.
    pub removals: Vec<PlannedRemoval>,
    /// The number of pods of the workload.
    pub pods: usize,
    /// The spread of the pods.
    pub before: Vec<Balance>,
    /// The spread of the pods that stay.
    pub after: Vec<Balance>,
    /// The number of pods whose facts are unknown.
    pub unknown: usize,
    /// True if no other choice leaves the pods more evenly spread.
    pub optimal: bool,
}

/// A pod that should go.
#[derive(Debug, Clone)]
pub struct PlannedRemoval {
    /// The pod.
    pub name: String,
    /// The uid of the pod.
    pub uid: String,
    /// The node that it is on; empty if it is on none.
    pub node: String,
    /// The domains that the pod leaves, one for each constraint that counts the pod, with their
    /// counts before this removal.
    pub domains: Vec<LeftDomain>,
}

/// A domain out of which a pod should go.
#[derive(Debug, Clone)]
pub struct LeftDomain {
    /// The topology key.
    pub topology_key: String,
    /// The value of the domain; empty if the node is in no domain.
    pub value: String,
    /// The number of matching pods before the removal; 0 if the node is in no domain.
    pub matching_pods: i64,
}

/// A constraint with its counts.
struct Counted<'p, 'a> {
    wanted: &'p WantedSpread<'p>,
    counts: DomainCounts<'a>,
    /// For each group, true if the constraint counts its pods.
    counts_group: Vec<bool>,
}

impl RemovalPlan {
    /// Plans which pods of a workload go.
    pub fn of(
        workload: &WorkloadPods<'_>,
        pods: &PodGroups<'_>,
        options: RemovalOptions<'_>,
    ) -> Self {
        let read_view = pods.read_view();
        let groups = workload.groups.iter().map(|(group, _)| *group);
        let pods_in_order = in_order(pods.named(groups), options.facts);
        let wanted = workload.wanted.iter();
        let counted: Vec<_> = wanted.map(|w| Counted::of(w, workload, pods)).collect();
        let waiting = pods_in_order
            .iter()
            .take_while(|(pod, _)| pod.node.is_none());
        let waiting = waiting.count();
        let (choice, cells) = choice(&pods_in_order[waiting..], &counted, read_view);
        let left = options.count.saturating_sub(waiting);
        let affords = |units: usize| read_view.affords(units);
        let chosen = choice.choose(left, &affords);
        let gone_first = pods_in_order.iter().take(waiting.min(options.count));
        let mut removals: Vec<_> = gone_first
            .map(|(pod, _)| PlannedRemoval::of(pod, read_view))
            .collect();
        let mut gone: Vec<&NamedPod> = Vec::new();
        let mut taken = vec![0; choice.cells.len()];
        let mut left_of: Vec<i64> = choice.domains.iter().map(|d| d.pods.unwrap_or(0)).collect();
        for cell in choice.in_order(&chosen, &affords) {
            let rank = choice.cells[cell].ranks[taken[cell]];
            taken[cell] += 1;
            let pod = &pods_in_order[waiting + rank].0;
            let mut removal = PlannedRemoval::of(pod, read_view);
            for (counted, domain) in counted.iter().zip(&choice.cells[cell].domains) {
                if let Some(domain) = domain {
                    let id = cells[*domain];
                    removal.domains.push(counted.left(id, left_of[*domain]));
                    left_of[*domain] = (left_of[*domain] - 1).max(0);
                }
            }
            removals.push(removal);
            gone.push(pod);
        }
        let balance = |counted: &Counted<'_, '_>, gone: &[&NamedPod]| {
            counted.balance(workload, pods, gone, options.max_domains)
        };
        Self {
            removals,
            pods: pods_in_order.len(),
            before: counted.iter().map(|c| balance(c, &[])).collect(),
            after: counted.iter().map(|c| balance(c, &gone)).collect(),
            unknown: pods_in_order.iter().filter(|(_, known)| !known).count(),
            optimal: chosen.optimal,
        }
    }
}

impl PlannedRemoval {
    fn of(pod: &NamedPod, read_view: &ReadView<'_>) -> Self {
        let node = pod.node.map(|slot| read_view.nodes.name(slot));
        Self {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            node: node.unwrap_or_default().to_owned(),
            domains: Vec::new(),
        }
    }
}

/// The pods in the order in which a ReplicaSet deletes them. The flag is true if facts about the
/// pod are known.
fn in_order(pods: Vec<NamedPod>, facts: &BTreeMap<String, v1::PodFacts>) -> Vec<(NamedPod, bool)> {
    let mut on_node: HashMap<Option<Slot>, usize> = HashMap::new();
    for pod in &pods {
        *on_node.entry(pod.node).or_default() += 1;
    }
    let facts_of = |pod: &NamedPod| {
        let known = facts.get(&pod.name);
        known.filter(|known| known.uid.is_empty() || known.uid == pod.uid)
    };
    let mut pods: Vec<_> = pods
        .into_iter()
        .map(|pod| {
            let facts = facts_of(&pod);
            let rank = DeletionRank::of(&pod, on_node[&pod.node], facts);
            let known = facts.is_some();
            (rank, pod, known)
        })
        .collect();
    pods.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    pods.into_iter()
        .map(|(_, pod, known)| (pod, known))
        .collect()
}

/// The choice among pods on nodes, and the id of each of its domains: [`DomainId::NONE`] for nodes
/// in no domain. Cells and domains are numbered in the order of the pods, so that the result does
/// not depend on the order in which objects arrived.
fn choice(
    pods: &[(NamedPod, bool)],
    counted: &[Counted<'_, '_>],
    read_view: &ReadView<'_>,
) -> (Choice, Vec<DomainId>) {
    let mut choice = Choice {
        constraints: counted.len(),
        ..Choice::default()
    };
    let mut ids = Vec::new();
    let mut numbers: HashMap<(usize, DomainId), usize> = HashMap::new();
    let mut cells: HashMap<Vec<Option<usize>>, usize> = HashMap::new();
    for (rank, (pod, _)) in pods.iter().enumerate() {
        if !read_view.affords(UNITS_PER_MEMBER * (1 + counted.len())) {
            break;
        }
        let domains = counted.iter().enumerate().map(|(index, counted)| {
            let id = counted.domain_of(pod)?;
            let number = *numbers.entry((index, id)).or_insert_with(|| {
                ids.push(id);
                choice.domains.push(ChosenDomain {
                    is_hard: counted.wanted.active.constraint.is_hard(),
                    pods: id
                        .is_some()
                        .then(|| counted.counts.matching_pods(id).into()),
                });
                ids.len() - 1
            });
            Some(number)
        });
        let domains: Vec<_> = domains.collect();
        let next = choice.cells.len();
        let cell = *cells.entry(domains.clone()).or_insert(next);
        if cell == next {
            let ranks = Vec::new();
            choice.cells.push(PodCell { domains, ranks });
        }
        choice.cells[cell].ranks.push(rank);
    }
    (choice, ids)
}

impl<'p, 'a> Counted<'p, 'a> {
    fn of(wanted: &'p WantedSpread<'p>, workload: &WorkloadPods<'_>, pods: &PodGroups<'a>) -> Self {
        let selector = wanted.active.counted();
        let groups = workload.groups.iter();
        Self {
            counts_group: groups.map(|(_, pod)| selects(selector, pod)).collect(),
            counts: pods.count(wanted.query()),
            wanted,
        }
    }

    /// The domain in which the constraint counts a pod, if it counts the pod.
    fn domain_of(&self, pod: &NamedPod) -> Option<DomainId> {
        let slot = pod.node.filter(|_| self.counts_group[pod.group])?;
        Some(self.counts.in_use().partition.member(slot))
    }

    fn left(&self, domain: DomainId, matching_pods: i64) -> LeftDomain {
        let value = domain.is_some().then(|| self.counts.domain(domain).value);
        LeftDomain {
            topology_key: self.wanted.active.constraint.topology_key.to_string(),
            value: value.unwrap_or_default().to_owned(),
            matching_pods,
        }
    }

    /// Returns the spread of the pods without those that are `gone`.
    fn balance(
        &self,
        workload: &WorkloadPods<'_>,
        pods: &PodGroups<'_>,
        gone: &[&NamedPod],
        max_domains: usize,
    ) -> Balance {
        let active = &self.wanted.active;
        let mut on: HashMap<Slot, u32> = HashMap::new();
        for (slot, count) in pods.counted_on(active.counted()) {
            *on.entry(slot).or_default() += count;
        }
        let is_outside = |slot: &Slot| !self.counts.in_use().partition.member(*slot).is_some();
        let groups = workload.groups.iter().map(|(group, _)| *group);
        let own = groups.filter(|group| self.wanted.is_of(group));
        let own = own.flat_map(|group| &group.nodes);
        let mut outside = own.filter(|slot| is_outside(slot)).count();
        for pod in gone {
            let Some(slot) = pod.node else { continue };
            if self.counts_group[pod.group]
                && let Some(count) = on.get_mut(&slot)
            {
                *count = count.saturating_sub(1);
            }
            if self.wanted.is_of(workload.groups[pod.group].0) && is_outside(&slot) {
                outside = outside.saturating_sub(1);
            }
        }
        let counts = pods.count_nodes(&self.wanted.partition, on.into_iter());
        let key = &active.constraint.topology_key;
        Balance::of(&counts, key, Some(active), outside, max_domains)
    }
}
