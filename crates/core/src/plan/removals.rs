//! Plans which pods of a workload go when it scales down.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::network::{Choice, ChosenDomain, PodCell};
use crate::matching::revisions::{CLONE_SET, CONTROLLER_REVISION, template_hash_label};
use crate::proto::{count, v1};
use crate::snapshot::owners::PodNumbering;
use crate::snapshot::pod::Phase;
use crate::snapshot::{
    DomainCounts, DomainId, Limits, NamedPod, PodGroups, ReadView, Slot, Stopped,
};
use crate::spread::describe::{Balance, NamedWorkload, Survey, WantedSpread, WorkloadPods};

/// The rank of a pod in this order: the pod with the smallest rank goes first. Times are compared
/// exactly. The controller instead compares ages rounded down to a power of two, by which the order
/// would depend on the time of the question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletionRank {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    deletion_cost: i32,
    /// The number of pods of the workload that the pod's node has.
    doubled: Reverse<usize>,
    ready_time: Option<Reverse<(i64, i32)>>,
    restarts: Reverse<(i32, i32)>,
    creation_time: Option<Reverse<(i64, i32)>>,
    uid: String,
    name: String,
}

impl DeletionRank {
    /// The part of the rank that no deletion cost outweighs: on a node, phase and readiness.
    pub fn tier(&self) -> impl Ord + use<> {
        (self.is_assigned, self.phase, self.is_ready)
    }

    /// The rank of a pod whose node has `doubled` pods of the workload. Without facts, a running
    /// pod counts as ready.
    pub fn of(pod: &NamedPod, doubled: usize, facts: Option<&v1::PodFacts>) -> Self {
        let none = v1::PodFacts {
            ready: pod.phase == Phase::Running,
            ..v1::PodFacts::default()
        };
        let facts = facts.unwrap_or(&none);
        let latest_first = |time: &Option<pbjson_types::Timestamp>| {
            let time = time.as_ref()?;
            Some(Reverse((time.seconds, time.nanos)))
        };
        Self {
            is_assigned: pod.node.is_some(),
            phase: match pod.phase {
                Phase::Unknown => 1,
                Phase::Running => 2,
                _ => 0,
            },
            is_ready: facts.ready,
            deletion_cost: facts.deletion_cost,
            doubled: Reverse(doubled),
            ready_time: latest_first(&facts.ready_time).filter(|_| facts.ready),
            restarts: Reverse((facts.restarts, facts.sidecar_restarts)),
            creation_time: latest_first(&facts.creation_time),
            uid: pod.uid.clone(),
            name: pod.name.clone(),
        }
    }
}

/// The way in which a kind of controller chooses the pods that it removes, as far as it is known.
pub fn removal_rule(kind: &str) -> v1::RemovalRule {
    match kind {
        "Deployment" | "ReplicaSet" | "ReplicationController" | "Rollout" | "CloneSet" => {
            v1::RemovalRule::DeletionCost
        }
        "StatefulSet" => v1::RemovalRule::HighestOrdinals,
        _ => v1::RemovalRule::Unspecified,
    }
}

/// The options of a plan of removals.
#[derive(Debug)]
pub struct RemovalOptions {
    /// The namespace of the workload.
    pub namespace: String,
    /// The workload.
    pub workload: NamedWorkload,
    /// The number of pods that go.
    pub count: usize,
    /// The fields of the pods that their controller reads, by the pod's name.
    pub facts: BTreeMap<String, v1::PodFacts>,
    /// The pods that each revision keeps, by its hash, if they are known.
    pub sizes: BTreeMap<String, i32>,
    /// The number of domains to list.
    pub max_domains: usize,
    /// The limits for pods.
    pub limits: Limits,
}

/// A replica set of a Deployment that is scaled down.
#[derive(Debug, Clone, Default)]
pub struct ReplicaSetShare {
    /// The hash of its pods.
    pub hash: String,
    /// The number of pods that it wants.
    pub replicas: i64,
    /// The most pods that its Deployment might have when the replica set got that number; 0 means
    /// as many as all replica sets want.
    pub max_replicas: i64,
    /// The time when it was created, or the first of its pods, if it is known.
    pub created: Option<(i64, i32)>,
}

/// The pods of one revision, in the order in which they are deleted.
type Revisions = BTreeMap<String, Vec<RankedPod>>;

/// Pods that are removed, in order, and the spread of those that stay.
struct RemovedPods {
    pods: Vec<v1::Removal>,
    after: Vec<Balance>,
}

/// A constraint with its counts.
struct Counted<'p, 'a> {
    wanted: &'p WantedSpread<'p>,
    counts: DomainCounts<'a>,
    /// For each group, true if the constraint counts its pods.
    counts_group: Vec<bool>,
}

/// A pod with its place in the order of deletion.
struct RankedPod {
    rank: DeletionRank,
    pod: NamedPod,
    /// True if facts about the pod are known.
    is_known: bool,
}

/// A workload whose pods are removed.
struct Removing<'p, 'a> {
    workload: &'p WorkloadPods<'p>,
    pods: &'p PodGroups<'a>,
    counted: Vec<Counted<'p, 'a>>,
    max_domains: usize,
}

/// Plans which pods of a workload go; `None` when the workload has no pods. The answer is without the
/// revision and the kind of default constraints.
pub fn rank_removals(
    pods: &PodGroups<'_>,
    options: &RemovalOptions,
) -> Result<Option<v1::RankRemovalsResponse>, Stopped> {
    let RemovalOptions {
        namespace,
        workload: named,
        max_domains,
        limits,
        ..
    } = options;
    let survey = Survey::of(pods, namespace, limits, *max_domains, Some(named))?;
    let Some(workload) = survey.wanted_of(named)? else {
        return Ok(None);
    };
    let ranked = in_order(pods.named(workload.groups.iter().copied())?, &options.facts);
    let counted = workload.wanted.iter();
    let counted = counted.map(|wanted| Counted::of(wanted, &workload, pods));
    let removing = Removing {
        counted: counted.collect::<Result<_, _>>()?,
        max_domains: *max_domains,
        workload: &workload,
        pods,
    };
    let read_view = pods.read_view();
    let rule = removal_rule(&named.kind);
    let mut answer = v1::RankRemovalsResponse {
        pod_count: count(ranked.len()),
        before: to_wire(removing.balances(&[])),
        unknown_pod_count: count(ranked.iter().filter(|it| !it.is_known).count()),
        fault: workload.fault.clone().unwrap_or_default(),
        selected_count: count(workload.selected),
        rule: rule.into(),
        optimal: true,
        ..Default::default()
    };
    if rule == v1::RemovalRule::HighestOrdinals {
        let numbering = read_view.owners().numbering(&named.name);
        let highest = highest(&ranked, numbering.unwrap_or_default(), options);
        let removed = removing.without(&highest)?;
        let (best, _) = best(&[], &ranked, &removing.counted, highest.len(), read_view)?;
        let best = removing.without(&best)?;
        if best.unevenness() < removed.unevenness() {
            answer.better_removals = best.pods;
            answer.better_after = to_wire(best.after);
        }
        answer.removals = removed.pods;
        answer.after = to_wire(removed.after);
        return Ok(Some(answer));
    }
    let all = ranked.len();
    // Where all pods go there is nothing to split.
    let is_split = !options.sizes.is_empty() || options.count < all;
    let label = revision_label(&named.kind, &options.sizes).filter(|_| is_split);
    let revisions = revisions(ranked, label, &options.sizes, &removing);
    let left = count(all.saturating_sub(options.count));
    let sizes = match label {
        None => BTreeMap::from([(String::new(), i32::try_from(left).unwrap_or(i32::MAX))]),
        Some(_) if options.sizes.is_empty() => {
            sizes_after(shares(&revisions, &options.facts), left, 0)
        }
        Some(_) => options.sizes.clone(),
    };
    // The largest first. A revision may have fewer pods than it keeps.
    let mut largest: Vec<_> = revisions.iter().collect();
    largest.sort_by_key(|(_, ranked)| Reverse(ranked.len()));
    let mut gone = Vec::new();
    for (hash, ranked) in largest {
        let size = sizes
            .get(hash)
            .map(|size| usize::try_from(*size).unwrap_or(0));
        let removed = size.map_or(0, |size| ranked.len().saturating_sub(size));
        let (more, optimal) = best(&gone, ranked, &removing.counted, removed, read_view)?;
        answer.optimal &= optimal;
        gone.extend(more);
        answer.revisions.push(v1::ShrunkRevision {
            hash: hash.clone(),
            pod_count: count(ranked.len()),
            removal_count: count(removed),
        });
    }
    match answer.revisions.len() {
        0 | 1 => answer.revisions.clear(),
        // The choice in one is made without regard to those in the next.
        _ => answer.optimal = false,
    }
    let removed = removing.without(&gone)?;
    answer.removals = removed.pods;
    answer.after = to_wire(removed.after);
    Ok(Some(answer))
}

fn to_wire(balances: Vec<Balance>) -> Vec<v1::TopologySpread> {
    balances.into_iter().map(Balance::into_wire).collect()
}

/// The label by which the pods of a workload are told apart that its controller removes by revisions.
/// A CloneSet does so by numbers that only the caller may know.
fn revision_label(kind: &str, sizes: &BTreeMap<String, i32>) -> Option<&'static str> {
    match kind {
        "ReplicaSet" => None,
        CLONE_SET => (!sizes.is_empty()).then_some(CONTROLLER_REVISION),
        kind => template_hash_label(kind),
    }
}

/// The pods of each revision, by its hash; all of one without a label. An empty hash has those of all
/// revisions without a size, where it has one.
fn revisions(
    ranked: Vec<RankedPod>,
    label: Option<&str>,
    sizes: &BTreeMap<String, i32>,
    of: &Removing<'_, '_>,
) -> Revisions {
    let mut by_hash = Revisions::new();
    let has_others = sizes.contains_key("");
    for one in ranked {
        let mut labels = of.pods.labels(of.workload.groups[one.pod.group]);
        let hash = label.and_then(|label| labels.find(|(key, _)| *key == label));
        let hash = hash.map(|(_, hash)| hash);
        let hash = hash.filter(|hash| !has_others || sizes.contains_key(*hash));
        let hash = hash.unwrap_or_default().to_owned();
        by_hash.entry(hash).or_default().push(one);
    }
    by_hash
}

/// What is known of replica sets by their pods.
fn shares(revisions: &Revisions, facts: &BTreeMap<String, v1::PodFacts>) -> Vec<ReplicaSetShare> {
    let share = |(hash, ranked): (&String, &Vec<RankedPod>)| {
        let known = ranked.iter().filter(|it| it.is_known);
        let facts = known.filter_map(|it| facts.get(&it.pod.name)?.creation_time.as_ref());
        ReplicaSetShare {
            hash: hash.clone(),
            replicas: count(ranked.len()),
            max_replicas: 0,
            created: facts.map(|time| (time.seconds, time.nanos)).min(),
        }
    };
    revisions.iter().map(share).collect()
}

/// The replicas of the replica sets of a Deployment that is scaled down to `wanted`, by their hashes,
/// as kube-controller-manager 1.37 sets them (`scale` in sync.go, `GetReplicaSetProportion`): one
/// gets all, several get a part of `wanted` and `max_surge` in proportion to what they had of the
/// most that the Deployment might have. What is left by rounding is taken from the largest, of two as
/// large the older one.
pub fn sizes_after(
    mut sets: Vec<ReplicaSetShare>,
    wanted: i64,
    max_surge: i64,
) -> BTreeMap<String, i32> {
    let is_active = |it: &ReplicaSetShare| it.replicas > 0;
    let active = sets.iter().filter(|it| is_active(it)).count();
    let all: i64 = sets.iter().map(|it| it.replicas).sum();
    let allowed = match wanted {
        0 => 0,
        wanted => wanted + max_surge,
    };
    sets.sort_by_key(|it| (Reverse(it.replicas), it.created.is_none(), it.created));
    let mut rest = allowed - all;
    let is_growing = rest > 0;
    let mut sizes = Vec::new();
    for it in &sets {
        let most = match it.max_replicas {
            0 => all,
            most => most,
        };
        // Halves are rounded up. One replica set may get more than it has, where others give it.
        let share = (2 * it.replicas * allowed + most) / (2 * most).max(1);
        let added = match share - it.replicas {
            _ if rest == 0 || !is_active(it) => 0,
            added if is_growing => added.min(rest),
            added => added.max(rest),
        };
        rest -= added;
        sizes.push(it.replicas + added);
    }
    if let Some(first) = sizes.first_mut() {
        *first = match active {
            1 => wanted,
            _ => (*first + rest).max(0),
        };
    }
    let sizes = sizes
        .into_iter()
        .map(|size| i32::try_from(size).unwrap_or(i32::MAX));
    sets.into_iter().map(|it| it.hash).zip(sizes).collect()
}

impl RemovedPods {
    /// How uneven the pods are that stay, by the hard constraints and by the soft ones.
    fn unevenness(&self) -> [i64; 4] {
        let sum = |hard: bool, of: fn(&Balance) -> i64| {
            let alike = self.after.iter().filter(|it| it.is_hard() == hard);
            alike.map(of).sum()
        };
        [
            sum(true, Balance::excess),
            sum(true, |it| it.numbers.skew),
            sum(false, Balance::excess),
            sum(false, |it| it.numbers.skew),
        ]
    }
}

impl Removing<'_, '_> {
    /// Removes pods in this order.
    fn without(&self, gone: &[&NamedPod]) -> Result<RemovedPods, Stopped> {
        let steps = gone.len().saturating_mul(1 + self.counted.len());
        self.pods.read_view().deadline.step(steps)?;
        let mut left: HashMap<(usize, DomainId), i64> = HashMap::new();
        let removal = |pod: &&NamedPod| {
            let node = pod.node.map(|slot| self.pods.read_view().nodes.name(slot));
            let mut domains = Vec::new();
            for (index, counted) in self.counted.iter().enumerate() {
                if let Some(id) = counted.domain_of(pod) {
                    let matching = || match id.is_some() {
                        true => counted.counts.matching_pods(id).into(),
                        false => 0,
                    };
                    let left = left.entry((index, id)).or_insert_with(matching);
                    domains.push(counted.left(id, *left));
                    *left = (*left - 1).max(0);
                }
            }
            v1::Removal {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                node: node.unwrap_or_default().to_owned(),
                domains,
            }
        };
        Ok(RemovedPods {
            pods: gone.iter().map(removal).collect(),
            after: self.balances(gone),
        })
    }

    fn balances(&self, gone: &[&NamedPod]) -> Vec<Balance> {
        let counted = self.counted.iter();
        let balances = counted.map(|it| it.balance(self.workload, gone, self.max_domains));
        balances.collect()
    }
}

/// The pods that a stateful set removes when it wants fewer, highest ordinal first: those beyond its
/// new last ordinal, and those before its first one.
fn highest<'r>(
    ranked: &'r [RankedPod],
    numbering: PodNumbering,
    options: &RemovalOptions,
) -> Vec<&'r NamedPod> {
    let ordinal = |pod: &NamedPod| options.workload.ordinal_of(&pod.name).map(i64::from);
    let pods = ranked.iter().map(|it| &it.pod);
    let last = pods.clone().filter_map(ordinal).max().unwrap_or(0);
    let first = i64::from(numbering.start);
    let wanted = numbering
        .replicas
        .map(|replicas| first + i64::from(replicas));
    let count = i64::try_from(options.count).unwrap_or(i64::MAX);
    let end = wanted.unwrap_or(last + 1).saturating_sub(count);
    let goes = |pod: &&NamedPod| ordinal(pod).is_none_or(|it| it >= end || it < first);
    let mut gone: Vec<_> = pods.filter(goes).collect();
    gone.sort_by_key(|pod| Reverse(ordinal(pod)));
    gone
}

/// The best pods to remove, in order: first those that a ReplicaSet removes whatever they cost, then
/// of those that it tells apart by their costs alone the ones without which the pods are spread
/// best. Others have gone `before`. The flag is true if no other choice is better.
fn best<'r>(
    before: &[&'r NamedPod],
    ranked: &'r [RankedPod],
    counted: &[Counted<'_, '_>],
    count: usize,
    read_view: &ReadView<'_>,
) -> Result<(Vec<&'r NamedPod>, bool), Stopped> {
    let count = count.min(ranked.len());
    let Some(last) = count.checked_sub(1).map(|last| ranked[last].rank.tier()) else {
        return Ok((Vec::new(), true));
    };
    let forced = ranked.partition_point(|it| it.rank.tier() < last);
    let end = ranked.partition_point(|it| it.rank.tier() <= last);
    let (gone, free) = (&ranked[..forced], &ranked[forced..end]);
    let gone = gone.iter().map(|it| &it.pod);
    let away: Vec<&NamedPod> = before.iter().copied().chain(gone.clone()).collect();
    let choice = choice(&away, free, counted, read_view)?;
    let (removed, optimal) = choice.choose(count - forced, read_view.deadline)?;
    let mut taken = vec![0; choice.cells.len()];
    let in_order = choice.in_order(&removed, read_view.deadline)?;
    let picked = in_order.into_iter().map(|cell| {
        let rank = choice.cells[cell].ranks[taken[cell]];
        taken[cell] += 1;
        &free[rank].pod
    });
    Ok((gone.chain(picked).collect(), optimal))
}

/// The pods in the order in which a ReplicaSet deletes them.
fn in_order(pods: Vec<NamedPod>, facts: &BTreeMap<String, v1::PodFacts>) -> Vec<RankedPod> {
    let mut on_node: HashMap<Option<Slot>, usize> = HashMap::new();
    for pod in &pods {
        *on_node.entry(pod.node).or_default() += 1;
    }
    let ranked = pods.into_iter().map(|pod| {
        let facts = facts.get(&pod.name);
        let facts = facts.filter(|known| known.uid.is_empty() || known.uid == pod.uid);
        RankedPod {
            rank: DeletionRank::of(&pod, on_node[&pod.node], facts),
            is_known: facts.is_some(),
            pod,
        }
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|one, other| one.rank.cmp(&other.rank));
    ranked
}

/// The choice among some pods, after others are gone. Cells and domains are numbered in the order of
/// the pods, so that the result does not depend on the order in which objects arrived.
fn choice(
    gone: &[&NamedPod],
    free: &[RankedPod],
    counted: &[Counted<'_, '_>],
    read_view: &ReadView<'_>,
) -> Result<Choice, Stopped> {
    let mut choice = Choice {
        constraints: counted.len(),
        ..Choice::default()
    };
    let mut numbers: HashMap<(usize, DomainId), usize> = HashMap::new();
    let mut cells: HashMap<Vec<Option<usize>>, usize> = HashMap::new();
    for (rank, RankedPod { pod, .. }) in free.iter().enumerate() {
        read_view.deadline.step(1 + counted.len())?;
        let domains = counted.iter().enumerate().map(|(index, counted)| {
            let id = counted.domain_of(pod)?;
            let number = *numbers.entry((index, id)).or_insert_with(|| {
                choice.domains.push(ChosenDomain {
                    is_hard: counted.wanted.active.constraint.is_hard(),
                    pods: id
                        .is_some()
                        .then(|| counted.counts.matching_pods(id).into()),
                });
                choice.domains.len() - 1
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
    for pod in gone {
        for (index, counted) in counted.iter().enumerate() {
            let domain = counted.domain_of(pod);
            let number = domain.and_then(|id| numbers.get(&(index, id)));
            let pods = number.and_then(|number| choice.domains[*number].pods.as_mut());
            pods.into_iter().for_each(|pods| *pods -= 1);
        }
    }
    Ok(choice)
}

impl<'p, 'a> Counted<'p, 'a> {
    fn of(
        wanted: &'p WantedSpread<'p>,
        workload: &WorkloadPods<'_>,
        pods: &PodGroups<'a>,
    ) -> Result<Self, Stopped> {
        let selector = wanted.active.counted();
        let groups = workload.groups.iter();
        let counts = groups.map(|group| pods.selects(selector, group));
        Ok(Self {
            counts_group: counts.collect::<Result<_, _>>()?,
            counts: pods.count(wanted.query())?,
            wanted,
        })
    }

    /// The domain in which the constraint counts a pod, if it counts the pod.
    fn domain_of(&self, pod: &NamedPod) -> Option<DomainId> {
        let slot = pod.node.filter(|_| self.counts_group[pod.group])?;
        Some(self.counts.in_use().partition.member(slot))
    }

    fn left(&self, domain: DomainId, matching_pods: i64) -> v1::RemovalDomain {
        let value = domain.is_some().then(|| self.counts.domain(domain).value);
        v1::RemovalDomain {
            topology_key: self.wanted.active.constraint.topology_key.to_string(),
            value: value.unwrap_or_default().to_owned(),
            matching_pods,
        }
    }

    /// Returns the spread of the pods without those that are `gone`.
    fn balance(
        &self,
        workload: &WorkloadPods<'_>,
        gone: &[&NamedPod],
        max_domains: usize,
    ) -> Balance {
        let active = &self.wanted.active;
        let mut counts = self.counts.clone();
        let is_outside = |slot: &Slot| !self.counts.in_use().partition.member(*slot).is_some();
        let groups = workload.groups.iter();
        let own = groups.filter(|group| self.wanted.is_of(group.id()));
        let own = own.flat_map(|group| &group.nodes);
        let mut outside = own.filter(|slot| is_outside(slot)).count();
        for pod in gone {
            let Some(slot) = pod.node else { continue };
            if self.counts_group[pod.group] {
                counts.remove(slot);
            }
            if self.wanted.is_of(workload.groups[pod.group].id()) && is_outside(&slot) {
                outside = outside.saturating_sub(1);
            }
        }
        let key = &active.constraint.topology_key;
        Balance::of(&counts, key, Some(active), outside, max_domains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of replica sets of these replicas, with the most that the Deployment might have.
    fn sizes(wanted: i64, max_surge: i64, sets: &[(i64, i64)]) -> Vec<i32> {
        let share = |(at, (replicas, max_replicas)): (usize, &(i64, i64))| ReplicaSetShare {
            hash: at.to_string(),
            replicas: *replicas,
            max_replicas: *max_replicas,
            created: None,
        };
        let sets = sets.iter().enumerate().map(share).collect();
        sizes_after(sets, wanted, max_surge).into_values().collect()
    }

    /// What kube-controller-manager 1.37.2 sets: `scale`, called with such Deployments.
    #[test]
    fn replica_sets_shrink_as_their_controller_shrinks_them() {
        for (wanted, surge, before, after) in [
            // One replica set gets what is wanted, whatever the surge.
            (6, 2, vec![(9, 12)], vec![6]),
            (6, 2, vec![(4, 12)], vec![6]),
            // As many as the rollout may have.
            (5, 0, vec![(7, 10), (3, 10)], vec![3, 2]),
            (7, 0, vec![(4, 8), (4, 8)], vec![3, 4]),
            (6, 0, vec![(4, 8), (4, 8)], vec![3, 3]),
            (
                6,
                0,
                vec![(3, 10), (3, 10), (3, 10), (1, 10)],
                vec![1, 2, 2, 1],
            ),
            (2, 1, vec![(3, 5), (2, 5)], vec![2, 1]),
            // Fewer than it may have: the first gives all that is to go.
            (3, 1, vec![(4, 6), (2, 6)], vec![3, 1]),
            (4, 1, vec![(4, 9), (3, 9)], vec![2, 3]),
            (3, 1, vec![(4, 8), (2, 8)], vec![2, 2]),
            // No pod goes while the surge has room for all.
            (4, 2, vec![(4, 8), (2, 8)], vec![4, 2]),
            (5, 2, vec![(4, 8), (2, 8)], vec![5, 2]),
            // To nothing.
            (0, 3, vec![(4, 8), (2, 8)], vec![0, 0]),
            // Without the annotation, of all that there are.
            (2, 0, vec![(3, 0), (1, 0)], vec![1, 1]),
            (3, 1, vec![], vec![]),
        ] {
            let told = format!("{before:?} to {wanted} and {surge}");
            assert_eq!(sizes(wanted, surge, &before), after, "{told}");
        }
    }
}
