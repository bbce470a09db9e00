//! Applies a batch to a state: changes nodes and their partitions, then pods and owners with the
//! counts that follow them. Counts that stay the same are not touched.

use std::sync::Arc;

use super::revision::{Applied, Namespace, Sizes, State};
use crate::snapshot::counts::views::Views;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::label_sets::LabelSetId;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::pod::{CompiledPod, PodRecord};
use crate::snapshot::objects::requested::{PodOnNode, RequestedTable};

impl State {
    /// Applies a batch that leads to this revision.
    pub fn apply(&mut self, batch: &Batch, revision: i64) -> Applied {
        let mut applied = Applied::before(batch);
        let note = |_: ValidChange<'_>, changed| applied.note(changed);
        let done = self.apply_until(batch, revision, &Deadline::endless(), note);
        done.expect("nobody gives a change up");
        applied
    }

    /// As [`Self::apply`] to a clone that nobody else sees, which is dropped if the deadline passes.
    /// Tells `note` for each change whether it made a difference.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn apply_until<'b>(
        &mut self,
        batch: &'b Batch,
        revision: i64,
        deadline: &Deadline<'_>,
        mut note: impl FnMut(ValidChange<'b>, bool),
    ) -> Result<(), Stopped> {
        self.sizes.owners -= self.shared.cluster.count();
        self.shared.apply(batch, deadline, &mut note)?;
        self.sizes.owners += self.shared.cluster.count();
        if self.shared.has_other_nodes_after(batch) {
            let nodes = Arc::make_mut(&mut self.shared.nodes);
            let requested = &self.requested;
            nodes
                .nodes_mut()
                .free_unnamed(|slot| requested.has_pods(slot));
            apply_to_nodes(nodes.nodes_mut(), batch, deadline, &mut note)?;
            nodes.nodes_mut().settle(revision);
            nodes.follow();
            reserve_slots(nodes.nodes_mut(), batch);
        }
        let mut changes = batch
            .changes()
            .filter(|change| change.id.kind.is_kept_with_namespace());
        let mut next = changes.next();
        while let Some(first) = next.take() {
            let name = first.id.namespace;
            let mut run = vec![first];
            for change in changes.by_ref() {
                if change.id.namespace != name {
                    next = Some(change);
                    break;
                }
                run.push(change);
            }
            self.change_namespace(name, &run, deadline, &mut note)?;
        }
        self.revision = revision;
        self.sizes.nodes = self.nodes().len();
        Ok(())
    }

    /// Applies changes of one namespace.
    fn change_namespace<'b>(
        &mut self,
        name: &str,
        changes: &[ValidChange<'b>],
        deadline: &Deadline<'_>,
        note: &mut impl FnMut(ValidChange<'b>, bool),
    ) -> Result<(), Stopped> {
        let mut changes = changes;
        if self.namespace(name).is_none() {
            // A delete may name a namespace that does not exist.
            let is_delete = |change: &&ValidChange<'_>| matches!(change.form, Form::Delete(_));
            let deletes = changes.iter().take_while(is_delete).count();
            let (missed, rest) = changes.split_at(deletes);
            missed.iter().for_each(|change| note(*change, false));
            if rest.is_empty() {
                return Ok(());
            }
            changes = rest;
            self.namespaces.put(name, Arc::default());
        }
        let nodes = Arc::clone(&self.shared.nodes);
        let namespace = self.namespaces.get_mut(name);
        let namespace = Arc::make_mut(namespace.expect("the namespace exists"));
        let before = sizes_of(namespace);
        let mut counts = FollowedCounts {
            nodes: nodes.nodes(),
            views: namespace.views.swap(Arc::default()),
            requested: &mut self.requested,
            deadline,
        };
        for change in changes {
            deadline.step(change.entries())?;
            let changed = apply_to_namespace(change, namespace, &mut counts)?;
            note(*change, changed);
        }
        namespace.views.store(counts.views);
        let after = sizes_of(namespace);
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
        self.sizes.change(before, after);
        Ok(())
    }
}

/// Returns the sizes of a namespace.
fn sizes_of(namespace: &Namespace) -> Sizes {
    Sizes {
        pods: namespace.pod_count(),
        label_sets: namespace.label_sets().len(),
        owners: namespace.owners().len(),
        ..Sizes::default()
    }
}

/// Applies the changes of nodes in a batch, and tells `note` for each whether it made a difference.
fn apply_to_nodes<'b>(
    nodes: &mut Nodes,
    batch: &'b Batch,
    deadline: &Deadline<'_>,
    mut note: impl FnMut(ValidChange<'b>, bool),
) -> Result<(), Stopped> {
    if !batch.has_nodes {
        return Ok(());
    }
    for change in batch.changes() {
        deadline.step(change.entries())?;
        match change.form {
            Form::Node(node, compiled) => note(change, nodes.put(node, compiled)),
            Form::Delete(uid) if change.id.kind == ObjectKind::Node => {
                note(change, nodes.remove(change.id.name, uid));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives slots out to the nodes that the pods of a batch name.
fn reserve_slots(nodes: &mut Nodes, batch: &Batch) {
    for change in batch.changes() {
        if let Form::Pod(pod) = change.form
            && !pod.node_name().is_empty()
        {
            nodes.reserve(pod.node_name());
        }
    }
}

/// Applies one change of a pod or an owner. Returns whether it made a difference.
fn apply_to_namespace(
    change: &ValidChange<'_>,
    namespace: &mut Namespace,
    counts: &mut FollowedCounts<'_>,
) -> Result<bool, Stopped> {
    let name = change.id.name;
    Ok(match (change.form, change.id.kind) {
        (Form::Pod(pod), _) => namespace.put_pod(pod, counts)?,
        (Form::Owner(kind, owner), _) => namespace.owners.put(kind, name, owner),
        (Form::Delete(uid), ObjectKind::Pod) => {
            namespace.remove_pod((change.id.namespace, name), uid, counts)?
        }
        (Form::Delete(uid), ObjectKind::Owner(kind)) => namespace.owners.remove(kind, name, uid),
        (Form::Node(..) | Form::Namespace(_) | Form::Storage(_), _) | (Form::Delete(_), _) => false,
    })
}

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
        let found = self.pods.find(name);
        let old = found.ok().map(|place| self.pods.at(place).clone());
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
        Arc::make_mut(&mut self.pods).put_at(found, name, record);
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
        let found = self.pods.find(name).ok();
        let Some(place) = found.filter(|place| meant(self.pods.at(*place))) else {
            return Ok(false);
        };
        let old = Arc::make_mut(&mut self.pods).remove_at(place);
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
        let on_node = |pod: &PodRecord| {
            let room = pod.life.takes_room().then_some(pod.life.template);
            Some((pod.node?, room))
        };
        let (was, is) = (old.and_then(on_node), new.and_then(on_node));
        if was != is {
            for (pod, comes) in [(is, true), (was, false)] {
                let Some((slot, room)) = pod else {
                    continue;
                };
                let pod = PodOnNode {
                    namespace,
                    name,
                    takes_room: room.is_some(),
                    requires: room.and_then(|template| self.templates.read(template)),
                };
                let requested = Arc::make_mut(counts.requested);
                requested.shift(slot, &pod, comes, counts.deadline)?;
            }
        }
        self.recount_terminating(old, new);
        let counted = |pod: &PodRecord| match pod.life.counts() {
            true => Some((pod.labels, pod.node?)),
            false => None,
        };
        let (counted_as, counts_as) = (old.and_then(counted), new.and_then(counted));
        let mut moved = |labels, comes, goes| {
            Arc::make_mut(&mut self.label_sets).recount(labels, comes, goes);
            if let Some(views) = counts.views_of(labels) {
                views.recount(labels, comes, goes);
            }
        };
        match (counted_as, counts_as) {
            (was, is) if was == is => {}
            (Some((labels, from)), Some((same, to))) if labels == same => {
                moved(labels, Some(to), Some(from));
            }
            (was, is) => {
                if let Some((labels, slot)) = is {
                    moved(labels, Some(slot), None);
                }
                if let Some((labels, slot)) = was {
                    moved(labels, None, Some(slot));
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
