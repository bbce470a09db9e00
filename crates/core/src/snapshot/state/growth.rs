//! The growth of a state by changes that it has not applied yet.

use std::collections::HashSet;

use super::namespace::Namespace;
use super::revision::{Sizes, State};
use crate::account::{Charge, Exhausted, Part, heap};
use crate::proto::v1::change::Object;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::pod::CompiledPod;
use crate::snapshot::objects::size::{
    PLACES, label_bytes, most, names, nominated_bytes, template_bytes,
};

/// The bytes that one change of a namespace copies: a block of pods and one of label sets.
const COPIED_PER_CHANGE: usize = 32 << 10;

impl State {
    /// Reserves room in memory for a batch, to be held until it is applied.
    ///
    /// # Errors
    /// [`Exhausted`] when there is none.
    pub(in crate::snapshot) fn room_for(&self, batch: &Batch) -> Result<Charge, Exhausted> {
        let account = self.upkeep.account();
        let most = batch.bytes;
        // The most bytes that the objects can take are known at once. Only when room is short, this
        // checks whether part of that exists already.
        let bytes = match account.has_room(Part::Objects, most) {
            true => most,
            false => most.min(self.growth(batch)),
        };
        account.charge(Part::Objects, bytes)
    }

    /// Returns the most bytes that a clone of the state takes for itself once a batch is applied to
    /// it. It shares unchanged blocks.
    pub(in crate::snapshot) fn copied_bytes(&self, batch: &Batch) -> usize {
        let of_pods = self.memory.total().saturating_sub(self.memory.nodes);
        let of_pods = of_pods.min(batch.len().saturating_mul(COPIED_PER_CHANGE));
        let partitions = match batch.has_nodes {
            true => self.upkeep.partition_bytes(),
            false => 0,
        };
        self.memory.nodes + partitions + of_pods + batch.bytes
    }

    /// Returns the most objects that a batch adds: its additions come before its deletions.
    pub fn additions(&self, batch: &Batch) -> Sizes {
        let mut new = Sizes::default();
        let mut label_sets = HashSet::new();
        for change in batch.changes() {
            let id = change.id;
            if matches!(change.form, Form::Delete(_)) {
                continue;
            }
            let namespace = self.namespace(id.namespace);
            match id.kind {
                ObjectKind::Node => {
                    let known = self.nodes().find(id.name).is_some();
                    new.nodes += usize::from(!known);
                }
                ObjectKind::Namespace | ObjectKind::Storage(_) => {
                    let known = self.shared.cluster.contains(&change);
                    new.owners += usize::from(!known);
                }
                ObjectKind::Owner(kind) => {
                    let known = namespace.is_some_and(|n| n.owners().contains(kind, id.name));
                    new.owners += usize::from(!known);
                }
                ObjectKind::Pod => {
                    let known = namespace.is_some_and(|n| n.pods.get(id.name).is_some());
                    new.pods += usize::from(!known);
                    if let Form::Pod(pod) = change.form {
                        let labels = pod.labels();
                        let known =
                            namespace.is_some_and(|n| n.label_sets().find(labels).is_some());
                        let fresh = !known && label_sets.insert((id.namespace, labels));
                        new.label_sets += usize::from(fresh);
                    }
                }
            }
        }
        new
    }

    /// Returns the number of a batch's objects that the state has in the same form.
    pub(in crate::snapshot) fn held_alike(&self, batch: &Batch) -> usize {
        let is_held = |change: &ValidChange<'_>| {
            let id = change.id;
            let namespace = self.namespace(id.namespace);
            let nodes = self.nodes();
            match (change.form, namespace) {
                (Form::Node(node, compiled), _) => !nodes.is_changed_by(node, compiled),
                (Form::Namespace(_) | Form::Storage(_), _) => self.shared.cluster.has_same(change),
                (Form::Pod(pod), Some(n)) => n.has_same_pod(pod, nodes),
                (Form::Owner(kind, owner), Some(n)) => n.owners().has_same(kind, id.name, owner),
                (Form::Delete(_), _) | (_, None) => false,
            }
        };
        batch.changes().filter(is_held).count()
    }

    /// Returns the most bytes by which the state grows with a batch: additions come before
    /// deletions. Checks which objects exist already.
    fn growth(&self, batch: &Batch) -> usize {
        let growth = |change: ValidChange<'_>| {
            let id = change.id;
            let namespace = self.namespace(id.namespace);
            let nodes = self.nodes();
            match (change.form, namespace) {
                (Form::Delete(_), _) => 0,
                (Form::Node(..), _) => {
                    let old = nodes.find(id.name).and_then(|slot| nodes.get(slot));
                    than(&change, old.map(|old| Object::Node(old.to_wire())))
                }
                (Form::Pod(pod), Some(namespace)) => of_pod(pod, namespace, nodes),
                (Form::Owner(kind, _), Some(namespace)) => {
                    let old = namespace.owners().get_wire(kind, id.namespace, id.name);
                    than(&change, old)
                }
                (Form::Namespace(_) | Form::Storage(_), _) | (_, None) => change.most_bytes(),
            }
        };
        batch.changes().map(growth).sum()
    }
}

/// Returns the bytes by which an object other than a pod is larger than the one that it replaces.
fn than(change: &ValidChange<'_>, old: Option<Object>) -> usize {
    let old = old.map_or(0, |old| most(&old));
    change.most_bytes().saturating_sub(old)
}

fn of_pod(pod: &CompiledPod, namespace: &Namespace, nodes: &Nodes) -> usize {
    let labels = match namespace.label_sets().find(pod.labels()) {
        Some(_) => 0,
        None => label_bytes(pod) + PLACES,
    };
    let node_name = pod.node_name();
    let slot = match node_name.is_empty() || nodes.slot(node_name).is_some() {
        true => 0,
        false => 2 * heap::block(node_name.len()) + PLACES,
    };
    let template = || pod.requirements().map_or(0, |it| template_bytes(it));
    let rest = match namespace.asks_alike(pod) {
        Some(true) => 0,
        Some(false) => template(),
        None => template() + names(pod) + PLACES,
    };
    labels + slot + rest + nominated_bytes(pod)
}
