//! Everybody at once: the pods of a namespace by what they have in common, and
//! counts for many selectors. Keeps no views, for what is asked about all is
//! not asked again soon.

use std::collections::HashMap;
use std::sync::Arc;

use super::read_view::Cut;
use crate::proto::v1;
use crate::snapshot::counts::domain_counts::Counted;
use crate::snapshot::counts::partition;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::view::View;
use crate::snapshot::objects::label_sets::{LabelSetId, Pairs};
use crate::snapshot::objects::reservation::is_reservation;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::templates::TemplateId;

/// What it costs to look at a pod, in units.
const UNITS_PER_POD: usize = 20;

/// The pods of a namespace, grouped.
pub struct Census<'a> {
    cut: Cut<'a>,
    groups: Vec<Group>,
    pairs: Pairs,
}

/// The pods that have the same labels and ask for the same. Those that are
/// terminating or finished are left out, as they are of every count.
#[derive(Debug)]
pub struct Group {
    labels: LabelSetId,
    template: TemplateId,
    /// How many pods there are.
    pub pods: usize,
    /// The nodes that they are on, one for each pod that is on one.
    pub nodes: Vec<Slot>,
}

impl<'a> Cut<'a> {
    /// Groups the pods of the namespace.
    pub fn census(&self) -> Census<'a> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places = HashMap::new();
        for (name, pod) in self.namespace.pods() {
            if !self.affords(UNITS_PER_POD) {
                break;
            }
            // What is reserved is no pod yet.
            if !pod.life.counts() || is_reservation(name) {
                continue;
            }
            let (labels, template) = (pod.labels, pod.life.template);
            let place = *places.entry((labels, template)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Group {
                    labels,
                    template,
                    pods: 0,
                    nodes: Vec::new(),
                });
            }
            groups[place].pods += 1;
            groups[place].nodes.extend(pod.node);
        }
        Census {
            cut: *self,
            groups,
            pairs: self.namespace.label_sets().pairs(),
        }
    }
}

impl<'a> Census<'a> {
    /// What was looked at.
    pub fn cut(&self) -> &Cut<'a> {
        &self.cut
    }

    /// The groups, in no order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A pod like those of a group: without a name, and without a node.
    pub fn pod(&self, group: &Group) -> v1::Pod {
        let namespace = self.cut.namespace;
        let labels = namespace.label_sets().texts(group.labels);
        let mut pod = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        namespace.templates().fill(group.template, &mut pod);
        pod
    }

    /// Whether the pods of a group may run where they are and nowhere else.
    pub fn is_pinned(&self, group: &Group) -> bool {
        self.cut.namespace.templates().is_pinned(group.template)
    }

    /// Answers a query, without keeping the view.
    pub fn count(&self, query: Query<'_>) -> Counted<'a> {
        let sets = self.cut.namespace.label_sets();
        let matching = sets.matching_of(query.selector, &self.pairs, self.cut.budget);
        let nodes = matching.into_iter().flat_map(|set| sets.counts(set));
        self.count_nodes(query.partition, nodes)
    }

    /// Counts pods that are on these nodes by the domains of a partition.
    pub fn count_nodes(
        &self,
        partition: &partition::Key,
        nodes: impl Iterator<Item = (Slot, u32)>,
    ) -> Counted<'a> {
        let lens = self.cut.lens(partition);
        let view = View::counting(nodes, lens.id, &lens.partition, 0);
        Counted::of(lens, Arc::new(view), self.cut.nodes)
    }
}
