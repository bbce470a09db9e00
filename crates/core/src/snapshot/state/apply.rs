//! Applies a batch to a state: changes nodes and their partitions, then pods and owners with the
//! counts that follow them.

use std::sync::Arc;

use super::namespace::Namespace;
use super::pod_change::FollowedCounts;
use super::revision::{Applied, Sizes, State};
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;

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
        self.sizes.owners -= self.shared.cluster.len();
        self.shared.apply(batch, deadline, &mut note)?;
        self.sizes.owners += self.shared.cluster.len();
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
