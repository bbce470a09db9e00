//! Follows a pod that comes, changes or goes: counts that stay the same are not touched.

use std::sync::Arc;

use super::namespace::Namespace;
use crate::snapshot::counts::views::Views;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::label_sets::LabelSetId;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::pod::{CompiledPod, PodRecord};
use crate::snapshot::objects::requested::RequestedTable;

/// The nodes that pods name, and the counts that follow pods.
pub struct FollowedCounts<'a> {
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The views of the namespace.
    pub views: Arc<Views>,
    /// The requests on nodes.
    pub requested: &'a mut Arc<RequestedTable>,
    /// The deadline of the changes.
    pub deadline: &'a Deadline<'a>,
}

impl FollowedCounts<'_> {
    /// The views that count the pods of a label set, to change them, if there are any.
    fn views_of(&mut self, labels: LabelSetId) -> Option<&mut Views> {
        let counts = self.views.counts(labels);
        counts.then(|| Arc::make_mut(&mut self.views))
    }
}

impl Namespace {
    /// Creates or updates a valid pod. Returns whether that made a difference. The node that the
    /// pod names must have a slot.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn put_pod(
        &mut self,
        pod: &CompiledPod,
        counts: &mut FollowedCounts<'_>,
    ) -> Result<bool, Stopped> {
        let (name, node_name) = (pod.name(), pod.node_name());
        let namespace = pod.namespace();
        let node = counts.nodes.slot(node_name);
        debug_assert!(node.is_some() || node_name.is_empty());
        let old = self.pods.get(name).cloned();
        // Most pods stay of their template, and keep their labels.
        let template = old.as_ref().map(|old| old.life.template);
        let template = template.filter(|id| self.templates.has(*id, pod.requirements()));
        let labels = old.as_ref().map(|old| old.labels);
        let labels = labels.filter(|id| self.label_sets.has(*id, pod.labels()));
        let record = PodRecord {
            labels: match labels {
                Some(kept) => kept,
                None => self.acquire_labels(pod, counts)?,
            },
            node,
            life: pod.life.with_template(match template {
                Some(kept) => kept,
                None => Arc::make_mut(&mut self.templates).acquire(pod.requirements()),
            }),
        };
        if old.as_ref() == Some(&record) {
            return Ok(false);
        }
        let change = (old.as_ref(), Some(&record));
        self.recount((namespace, name), change, counts)?;
        if let Some(old) = old {
            if template.is_none() {
                Arc::make_mut(&mut self.templates).release(old.life.template);
            }
            if labels.is_none() {
                self.release_labels(old.labels, counts);
            }
        }
        Arc::make_mut(&mut self.pods).put(name, record);
        Ok(true)
    }

    /// Deletes a pod, if it exists and `uid` is empty or its own. Returns
    /// whether that made a difference.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn remove_pod(
        &mut self,
        (namespace, name): (&str, &str),
        uid: &str,
        counts: &mut FollowedCounts<'_>,
    ) -> Result<bool, Stopped> {
        let meant = |pod: &PodRecord| uid.is_empty() || pod.life.uid() == uid;
        let Some(old) = self.pods.get(name).cloned().filter(meant) else {
            return Ok(false);
        };
        Arc::make_mut(&mut self.pods).remove(name);
        self.recount((namespace, name), (Some(&old), None), counts)?;
        Arc::make_mut(&mut self.templates).release(old.life.template);
        self.release_labels(old.labels, counts);
        Ok(true)
    }

    /// The label set of one more pod.
    fn acquire_labels(
        &mut self,
        pod: &CompiledPod,
        counts: &mut FollowedCounts<'_>,
    ) -> Result<LabelSetId, Stopped> {
        let (labels, is_first) = Arc::make_mut(&mut self.label_sets).acquire(pod.labels());
        if is_first && counts.views.count() > 0 {
            let views = Arc::make_mut(&mut counts.views);
            views.add_set(labels, &self.label_sets, counts.deadline)?;
        }
        Ok(labels)
    }

    fn release_labels(&mut self, labels: LabelSetId, counts: &mut FollowedCounts<'_>) {
        let was_last = Arc::make_mut(&mut self.label_sets).release(labels);
        if was_last && let Some(views) = counts.views_of(labels) {
            views.remove_set(labels);
        }
    }

    /// Counts a pod in its present form instead of the former one. If both are equal, nothing is
    /// done.
    fn recount(
        &mut self,
        (namespace, name): (&str, &str),
        (old, new): (Option<&PodRecord>, Option<&PodRecord>),
        counts: &mut FollowedCounts<'_>,
    ) -> Result<(), Stopped> {
        let node = |pod: &PodRecord| pod.node;
        let (was_on, is_on) = (old.and_then(node), new.and_then(node));
        if was_on != is_on {
            Arc::make_mut(counts.requested).note_move(was_on, is_on);
        }
        let room = |pod: &PodRecord| match pod.life.takes_room() {
            true => Some((pod.node?, pod.life.template)),
            false => None,
        };
        let (took, takes) = (old.and_then(room), new.and_then(room));
        if took != takes {
            for (pod, comes) in [(takes, true), (took, false)] {
                let Some((slot, template)) = pod else {
                    continue;
                };
                let read = self.templates.read(template);
                let requested = Arc::make_mut(counts.requested);
                requested.shift(slot, (namespace, name), read, comes, counts.deadline)?;
            }
        }
        self.recount_terminating(old, new);
        let counted = |pod: &PodRecord| match pod.life.counts() {
            true => Some((pod.labels, pod.node?)),
            false => None,
        };
        let (counted_as, counts_as) = (old.and_then(counted), new.and_then(counted));
        if counted_as != counts_as {
            let label_sets = Arc::make_mut(&mut self.label_sets);
            if let Some((labels, slot)) = counts_as {
                label_sets.count(labels, slot);
                if let Some(views) = counts.views_of(labels) {
                    views.add_pod(labels, slot);
                }
            }
            if let Some((labels, slot)) = counted_as {
                label_sets.uncount(labels, slot);
                if let Some(views) = counts.views_of(labels) {
                    views.remove_pod(labels, slot);
                }
            }
        }
        Ok(())
    }

    /// Does the same for the counts that only affinity between pods reads.
    fn recount_terminating(&mut self, old: Option<&PodRecord>, new: Option<&PodRecord>) {
        let terminating = |pod: &PodRecord| match pod.life.is_terminating() {
            true => Some((pod.labels, pod.node?)),
            false => None,
        };
        let (was, is) = (old.and_then(terminating), new.and_then(terminating));
        if was != is {
            let label_sets = Arc::make_mut(&mut self.label_sets);
            if let Some((labels, slot)) = is {
                label_sets.note_terminating(labels, slot);
            }
            if let Some((labels, slot)) = was {
                label_sets.forget_terminating(labels, slot);
            }
        }
    }
}
