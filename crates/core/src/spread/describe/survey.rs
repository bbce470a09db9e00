//! A survey of all workloads of a namespace.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use prost::Message;

use super::ZONE;
use super::workload::{
    Balance, JudgedWorkload, NamedWorkload, WantedSpread, WorkloadId, WorkloadPods, controller,
    direct_controller,
};
use crate::matching::{Constraint, Path, Selector};
use crate::proto::{count, v1};
use crate::snapshot::partition::Eligibility;
use crate::snapshot::{DomainKey, Limits, NamedPod, PodGroup, PodGroups, Slot, Stopped, partition};
use crate::spread::Question;

/// The kind of workloads whose pods are each tied to a node.
const DAEMON_SET: &str = "DaemonSet";

/// The workloads of a namespace.
pub struct Survey<'c, 'a> {
    pod_groups: &'c PodGroups<'a>,
    namespace: String,
    limits: &'c Limits,
    /// The number of domains to list.
    max_domains: usize,
    workloads: BTreeMap<WorkloadId, Vec<Member<'c>>>,
}

/// Alike pods of a workload. There may be many, so no pod is kept of them.
#[derive(Clone)]
struct Member<'c> {
    group: &'c PodGroup,
    /// True if the pods name their controller.
    is_owned: bool,
    /// Kind and name of the controller that they name, else of the one that would adopt them.
    controller: Option<(String, String)>,
}

/// A constraint that pods of a workload share: its index, itself, its selector and its domains.
type SharedConstraint = (usize, Constraint, Selector, partition::Key);

impl<'c, 'a> Survey<'c, 'a> {
    /// The workloads of a namespace. The selector of a named workload finds pods without a
    /// controller if no others belong to the workload.
    pub fn of(
        pod_groups: &'c PodGroups<'a>,
        namespace: &str,
        limits: &'c Limits,
        max_domains: usize,
        named: Option<&NamedWorkload>,
    ) -> Result<Self, Stopped> {
        let mut workloads: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let read_view = pod_groups.read_view();
        for group in read_view.deadline.each(pod_groups.groups()) {
            let group = group?;
            let pod = example(pod_groups, group, namespace);
            read_view.deadline.entry(pod.encoded_len(), 0)?;
            let none = v1::ObjectMeta::default();
            let metadata = pod.metadata.as_ref().unwrap_or(&none);
            let is_owned = controller(metadata).is_some();
            let mut adopter = None;
            if !is_owned {
                let owners = read_view.owners();
                read_view.deadline.step(owners.len())?;
                adopter = owners.adopter(&metadata.labels);
            }
            let direct = direct_controller(metadata, adopter);
            let member = Member {
                group,
                is_owned,
                controller: direct.map(|(kind, name)| (kind.to_owned(), name.to_owned())),
            };
            let workload = WorkloadId::of(&pod, adopter);
            workloads.entry(workload).or_default().push(member);
        }
        for members in workloads.values_mut().filter(|it| it.len() > 1) {
            // The answer must not depend on the order of arrival.
            let mut sorted = Vec::with_capacity(members.len());
            for member in read_view.deadline.each(members.drain(..)) {
                let member: Member<'_> = member?;
                let bytes = example(pod_groups, member.group, namespace).encode_to_vec();
                read_view.deadline.entry(bytes.len(), bytes.len())?;
                sorted.push((bytes, member));
            }
            sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
            members.extend(sorted.into_iter().map(|(_, member)| member));
        }
        let mut survey = Self {
            namespace: namespace.to_owned(),
            pod_groups,
            limits,
            max_domains,
            workloads,
        };
        if let Some(named) = named {
            survey.select(named)?;
        }
        Ok(survey)
    }

    /// Gives a workload without pods those without a controller that its selector matches.
    fn select(&mut self, named: &NamedWorkload) -> Result<(), Stopped> {
        let Some(selector) = named.selector.as_ref().filter(|_| !self.has(named)) else {
            return Ok(());
        };
        let mut selected = Vec::new();
        for (id, members) in self.workloads.iter().filter(|(id, _)| id.is_bare()) {
            for member in members {
                if self.pod_groups.selects(selector, member.group)? {
                    selected.push(id.clone());
                    break;
                }
            }
        }
        // The pods of a workload without a controller have the same labels.
        let members = selected.iter().filter_map(|id| self.workloads.remove(id));
        let members: Vec<_> = members.flatten().collect();
        if !members.is_empty() {
            self.workloads.insert(named.id(), members);
        }
        Ok(())
    }

    /// Returns the number of workloads.
    pub fn workload_count(&self) -> usize {
        self.workloads.len()
    }

    /// Judges every workload, by a topology key or else by its constraints: its own, or the default
    /// ones.
    pub fn judge_all<'s>(
        &'s self,
        by: Option<&'s Arc<str>>,
    ) -> impl Iterator<Item = Result<JudgedWorkload, Stopped>> + 's {
        let all = self.workloads.iter();
        all.map(move |(workload, members)| self.judge(workload, members, by))
    }

    /// Judges one workload, by kind and name of its controller. This can also be a replica set of a
    /// deployment. `None` when the workload has no pods.
    pub fn judge_one(
        &self,
        named: &NamedWorkload,
        by: Option<&Arc<str>>,
    ) -> Result<Option<JudgedWorkload>, Stopped> {
        let found = self.named(named);
        let judged = found.map(|(workload, members)| self.judge(&workload, &members, by));
        judged.transpose()
    }

    /// Judges one workload of [`Self::all_wanted`].
    pub fn judge_listed(
        &self,
        workload: &WorkloadId,
        by: Option<&Arc<str>>,
    ) -> Result<Option<JudgedWorkload>, Stopped> {
        let members = self.workloads.get(workload);
        let judged = members.map(|members| self.judge(workload, members, by));
        judged.transpose()
    }

    /// Returns whether a workload has pods.
    pub fn has(&self, named: &NamedWorkload) -> bool {
        self.named(named).is_some()
    }

    /// The pods of a workload: ascending by name, and those of a stateful set by their ordinals.
    pub fn pods_by_name(&self, named: &NamedWorkload) -> Result<Vec<NamedPod>, Stopped> {
        let members = self
            .named(named)
            .into_iter()
            .flat_map(|(_, all)| all.to_vec());
        let groups = members.map(|member| member.group);
        let mut pods = self.pod_groups.named(groups)?;
        pods.sort_unstable_by(|one, other| {
            let place = |pod: &NamedPod| (named.ordinal_of(&pod.name), pod.name.clone());
            place(one).cmp(&place(other))
        });
        Ok(pods)
    }

    /// Returns the id of a workload, and its pods. `None` when the workload has no pods.
    fn named(&self, named: &NamedWorkload) -> Option<(WorkloadId, Cow<'_, [Member<'c>]>)> {
        let id = named.id();
        let members = match self.workloads.get(&id) {
            Some(members) => Cow::Borrowed(&**members),
            None => {
                let all = self.workloads.values().flatten();
                let is_of = |it: &&Member<'_>| {
                    let controller = it.controller.as_ref();
                    controller.is_some_and(|(kind, name)| (kind, name) == (&id.kind, &id.name))
                };
                Cow::Owned(all.filter(is_of).cloned().collect())
            }
        };
        (!members.is_empty()).then_some((id, members))
    }

    fn judge(
        &self,
        workload: &WorkloadId,
        members: &[Member<'_>],
        by: Option<&Arc<str>>,
    ) -> Result<JudgedWorkload, Stopped> {
        let pods = members.iter().map(|member| member.group.pods).sum();
        let mut judged = JudgedWorkload {
            workload: workload.clone(),
            pods,
            pending: pods - on_nodes(members).count(),
            selected: selected(workload, members),
            balances: Vec::new(),
            fault: None,
        };
        match by {
            None => self.judge_by_constraints(members, &mut judged)?,
            Some(key) => judged.balances = vec![self.balance_by(key, members)?],
        }
        Ok(judged)
    }

    fn judge_by_constraints(
        &self,
        members: &[Member<'_>],
        judged: &mut JudgedWorkload,
    ) -> Result<(), Stopped> {
        let (found, fault) = self.wanted_by(&judged.workload, members)?;
        judged.fault = fault;
        for wanted in found {
            let counted = self.pod_groups.count(wanted.query())?;
            let nodes = wanted.groups.values().flat_map(|group| &group.nodes);
            let outside = outside(self.pod_groups, &wanted.partition, nodes)?;
            let active = &wanted.active;
            let key = &active.constraint.topology_key;
            let balance = Balance::of(&counted, key, Some(active), outside, self.max_domains);
            judged.balances.push(balance);
        }
        judged.balances.sort_by_key(|balance| {
            let index = balance.constraint.as_ref().map(|active| active.index);
            (index, std::cmp::Reverse(balance.excess()))
        });
        Ok(())
    }

    /// The distinct constraints in force for the pods of a workload, and the reason why some of the
    /// pods have none: the first fault in their spec.
    fn wanted_by<'s>(
        &self,
        workload: &WorkloadId,
        members: &[Member<'s>],
    ) -> Result<(Vec<WantedSpread<'s>>, Option<String>), Stopped> {
        let mut places: HashMap<SharedConstraint, usize> = HashMap::new();
        let (mut found, mut fault, mut tied) = (Vec::new(), None, None);
        for member in self.pod_groups.read_view().deadline.each(members) {
            let member = member?;
            // A pod that may run on only one node has no choice. That of a DaemonSet tells which
            // constraints do nothing, and those after it are like it.
            let is_tied = self.pod_groups.is_pinned(member.group);
            if workload.is_static() || is_tied && workload.kind != DAEMON_SET {
                continue;
            }
            let pod = example(self.pod_groups, member.group, &self.namespace);
            if is_tied && tied.as_ref() == Some(&pod) {
                continue;
            }
            let question = self.question(&pod);
            if is_tied {
                tied = Some(pod);
            }
            let question = match question {
                Ok(question) => question,
                Err(said) => {
                    fault.get_or_insert(said);
                    continue;
                }
            };
            let constraints = question.constraints_on(self.pod_groups.read_view())?;
            let all = constraints.all.iter();
            for active in all.filter(|active| !is_tied || active.counts_own_node) {
                let partition = constraints.standing(active, &question.subject);
                let (constraint, selector) = (active.constraint.clone(), active.selector.clone());
                let shared = (active.index, constraint, selector, partition.clone());
                let place = *places.entry(shared).or_insert(found.len());
                if place == found.len() {
                    found.push(WantedSpread {
                        active: active.clone(),
                        partition,
                        groups: HashMap::new(),
                    });
                }
                found[place].groups.insert(member.group.id(), member.group);
            }
        }
        Ok((found, fault))
    }

    /// The pods of a workload, and the constraints in force for them in order. `None` when the
    /// workload has no pods.
    pub fn wanted_of(&self, named: &NamedWorkload) -> Result<Option<WorkloadPods<'_>>, Stopped> {
        match self.named(named) {
            Some((workload, members)) => Ok(Some(self.pods_of(&workload, &members, None)?)),
            None => Ok(None),
        }
    }

    /// The pods and the constraints in force of every workload, ascending. If the topology key `key`
    /// is given, a workload without constraints of its own gets the domains of this key.
    pub fn all_wanted<'s>(
        &'s self,
        key: Option<&'s Arc<str>>,
    ) -> Result<Vec<(&'s WorkloadId, WorkloadPods<'s>)>, Stopped> {
        let all = self.workloads.iter();
        let all =
            all.map(|(workload, members)| Ok((workload, self.pods_of(workload, members, key)?)));
        all.collect()
    }

    fn pods_of<'s>(
        &self,
        workload: &WorkloadId,
        members: &[Member<'s>],
        key: Option<&Arc<str>>,
    ) -> Result<WorkloadPods<'s>, Stopped> {
        let (mut wanted, fault) = self.wanted_by(workload, members)?;
        wanted.retain(|wanted| !wanted.active.counts_own_node);
        if key.is_some() {
            // The key takes the place of default constraints.
            wanted.retain(|wanted| !wanted.active.from_defaults);
        }
        wanted.sort_by_key(|wanted| wanted.active.index);
        let is_free = wanted.is_empty() && fault.is_none() && !workload.is_static();
        let by_key = key.filter(|_| is_free);
        let by_key = by_key.map(|key| partition_by(key, self.eligibility(members)));
        Ok(WorkloadPods {
            groups: members.iter().map(|member| member.group).collect(),
            wanted,
            by_key,
            fault,
            selected: selected(workload, members),
        })
    }

    /// Counts a workload, after it was judged by its constraints, by the rule that keeps it even: its
    /// own constraints, the default ones, or none although it has several pods, that none is needed
    /// because it has one, or has an effect because each pod may run on only one node. The rule of a
    /// workload with a fault is not known.
    pub fn note_rule(
        &self,
        judged: &JudgedWorkload,
        coverage: &mut v1::ConstraintCoverage,
    ) -> Result<(), Stopped> {
        coverage.pending_pods += count(judged.pending);
        let members = self.workloads.get(&judged.workload);
        let members = members.map_or(&[][..], |members| members);
        let constraints = judged.balances.iter();
        let mut constraints = constraints.filter_map(|balance| balance.constraint.as_ref());
        let is_pinned = |member: &Member<'_>| self.pod_groups.is_pinned(member.group);
        let workloads = if constraints.any(|active| !active.from_defaults) {
            &mut coverage.own_count
        } else if !judged.balances.is_empty() {
            &mut coverage.default_count
        } else if judged.fault.is_some() {
            return Ok(());
        } else if judged.workload.is_static() || members.iter().all(is_pinned) {
            &mut coverage.fixed_count
        } else if judged.pods == 1 {
            &mut coverage.single_count
        } else {
            self.note_concentration(members, coverage)?;
            &mut coverage.unconstrained_count
        };
        *workloads += 1;
        Ok(())
    }

    /// Counts a workload of which all pods that are on a node are in one of several zones or on one of
    /// several nodes.
    fn note_concentration(
        &self,
        members: &[Member<'_>],
        coverage: &mut v1::ConstraintCoverage,
    ) -> Result<(), Stopped> {
        let placed = on_nodes(members).count();
        if placed < 2 {
            return Ok(());
        }
        let first = on_nodes(members).next();
        let zone: Arc<str> = ZONE.into();
        let zones = self.balance_by(&zone, members)?.numbers;
        let fullest = zones.domains.first().map_or(0, |it| it.matching_pods);
        let in_one_zone = zones.domain_count > 1 && fullest == count(placed);
        let on_one_node = self.pod_groups.read_view().nodes.len() > 1
            && on_nodes(members).all(|slot| Some(slot) == first);
        coverage.in_one_zone_count += i64::from(in_one_zone);
        coverage.on_one_node_count += i64::from(on_one_node);
        Ok(())
    }

    fn question(&self, pod: &v1::Pod) -> Result<Question, String> {
        let compiled = Question::compile(Some(pod), self.limits, Path::root("pod"));
        compiled.map_err(|faults| faults.to_string())
    }

    /// The eligible nodes: those that the affinity of the largest group of pods allows.
    fn eligibility(&self, members: &[Member<'_>]) -> Eligibility {
        let most = members.iter().max_by_key(|member| member.group.pods);
        let most = most.filter(|member| !self.pod_groups.is_pinned(member.group));
        let pod = most.map(|member| example(self.pod_groups, member.group, &self.namespace));
        let question = pod.and_then(|pod| self.question(&pod).ok());
        let affinity = question.map(|question| question.subject.affinity);
        Eligibility {
            affinity: affinity.filter(|affinity| !affinity.is_any()),
            ..Eligibility::default()
        }
    }

    /// Returns the balance of a workload's pods over the eligible nodes with a key.
    fn balance_by(&self, key: &Arc<str>, members: &[Member<'_>]) -> Result<Balance, Stopped> {
        let partition = partition_by(key, self.eligibility(members));
        let groups: Vec<_> = members.iter().map(|member| member.group).collect();
        balance_over(self.pod_groups, key, &partition, &groups, self.max_domains)
    }
}

/// Returns the number of pods that a selector matches, and their balance over a topology key.
pub fn judge_selected(
    pod_groups: &PodGroups<'_>,
    selector: &Selector,
    key: &Arc<str>,
    max_domains: usize,
) -> Result<(usize, Balance), Stopped> {
    let mut groups = Vec::new();
    for group in pod_groups.groups() {
        if pod_groups.selects(selector, group)? {
            groups.push(group);
        }
    }
    let pods = groups.iter().map(|group| group.pods).sum();
    let partition = partition_by(key, Eligibility::default());
    let balance = balance_over(pod_groups, key, &partition, &groups, max_domains)?;
    Ok((pods, balance))
}

/// Returns the balance of the pods of some groups over the domains of a key.
fn balance_over(
    pod_groups: &PodGroups<'_>,
    key: &Arc<str>,
    partition: &partition::Key,
    groups: &[&PodGroup],
    max_domains: usize,
) -> Result<Balance, Stopped> {
    let nodes = || groups.iter().flat_map(|group| &group.nodes);
    let counted = pod_groups
        .read_view()
        .count_nodes(partition, nodes().map(|slot| (*slot, 1)))?;
    let outside = outside(pod_groups, partition, nodes())?;
    Ok(Balance::of(&counted, key, None, outside, max_domains))
}

/// Returns the number of pods on nodes that are in no domain.
fn outside<'s>(
    pod_groups: &PodGroups<'_>,
    partition: &partition::Key,
    nodes: impl Iterator<Item = &'s Slot>,
) -> Result<usize, Stopped> {
    let read_view = pod_groups.read_view();
    let partition = read_view.in_use(partition)?.partition;
    let mut outside = 0;
    for slot in read_view.deadline.each(nodes) {
        outside += usize::from(!partition.member(*slot?).is_some());
    }
    Ok(outside)
}

/// A pod of this namespace like those of a group: without a name, a node, and a tie to a node.
pub fn example(pods: &PodGroups<'_>, group: &PodGroup, namespace: &str) -> v1::Pod {
    let mut pod = pods.pod(group);
    let metadata = pod.metadata.get_or_insert_default();
    metadata.namespace = namespace.to_owned();
    if controller(metadata).is_some_and(|owner| owner.kind == DAEMON_SET) {
        untie(&mut pod);
    }
    pod
}

/// Takes from a pod of a DaemonSet the affinity to its node, which its controller sets in place of any
/// other, so that it is like the others.
fn untie(pod: &mut v1::Pod) {
    let spec = pod.spec.as_mut();
    let affinity = spec.and_then(|spec| spec.affinity.as_mut()?.node_affinity.as_mut());
    let Some(affinity) = affinity else { return };
    let required = &mut affinity.required_during_scheduling_ignored_during_execution;
    let is_tie = |selector: &v1::NodeSelector| match &*selector.node_selector_terms {
        [only] => match (&*only.match_expressions, &*only.match_fields) {
            ([], [field]) => field.operator == "In" && field.values.len() == 1,
            _ => false,
        },
        _ => false,
    };
    if required.as_ref().is_some_and(is_tie) {
        *required = None;
    }
}

/// The number of pods of a workload with a controller that do not name it.
fn selected(workload: &WorkloadId, members: &[Member<'_>]) -> usize {
    let selected = members.iter().filter(|member| !member.is_owned);
    let selected = selected.filter(|_| !workload.is_bare());
    selected.map(|member| member.group.pods).sum()
}

/// The partition of the eligible nodes that have a key, by its value.
fn partition_by(key: &Arc<str>, eligibility: Eligibility) -> partition::Key {
    let eligibility = Eligibility {
        required_keys: [Arc::clone(key)].into(),
        ..eligibility
    };
    partition::Key::of(DomainKey::Label(Arc::clone(key)), eligibility)
}

/// The node of each pod that is on a node.
fn on_nodes<'m>(members: &'m [Member<'_>]) -> impl Iterator<Item = &'m Slot> {
    members.iter().flat_map(|member| &member.group.nodes)
}
