//! The pods of a namespace grouped by what they have in common, and counts for
//! many selectors. Keeps no views, because such questions do not come again
//! soon.

use std::collections::HashMap;
use std::sync::Arc;

use super::read_view::ReadView;
use crate::matching::Selector;
use crate::proto::v1;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::view::View;
use crate::snapshot::objects::label_sets::{LabelSetId, Pairs};
use crate::snapshot::objects::pod::Phase;
use crate::snapshot::objects::reservation::is_reservation;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::templates::TemplateId;

/// What it costs to look at a pod, in units.
const UNITS_PER_POD: usize = 20;

/// What a group takes beside the nodes of its pods, in bytes.
const BYTES_PER_GROUP: usize = 2 * (size_of::<PodGroup>() + size_of::<(LabelSetId, TemplateId)>());

/// What a pod takes of which the name is told, in bytes, about.
const BYTES_PER_NAMED: usize = size_of::<NamedPod>() + 256;

/// The pods of a namespace, grouped.
pub struct PodGroups<'a> {
    read_view: ReadView<'a>,
    groups: Vec<PodGroup>,
    pairs: Pairs,
}

/// The pods that have the same labels and ask for the same. Those that are
/// terminating or finished are left out, as they are of every count.
#[derive(Debug)]
pub struct PodGroup {
    labels: LabelSetId,
    template: TemplateId,
    /// How many pods there are.
    pub pods: usize,
    /// The nodes that they are on, one for each pod that is on one.
    pub nodes: Vec<Slot>,
}

/// A pod of a group.
#[derive(Debug, Clone)]
pub struct NamedPod {
    /// The place of its group among those that were asked for.
    pub group: usize,
    /// Its name.
    pub name: String,
    /// Its uid; empty when unknown.
    pub uid: String,
    /// The node that it is on, if any.
    pub node: Option<Slot>,
    /// How far it has come.
    pub phase: Phase,
}

impl<'a> ReadView<'a> {
    /// Groups the pods of the namespace, as far as the budget goes.
    pub fn pod_groups(&self) -> PodGroups<'a> {
        let mut groups: Vec<PodGroup> = Vec::new();
        let mut places = HashMap::new();
        let listed = 2 * size_of::<Slot>() * self.namespace.pod_count();
        if self.holds(listed) {
            self.group_pods(&mut groups, &mut places);
        }
        PodGroups {
            read_view: *self,
            groups,
            pairs: self.namespace.label_sets().pairs(),
        }
    }

    fn group_pods(
        &self,
        groups: &mut Vec<PodGroup>,
        places: &mut HashMap<(LabelSetId, TemplateId), usize>,
    ) {
        for (name, pod) in self.namespace.pods() {
            if !self.affords(UNITS_PER_POD) {
                break;
            }
            // What is reserved is no pod yet.
            if !pod.life.counts() || is_reservation(name.beginning()) {
                continue;
            }
            let (labels, template) = (pod.labels, pod.life.template);
            let place = *places.entry((labels, template)).or_insert(groups.len());
            if place == groups.len() {
                if !self.holds(BYTES_PER_GROUP) {
                    break;
                }
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
    }
}

impl<'a> PodGroups<'a> {
    /// Returns what was looked at.
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
        namespace.templates.fill(group.template, &mut pod);
        // Claims are named after each pod, and nobody asks a group for them.
        pod.spec.get_or_insert_default().volumes.clear();
        pod
    }

    /// Returns whether the pods of a group may run where they are and nowhere else.
    pub fn is_pinned(&self, group: &PodGroup) -> bool {
        let templates = &self.read_view.namespace.templates;
        templates.is_pinned(group.template)
    }

    /// The pods of some groups one by one, in no order, as far as the budget goes.
    pub fn named<'g>(&self, groups: impl Iterator<Item = &'g PodGroup>) -> Vec<NamedPod> {
        let places = groups.enumerate().map(|(i, g)| ((g.labels, g.template), i));
        let places: HashMap<_, _> = places.collect();
        let mut found = Vec::new();
        for (name, pod) in self.read_view.namespace.pods() {
            if !self.read_view.affords(UNITS_PER_POD) {
                break;
            }
            let Some(group) = places.get(&(pod.labels, pod.life.template)) else {
                continue;
            };
            if !pod.life.counts() || is_reservation(name.beginning()) {
                continue;
            }
            if !self.read_view.holds(BYTES_PER_NAMED) {
                break;
            }
            found.push(NamedPod {
                group: *group,
                name: name.to_string(),
                uid: pod.life.uid(),
                node: pod.node,
                phase: pod.life.phase(),
            });
        }
        found
    }

    /// Answers a query, without keeping the view.
    pub fn count(&self, query: Query<'_>) -> DomainCounts<'a> {
        self.count_nodes(query.partition, self.counted_on(query.selector))
    }

    /// On which nodes there are pods that a selector counts, with their number. A
    /// node may come several times.
    pub fn counted_on(&self, selector: &Selector) -> impl Iterator<Item = (Slot, u32)> + use<'a> {
        let sets = self.read_view.namespace.label_sets();
        let matching = sets.matching_of(selector, &self.pairs, self.read_view.budget);
        matching.into_iter().flat_map(|set| sets.counts(set))
    }

    /// Counts pods that are on these nodes by the domains of a partition.
    pub fn count_nodes(
        &self,
        partition: &partition::Key,
        nodes: impl Iterator<Item = (Slot, u32)>,
    ) -> DomainCounts<'a> {
        let in_use = self.read_view.in_use(partition);
        let view = View::counting(nodes, in_use.id, &in_use.partition, (0, self.read_view.id));
        DomainCounts::of(in_use, Arc::new(view), self.read_view.nodes)
    }
}
