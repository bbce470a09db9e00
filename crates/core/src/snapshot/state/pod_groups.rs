//! The pods of a namespace in groups with the same properties, and counts for many selectors. No
//! views are kept, because such questions do not come again soon.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::read_view::ReadView;
use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::partition::Query;
use crate::snapshot::counts::views::View;
use crate::snapshot::deadline::Stopped;
use crate::snapshot::objects::label_sets::{LabelSetId, Pairs};
use crate::snapshot::objects::pod::{Phase, PodRecord};
use crate::snapshot::objects::requirements::TemplateId;
use crate::snapshot::objects::reservation::is_reservation;
use crate::snapshot::objects::slots::Slot;

/// The pods of a namespace, grouped.
pub struct PodGroups<'a> {
    read_view: ReadView<'a>,
    groups: Vec<PodGroup>,
    pairs: Pairs,
}

/// Pods with the same labels and requirements. Terminating and finished pods are left out, as from
/// every count.
#[derive(Debug)]
pub struct PodGroup {
    labels: LabelSetId,
    template: TemplateId,
    /// The number of pods.
    pub pods: usize,
    /// The nodes of the pods, one for each pod that is on one.
    pub nodes: Vec<Slot>,
}

/// Tells the groups of a namespace apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PodGroupId(LabelSetId, TemplateId);

impl PodGroupId {
    fn of(pod: &PodRecord) -> Self {
        Self(pod.labels, pod.life.template)
    }
}

impl PodGroup {
    /// The id of the group.
    pub fn id(&self) -> PodGroupId {
        PodGroupId(self.labels, self.template)
    }
}

/// A pod of a group.
#[derive(Debug, Clone)]
pub struct NamedPod {
    /// The index of its group among the requested ones.
    pub group: usize,
    /// The pod's name.
    pub name: String,
    /// The pod's uid; empty when unknown.
    pub uid: String,
    /// The node that it is on, if any.
    pub node: Option<Slot>,
    /// The pod's phase.
    pub phase: Phase,
}

impl<'a> ReadView<'a> {
    /// Groups the pods of the namespace.
    pub fn pod_groups(&self) -> Result<PodGroups<'a>, Stopped> {
        let mut groups: Vec<PodGroup> = Vec::new();
        let mut places = HashMap::new();
        for pod in self.deadline.each(self.namespace.pods.iter()) {
            let (name, pod) = pod?;
            // A reservation is no pod yet.
            if !pod.life.counts() || is_reservation(name) {
                continue;
            }
            let (labels, template) = (pod.labels, pod.life.template);
            let place = *places.entry((labels, template)).or_insert(groups.len());
            if place == groups.len() {
                self.deadline.room()?;
                groups.push(PodGroup {
                    labels,
                    template,
                    pods: 0,
                    nodes: Vec::new(),
                });
            }
            groups[place].pods += 1;
            groups[place].nodes.extend(pod.node);
        }
        let sets = self.namespace.label_sets();
        self.deadline.step(sets.len())?;
        Ok(PodGroups {
            read_view: *self,
            groups,
            pairs: sets.pairs(),
        })
    }

    /// Counts pods that are on these nodes by the domains of a partition.
    pub fn count_nodes(
        &self,
        partition: &partition::Key,
        nodes: impl Iterator<Item = (Slot, u32)>,
    ) -> Result<DomainCounts<'a>, Stopped> {
        let in_use = self.in_use(partition)?;
        let view = View::counting(nodes, &in_use.partition);
        Ok(DomainCounts::of(in_use, Arc::new(view), self.nodes))
    }
}

impl<'a> PodGroups<'a> {
    /// Returns the read view with the pods.
    pub fn read_view(&self) -> &ReadView<'a> {
        &self.read_view
    }

    /// The groups, in no order.
    pub fn groups(&self) -> &[PodGroup] {
        &self.groups
    }

    /// A pod like those of a group: without a name, and without a node.
    pub fn pod(&self, group: &PodGroup) -> v1::Pod {
        let namespace = self.read_view.namespace;
        let labels = namespace.label_sets().texts(group.labels);
        let mut pod = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        if let Some(requirements) = namespace.templates.get(group.template) {
            requirements.fill(&mut pod);
        }
        // Names of claims contain the pod's name, and are not needed for a group.
        pod.spec.get_or_insert_default().volumes.clear();
        pod
    }

    /// The labels of the pods of a group, ascending by key.
    pub fn labels(&self, group: &PodGroup) -> impl Iterator<Item = (&'a str, &'a str)> {
        let sets = self.read_view.namespace.label_sets();
        sets.texts(group.labels)
    }

    /// Returns whether a selector matches the pods of a group.
    ///
    /// # Errors
    /// The decision ends here.
    pub fn selects(&self, selector: &Selector, group: &PodGroup) -> Result<bool, Stopped> {
        self.read_view.deadline.step(1 + selector.len())?;
        let sets = self.read_view.namespace.label_sets();
        Ok(sets.matches(group.labels, selector))
    }

    /// Returns whether the pods of a group use storage that decisions depend on.
    pub fn use_storage(&self, group: &PodGroup) -> bool {
        let templates = &self.read_view.namespace.templates;
        let read = templates.read(group.template);
        read.is_some_and(|read| read.storage.is_some())
    }

    /// Returns whether the pods of a group may run only where they are.
    pub fn is_pinned(&self, group: &PodGroup) -> bool {
        let templates = &self.read_view.namespace.templates;
        templates.is_pinned(group.template)
    }

    /// The pods of some groups one by one, in no order.
    pub fn named<'g>(
        &self,
        groups: impl Iterator<Item = &'g PodGroup>,
    ) -> Result<Vec<NamedPod>, Stopped> {
        let places = groups.enumerate().map(|(at, group)| (group.id(), at));
        let places: HashMap<_, _> = places.collect();
        self.find(|name, pod| {
            let group = places.get(&PodGroupId::of(pod)).copied();
            group.filter(|_| !is_reservation(name))
        })
    }

    /// The counted pods and the reservations on some nodes, in no order. The group of a pod is its
    /// index among all groups, and that of a reservation is past their end.
    pub fn on_nodes(&self, nodes: &HashSet<Slot>) -> Result<Vec<NamedPod>, Stopped> {
        let places = self.groups.iter().enumerate();
        let places: HashMap<_, _> = places.map(|(at, group)| (group.id(), at)).collect();
        self.find(|name, pod| {
            nodes.contains(&pod.node?).then_some(())?;
            let group = places.get(&PodGroupId::of(pod));
            let group = group.filter(|_| !is_reservation(name));
            Some(group.copied().unwrap_or(self.groups.len()))
        })
    }

    /// The counted pods and reservations for which `group` returns a group.
    fn find(
        &self,
        group: impl Fn(&str, &PodRecord) -> Option<usize>,
    ) -> Result<Vec<NamedPod>, Stopped> {
        let deadline = self.read_view.deadline;
        let mut found = Vec::new();
        for pod in deadline.each(self.read_view.namespace.pods.iter()) {
            let (name, pod) = pod?;
            if !pod.life.counts() {
                continue;
            }
            let Some(group) = group(name, pod) else {
                continue;
            };
            deadline.room()?;
            found.push(NamedPod {
                group,
                name: name.to_string(),
                uid: pod.life.uid(),
                node: pod.node,
                phase: pod.life.phase,
            });
        }
        Ok(found)
    }

    /// Answers a query, without keeping the view.
    pub fn count(&self, query: Query<'_>) -> Result<DomainCounts<'a>, Stopped> {
        let counted = self.counted_on(query.selector)?;
        self.read_view.count_nodes(query.partition, counted)
    }

    /// The nodes with pods that a selector counts, and their numbers. A node may come several
    /// times.
    pub fn counted_on(
        &self,
        selector: &Selector,
    ) -> Result<impl Iterator<Item = (Slot, u32)> + use<'a>, Stopped> {
        let sets = self.read_view.namespace.label_sets();
        let matching = sets.matching_of(selector, &self.pairs, self.read_view.deadline)?;
        let counts = matching.iter().map(|set| sets.nodes_of(*set)).sum();
        self.read_view.deadline.step(counts)?;
        Ok(matching.into_iter().flat_map(|set| sets.counts(set)))
    }
}
