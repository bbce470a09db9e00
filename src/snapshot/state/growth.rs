//! How much more a state takes with changes that it has not applied yet.

use std::collections::{BTreeSet, HashSet};

use super::namespace::Namespace;
use super::shards::{Sizes, State};
use crate::account::{Charge, Exhausted, Part, heap};
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::compiled::Compiled;
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::pod::CompiledPod;
use crate::snapshot::objects::size::{
    LABEL_PLACES, PLACES, label_bytes, most, names, node_bytes, nominated_bytes, template_bytes,
};

/// What one change has copied of a namespace, in bytes: a block of pods and one
/// of label sets.
const COPIED_PER_CHANGE: usize = 32 << 10;

/// Returns what copies of namespaces, which take `namespaces` bytes, take once a batch is
/// applied to them: at most, and without what it adds. They share the blocks that do
/// not change.
pub(super) fn copied_bytes(batch: &Batch, namespaces: usize) -> usize {
    namespaces.min(batch.len().saturating_mul(COPIED_PER_CHANGE))
}

impl State {
    /// Room in memory for a batch, to be held until it is applied.
    ///
    /// # Errors
    /// [`Exhausted`] when there is none.
    pub(in crate::snapshot) fn room_for(&self, batch: &Batch) -> Result<Charge, Exhausted> {
        let account = self.footprint.account();
        let most = batch.bytes();
        if most == 0 {
            return account.charge(Part::Objects, 0);
        }
        // The most that objects can take is known at once. Whether part of that
        // exists already, and whether tables double, is checked only when room
        // is short: tables are less than half of a state.
        let tables = self.footprint.bytes() / 2;
        let bytes = match account.has_room(Part::Objects, most + tables) {
            true => most,
            false => match most.min(self.growth(batch)) {
                0 => 0,
                growth => growth + self.doubling(batch),
            },
        };
        account.charge(Part::Objects, bytes)
    }

    /// Returns how many objects a batch adds, at most: its additions come before its
    /// deletions.
    pub fn additions(&self, batch: &Batch) -> Sizes {
        let mut new = Sizes::default();
        let mut label_sets = HashSet::new();
        for change in batch.changes() {
            let id = change.id;
            if matches!(change.form, Form::Delete(_)) {
                continue;
            }
            let shard = self.shard(id.namespace);
            let shard = shard.as_ref().map(|s| s.namespace.read());
            match id.kind {
                ObjectKind::Node => {
                    let known = self.shared.read().nodes.nodes().find(id.name).is_some();
                    new.nodes += usize::from(!known);
                }
                ObjectKind::Namespace | ObjectKind::Storage(_) => {
                    let known = self.shared.read().cluster.contains(&change);
                    new.owners += usize::from(!known);
                }
                ObjectKind::Owner(kind) => {
                    let known = shard.is_some_and(|s| s.owners().contains(kind, id.name));
                    new.owners += usize::from(!known);
                }
                ObjectKind::Pod => {
                    let known = shard
                        .as_ref()
                        .is_some_and(|s| s.pods.get(id.name).is_some());
                    new.pods += usize::from(!known);
                    if let Form::Pod(pod) = change.form {
                        let labels = pod.labels();
                        let known = shard.is_some_and(|s| s.label_sets().find(labels).is_some());
                        let texts = || labels.bytes().collect::<Vec<_>>();
                        let fresh = !known && label_sets.insert((id.namespace, texts()));
                        new.label_sets += usize::from(fresh);
                    }
                }
            }
        }
        new
    }

    /// Returns how many objects of a batch it holds just as they are there.
    pub(in crate::snapshot) fn held_alike(&self, batch: &Batch) -> usize {
        let is_held = |change: &ValidChange<'_>| {
            let id = change.id;
            let shard = self.shard(id.namespace);
            let namespace = shard.as_ref().map(|shard| shard.namespace.read());
            let shared = self.shared.read();
            let nodes = shared.nodes.nodes();
            match (change.form, namespace) {
                (Form::Node(node, compiled), _) => !nodes.is_changed_by(node, compiled),
                (Form::Namespace(_) | Form::Storage(_), _) => shared.cluster.has_same(change),
                (Form::Pod(pod), Some(n)) => n.has_same_pod(pod, nodes),
                (Form::Owner(kind, owner), Some(n)) => n.owners().has_same(kind, id.name, owner),
                (Form::Delete(_), _) | (_, None) => false,
            }
        };
        batch.changes().filter(is_held).count()
    }

    /// Returns how much more its tables take at once with a batch.
    fn doubling(&self, batch: &Batch) -> usize {
        // A text takes a place at least.
        let (objects, texts) = (batch.len(), batch.bytes() / (LABEL_PLACES / 2));
        let namespaces = batch.changes().map(|change| change.id.namespace);
        let namespaces: BTreeSet<&str> = namespaces.collect();
        let of_namespaces = namespaces.into_iter().map(|name| {
            let shard = self.shard(name);
            shard.map_or(0, |s| s.namespace.read().doubling(objects, texts))
        });
        let of_namespaces: usize = of_namespaces.sum();
        of_namespaces + self.shared.read().nodes.nodes().doubling(objects, texts)
    }

    /// Returns how much more it would take with a batch, at most: additions come before
    /// deletions. Checks which objects exist already.
    fn growth(&self, batch: &Batch) -> usize {
        let growth = |change: ValidChange<'_>| {
            let id = change.id;
            let shard = self.shard(id.namespace);
            let namespace = shard.as_ref().map(|shard| shard.namespace.read());
            let shared = self.shared.read();
            let nodes = shared.nodes.nodes();
            match (change.form, namespace) {
                (Form::Delete(_), _) => 0,
                (Form::Node(node, _), _) => match nodes.find(id.name).and_then(|s| nodes.get(s)) {
                    Some(old) => node_bytes(node).saturating_sub(node_bytes(&old.to_wire())),
                    None => change.most_bytes(),
                },
                (Form::Pod(pod), Some(namespace)) => of_pod(pod, &namespace, nodes),
                (Form::Owner(kind, _), Some(namespace)) => {
                    let old = namespace.owners().get_wire(kind, id.namespace, id.name);
                    let old = old.and_then(|change| change.object);
                    change
                        .most_bytes()
                        .saturating_sub(old.map_or(0, |old| most(&old, &Compiled::trusted(&old))))
                }
                (Form::Namespace(_) | Form::Storage(_), _) | (_, None) => change.most_bytes(),
            }
        };
        batch.changes().map(growth).sum()
    }
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
    let template = || pod.asks().map_or(0, template_bytes);
    let rest = match namespace.asks_alike(pod) {
        Some(true) => 0,
        Some(false) => template(),
        None => template() + names(pod) + PLACES,
    };
    labels + slot + rest + nominated_bytes(pod)
}
