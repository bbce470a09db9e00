//! Large batches are applied to copies of the namespaces and nodes that they touch, which are then
//! swapped in. Decisions continue on the old state meanwhile, so readers wait only for the swap.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::apply::{apply_to_namespaces, apply_to_shared, measure};
use super::fork::catch_up;
use super::growth::copied_bytes;
use super::memory::MemoryUse;
use super::namespace::Namespace;
use super::shards::{Applied, Shard, Shards, SharedObjects, Sizes, State};
use crate::account::{Charge, Part};
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::counts::query::Query;
use crate::snapshot::counts::view::View;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::requested::{RequestedTable, Shifts};

/// The most that applying a batch may cost while readers wait; about 5 ms.
const LOCKED: Units = 1_000_000;

/// A unit of work under locks, some 5 ns.
type Units = u64;

/// The cost of changing a pod, an owner or a node, without the updates that follow.
const UNITS_PER_CHANGE: Units = 300;

/// The cost of keeping one resource or port that a pod requests besides the common ones, and of
/// summing it up on its node.
const UNITS_PER_REQUEST: Units = 60;

/// The cost at which a view follows a pod.
const UNITS_PER_VIEW: Units = 10;

/// The cost of looking up the number of pods that a view counts on a node.
const UNITS_PER_LOOKUP: Units = 4;

/// The number of searches for views that decisions kept while a batch was applied to a copy. Later
/// views are counted again when next asked.
const ROUNDS: usize = 3;

/// The cost of copying a node that a reader holds.
const UNITS_PER_COPIED_NODE: Units = 20;

/// The cost of copying a nomination or a Namespace object that a reader holds.
const UNITS_PER_COPIED_NOMINATION: Units = 60;

/// Copies to which a batch was applied.
struct Copies<'s> {
    shared: SharedObjects,
    /// True if nodes, nominations or Namespace objects have changed.
    shared_changes: bool,
    namespaces: Vec<(&'s str, Box<Namespace>)>,
    /// The recorded bytes of the views of each namespace when it was copied.
    noted: Vec<(usize, usize)>,
    /// The sizes and the memory of the namespaces when they were copied.
    before: (Sizes, MemoryUse),
    /// True if views followed nodes that moved.
    moved: bool,
    requested: Arc<RequestedTable>,
}

impl State {
    /// Reserves room in memory for copies, if applying a batch in place would delay readers.
    /// Without room the batch is applied in place nevertheless.
    pub(in crate::snapshot) fn room_for_copies(
        &self,
        batch: &Batch,
        shards: &Shards,
    ) -> Option<Charge> {
        if self.cost(batch, shards) <= LOCKED {
            return None;
        }
        let namespaces = shards.iter().map(|(_, shard)| {
            let namespace = shard.namespace.read();
            namespace.memory().total()
        });
        let mut bytes = copied_bytes(batch, namespaces.sum());
        bytes += match self.shared.read().is_changed_by(batch) {
            true => self.memory().nodes + self.memory().partitions,
            false => self.requested.read().memory_bytes(),
        };
        self.footprint.account().charge(Part::Staged, bytes).ok()
    }

    /// Returns the approximate upper bound of the cost of applying a batch in place.
    fn cost(&self, batch: &Batch, shards: &Shards) -> Units {
        let own = UNITS_PER_CHANGE * batch.len() as Units;
        let own = own + UNITS_PER_REQUEST * batch.requests as Units;
        let own = own + self.cost_of_namespaces(batch);
        if own > LOCKED {
            return own;
        }
        own + self.cost_of_nominations(batch)
            + self.cost_of_nodes(batch, shards)
            + self.cost_of_pods(batch, shards)
    }

    /// Returns the cost of copying the nominations, if a batch changes them while a reader holds
    /// them.
    fn cost_of_nominations(&self, batch: &Batch) -> Units {
        let nominations = &self.shared.read().nominations;
        match Arc::strong_count(nominations) > 1 && nominations.is_changed_by(batch) {
            true => nominations.len() as Units * UNITS_PER_COPIED_NOMINATION,
            false => 0,
        }
    }

    /// Returns the cost of copying the Namespace objects, if a batch changes them while a reader
    /// holds them.
    fn cost_of_namespaces(&self, batch: &Batch) -> Units {
        let labels = &self.shared.read().cluster;
        match Arc::strong_count(labels) > 1 && batch.has_cluster_objects {
            true => labels.len() as Units * UNITS_PER_COPIED_NOMINATION,
            false => 0,
        }
    }

    /// Returns the cost for partitions and views to follow the nodes of a batch.
    fn cost_of_nodes(&self, batch: &Batch, shards: &Shards) -> Units {
        let shared = self.shared.read();
        let is_shared = Arc::strong_count(&shared.nodes) > 1;
        if !(is_shared || batch.has_nodes) || !shared.has_other_nodes_after(batch) {
            return 0;
        }
        let copied = match is_shared {
            true => shared.nodes.nodes().slot_count() as Units * UNITS_PER_COPIED_NODE,
            false => 0,
        };
        let moves = |change: &ValidChange<'_>| match change.form {
            Form::Node(node, compiled) => shared.nodes.nodes().is_changed_by(node, compiled),
            _ => change.id.kind == ObjectKind::Node,
        };
        let moved = batch.changes().filter(moves).count();
        if moved == 0 {
            return copied;
        }
        let per_node = 4 * shared.nodes.partitions().steps_per_node();
        let lookups = shards.iter().map(|(_, shard)| {
            let namespace = shard.namespace.read();
            namespace.views().read().lookups(moved) as Units
        });
        copied + (moved * per_node) as Units + UNITS_PER_LOOKUP * lookups.sum::<Units>()
    }

    /// Returns the cost for views to follow the pods of a batch.
    fn cost_of_pods(&self, batch: &Batch, shards: &Shards) -> Units {
        // At most all views count each pod. The exact number is computed only if that is too much.
        if UNITS_PER_VIEW * (batch.len() * self.upkeep.view_count()) as Units <= LOCKED {
            return 0;
        }
        let views = batch.changes().map(|change| {
            let id = change.id;
            let at = shards.binary_search_by(|(name, _)| (**name).cmp(id.namespace));
            let Ok(at) = at else { return 0 };
            let namespace = shards[at].1.namespace.read();
            match (change.form, id.kind) {
                (Form::Pod(pod), _) => namespace.watching(id.name, Some(pod)),
                (_, ObjectKind::Pod) => namespace.watching(id.name, None),
                (_, _) => 0,
            }
        });
        UNITS_PER_VIEW * views.sum::<usize>() as Units
    }

    /// Applies a batch to copies and swaps them in.
    pub(in crate::snapshot) fn apply_to_copies(
        &self,
        shards: &Shards,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        revision: i64,
    ) -> Applied {
        // The caller has the turn, so nothing changes meanwhile, and these belong to one moment.
        let mut shared = self.shared.read().clone();
        let mut namespaces: Vec<(&str, Box<Namespace>)> = shards.iter().map(copy).collect();
        let noted = |(_, copy): &mut (&str, Box<Namespace>)| copy.views_mut().noted();
        let noted = namespaces.iter_mut().map(noted).collect();
        let before = measure(&namespaces);

        let mut applied = Applied::before(batch);
        self.sync_views(&mut namespaces);
        let changes_nodes = shared.has_other_nodes_after(batch);
        let changes_others = shared.apply(batch, |_, changed| applied.note(changed));
        let mut requested = Arc::clone(&self.requested.read());
        let mut moved = false;
        if changes_nodes {
            let mut nodes = shared.nodes.fork();
            let followed = apply_to_shared(
                &mut nodes,
                &requested,
                (batch, revision),
                &mut applied,
                &self.upkeep.discarded,
            );
            moved = self.follow(&followed, &mut namespaces);
            shared.nodes = Arc::new(nodes);
        }
        let mut shifts = Shifts::default();
        let nodes = &shared.nodes;
        apply_to_namespaces(batch, &mut namespaces, nodes, &mut applied, &mut shifts);
        if !changes_nodes {
            self.take_views_along(shards, &mut namespaces, nodes);
        }
        shifts.apply_to(&mut requested);
        self.note_keeping_away(&shifts);
        let copies = Copies {
            shared,
            shared_changes: changes_nodes || changes_others,
            namespaces,
            noted,
            before,
            moved,
            requested,
        };
        self.swap_in(shards, copies, defaults, revision);
        applied
    }

    /// Replaces the originals by their copies.
    fn swap_in(
        &self,
        shards: &Shards,
        mut copies: Copies<'_>,
        defaults: Option<Arc<Defaults>>,
        revision: i64,
    ) {
        let next = copies.shared.clone();
        let after = measure(&copies.namespaces);
        let mut locked: Vec<_> = shards
            .iter()
            .map(|(name, shard)| (&**name, shard.namespace.write()))
            .collect();
        let mut live = None;
        if copies.shared_changes || defaults.is_some() {
            let mut live_shared = self.shared.write();
            if let Some(defaults) = defaults {
                *self.told_defaults.write() = Arc::clone(&defaults);
                copies.shared.defaults = defaults;
            }
            std::mem::swap(&mut *live_shared, &mut copies.shared);
            self.note_nodes(&live_shared.nodes);
            live = Some(live_shared);
        }
        let namespaces = copies.namespaces.iter_mut().zip(&copies.noted);
        for ((_, live), ((_, copy), noted)) in locked.iter_mut().zip(namespaces) {
            self.upkeep.replace_views(live.views_mut().noted(), *noted);
            std::mem::swap(&mut **live, &mut **copy);
        }
        if copies.moved {
            self.move_views_on(&mut locked);
        }
        let swap = |live: &mut Arc<RequestedTable>| std::mem::swap(live, &mut copies.requested);
        self.move_on(swap, &next, revision);
        self.note_namespaces(copies.before, after);
        self.settle(locked);
        drop(live);
        // The old objects are dropped once nothing is locked.
        drop((copies, next));
        self.upkeep.discarded.drop_all();
    }

    /// Brings views up to date that decisions kept since the copies were made, and keeps them in
    /// the copies.
    fn take_views_along(
        &self,
        shards: &Shards,
        copies: &mut [(&str, Box<Namespace>)],
        nodes: &PartitionedNodes,
    ) {
        for _ in 0..ROUNDS {
            let mut found = false;
            for ((_, shard), (_, copy)) in shards.iter().zip(&mut *copies) {
                found |= self.take_along(shard, copy, nodes);
            }
            if !found {
                return;
            }
        }
    }

    /// Does so for one shard. Returns whether the shard had such views.
    fn take_along(&self, shard: &Shard, copy: &mut Namespace, nodes: &PartitionedNodes) -> bool {
        if !shard.viewed.load(Ordering::Relaxed) {
            return false;
        }
        let (live, new) = {
            let live = shard.namespace.read();
            let views = live.views().read();
            if views.version != self.upkeep.version() {
                return false;
            }
            let new = views.watched.beyond(&copy.views_mut().watched);
            (live.clone(), new)
        };
        let changed = copy.label_sets().changed_since(live.label_sets());
        let mut found = false;
        for watch in new {
            for view in watch.views {
                let Some(in_use) = nodes.partitions().numbered(view.partition()) else {
                    continue;
                };
                let query = Query {
                    selector: &watch.selector,
                    partition: in_use.partition.key(),
                };
                let (mut view, mut sets) = (View::clone(&view), watch.sets.clone());
                let both = (live.label_sets(), copy.label_sets());
                catch_up(&mut view, &mut sets, &changed, both, query, &in_use);
                let views = copy.views_mut();
                views.change(&self.upkeep, |views| {
                    views.watched.insert(query.selector, view, sets)
                });
                found = true;
            }
        }
        found
    }
}

fn copy((name, shard): &(Box<str>, Arc<Shard>)) -> (&str, Box<Namespace>) {
    (name, Box::new(shard.namespace.read().with_views()))
}
