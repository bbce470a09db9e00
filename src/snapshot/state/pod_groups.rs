//! The pods of a namespace grouped by what they have in common, and counts for
//! many selectors. Keeps no views, because such questions do not come again
//! soon.

use std::collections::HashMap;
use std::sync::Arc;

use super::read_view::ReadView;
use crate::proto::v1;
use crate::snapshot::counts::domain_counts::DomainCounts;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::view::View;
use crate::snapshot::objects::label_sets::{LabelSetId, Pairs};
use crate::snapshot::objects::reservation::is_reservation;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::templates::TemplateId;

/// What it costs to look at a pod, in units.
const UNITS_PER_POD: usize = 20;

/// What a group takes beside the nodes of its pods, in bytes.
const BYTES_PER_GROUP: usize = 2 * (size_of::<PodGroup>() + size_of::<(LabelSetId, TemplateId)>());

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
    /// What was looked at.
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
        pod
    }

    /// Whether the pods of a group may run where they are and nowhere else.
    pub fn is_pinned(&self, group: &PodGroup) -> bool {
        let templates = &self.read_view.namespace.templates;
        templates.is_pinned(group.template)
    }

    /// Answers a query, without keeping the view.
    pub fn count(&self, query: Query<'_>) -> DomainCounts<'a> {
        let sets = self.read_view.namespace.label_sets();
        let matching = sets.matching_of(query.selector, &self.pairs, self.read_view.budget);
        let nodes = matching.into_iter().flat_map(|set| sets.counts(set));
        self.count_nodes(query.partition, nodes)
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
