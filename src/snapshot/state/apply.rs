//! How a state moves on: a batch takes all the locks that it needs, changes
//! nodes, lets views follow, changes pods and owners, and lets go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use super::memory::MemoryUse;
use super::namespace::Namespace;
use super::shards::{Applied, Shard, SharedObjects, Sizes, State, namespace_memory};
use crate::snapshot::counts::partitioned_nodes::{Followed, PartitionedNodes};
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;

type LockedShards<'a> = Vec<(&'a str, RwLockWriteGuard<'a, Namespace>)>;

impl State {
    /// Applies a batch and moves on to `revision`. Callers take turns.
    pub fn apply(&self, batch: &Batch, defaults: Option<Arc<Defaults>>, revision: i64) -> Applied {
        let shards = self.shards_of(batch);
        let mut locked: LockedShards<'_> = Vec::with_capacity(shards.len());
        for (name, shard) in &shards {
            locked.push((name, shard.namespace.write()));
        }
        let before = (Sizes::of(&locked), memory_of(&locked));

        let mut applied = Applied::default();
        let shared = self.prepare_shared(batch, defaults, revision, &mut locked, &mut applied);
        for change in batch.changes() {
            if change.id.kind == ObjectKind::Node {
                continue;
            }
            let at = locked.binary_search_by_key(&change.id.namespace, |(name, _)| name);
            // A delete may be about a namespace that does not exist.
            applied.note(at.is_ok_and(|at| {
                let namespace = &mut locked[at].1;
                apply_to_namespace(change, namespace, &shared.nodes)
            }));
        }

        self.recount_sizes(before.0, Sizes::of(&locked));
        self.footprint.change(before.1, memory_of(&locked));
        for (name, mut namespace) in locked {
            if namespace.is_empty() {
                namespace.retired = true;
                namespace.views_mut().drop_all(&self.upkeep);
                self.namespaces.remove(name);
            } else {
                // They have grown with label sets.
                namespace.views_mut().change(&self.upkeep, |_| ());
            }
        }
        drop(shared);
        applied
    }

    /// Changes nodes and defaults, gives slots out to nodes that pods name, and
    /// moves on to `revision`: from then on, a read of a namespace that the
    /// batch does not touch sees the state after the batch.
    fn prepare_shared(
        &self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        revision: i64,
        locked: &mut LockedShards<'_>,
        applied: &mut Applied,
    ) -> RwLockReadGuard<'_, SharedObjects> {
        if defaults.is_none() {
            let shared = self.shared.read();
            if !shared.is_changed_by(batch) {
                self.sync_views(locked);
                self.revision.store(revision, Ordering::Release);
                return shared;
            }
        }
        let mut shared = self.shared.write();
        if let Some(defaults) = defaults {
            *self.told_defaults.write() = Arc::clone(&defaults);
            shared.defaults = defaults;
        }
        self.sync_views(locked);
        match shared.apply(batch, applied) {
            Followed::Moved(moves) if moves.is_empty() => {}
            Followed::Moved(moves) => {
                let version = self.upkeep.next_version();
                for (_, namespace) in locked {
                    namespace.follow(&moves, &self.upkeep);
                    namespace.views_mut().move_on(version);
                }
            }
            Followed::Dropped => {
                self.upkeep.next_version();
                self.sync_views(locked);
            }
        }
        self.note_nodes(&shared.nodes);
        self.revision.store(revision, Ordering::Release);
        RwLockWriteGuard::downgrade(shared)
    }

    /// Notes how many nodes there are and what they take. Call it with them
    /// locked.
    fn note_nodes(&self, nodes: &PartitionedNodes) {
        self.nodes.store(nodes.nodes().len(), Ordering::Relaxed);
        self.footprint.note_nodes(nodes.nodes().memory_bytes());
        self.upkeep
            .note_partitions(nodes.partitions().memory_bytes());
    }

    /// Drops the views that missed a move of nodes.
    fn sync_views(&self, locked: &mut LockedShards<'_>) {
        let version = self.upkeep.version();
        for (_, namespace) in locked {
            let views = namespace.views_mut();
            views.change(&self.upkeep, |views| views.sync(version));
        }
    }

    /// The shards that a batch touches, ascending by name; those that it adds
    /// to are created. Changes of nodes touch all that have views.
    fn shards_of(&self, batch: &Batch) -> Vec<(Box<str>, Arc<Shard>)> {
        let mut all = self.named_shards(batch);
        if batch
            .changes()
            .any(|change| change.id.kind == ObjectKind::Node)
        {
            let viewed = self
                .namespaces
                .iter()
                .filter(|e| e.viewed.load(Ordering::Relaxed));
            all.extend(viewed.map(|entry| (entry.key().clone(), Arc::clone(entry.value()))));
            all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            all.dedup_by(|a, b| a.0 == b.0);
        }
        all
    }

    /// The shards of the pods and owners of a batch, ascending by name.
    fn named_shards(&self, batch: &Batch) -> Vec<(Box<str>, Arc<Shard>)> {
        let named = batch.changes().filter(|c| c.id.kind != ObjectKind::Node);
        let adds = |form: Form<'_>| !matches!(form, Form::Delete(_));
        let mut names: Vec<(&str, bool)> = named
            .map(|change| (change.id.namespace, adds(change.form)))
            .collect();
        // Feeds come in runs of one namespace.
        names.dedup();
        // Of one name, the entry that adds comes first.
        names.sort_unstable_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
        names.dedup_by_key(|(name, _)| *name);
        let shard = |(name, adds): (&str, bool)| {
            let known = self.namespaces.get(name).map(|shard| Arc::clone(&shard));
            let created =
                || adds.then(|| Arc::clone(&self.namespaces.entry(name.into()).or_default()));
            known.or_else(created).map(|shard| (name.into(), shard))
        };
        names.into_iter().filter_map(shard).collect()
    }

    fn recount_sizes(&self, before: Sizes, after: Sizes) {
        let count = |total: &AtomicUsize, before: usize, after: usize| {
            total.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        };
        count(&self.pods, before.pods, after.pods);
        count(&self.label_sets, before.label_sets, after.label_sets);
        count(&self.owners, before.owners, after.owners);
    }
}

/// What namespaces take, without their views.
fn memory_of(locked: &[(&str, RwLockWriteGuard<'_, Namespace>)]) -> MemoryUse {
    let mut memory = MemoryUse::default();
    for (name, namespace) in locked {
        memory += namespace_memory(name, namespace);
    }
    memory
}

impl Sizes {
    fn of(locked: &[(&str, RwLockWriteGuard<'_, Namespace>)]) -> Self {
        let mut sizes = Self::default();
        for (_, namespace) in locked {
            sizes.pods += namespace.pod_count();
            sizes.label_sets += namespace.label_sets().len();
            sizes.owners += namespace.owners().len();
        }
        sizes
    }
}

impl SharedObjects {
    /// Whether a batch changes nodes, or has pods that name unknown ones.
    fn is_changed_by(&self, batch: &Batch) -> bool {
        batch.changes().any(|change| match change.form {
            Form::Pod(pod, _) => {
                let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
                !node_name.is_empty() && self.nodes.nodes().slot(node_name).is_none()
            }
            _ => change.id.kind == ObjectKind::Node,
        })
    }

    /// Changes nodes and gives slots out to nodes that pods name; what that
    /// means for views.
    fn apply(&mut self, batch: &Batch, applied: &mut Applied) -> Followed {
        let all = PartitionedNodes::to_change(&mut self.nodes);
        let nodes = all.nodes_mut();
        nodes.free_unnamed();
        apply_to_nodes(nodes, batch, applied);
        nodes.settle();
        let followed = all.follow();
        reserve_slots(all.nodes_mut(), batch);
        followed
    }
}

/// Applies the changes of nodes in a batch.
pub fn apply_to_nodes(nodes: &mut Nodes, batch: &Batch, applied: &mut Applied) {
    for change in batch.changes() {
        match change.form {
            Form::Node(node, taints) => applied.note(nodes.put(node, taints)),
            Form::Delete(uid) if change.id.kind == ObjectKind::Node => {
                applied.note(nodes.remove(change.id.name, uid));
            }
            _ => {}
        }
    }
}

/// Gives slots out to the nodes that the pods of a batch name.
pub fn reserve_slots(nodes: &mut Nodes, batch: &Batch) {
    for change in batch.changes() {
        if let Form::Pod(pod, _) = change.form
            && let Some(spec) = &pod.spec
            && !spec.node_name.is_empty()
        {
            nodes.reserve(&spec.node_name);
        }
    }
}

/// Applies one change of a pod or an owner; whether it made a difference.
pub fn apply_to_namespace(
    change: ValidChange<'_>,
    namespace: &mut Namespace,
    nodes: &PartitionedNodes,
) -> bool {
    let name = change.id.name;
    match (change.form, change.id.kind) {
        (Form::Pod(pod, life), _) => namespace.put_pod(pod, life, nodes),
        (Form::Owner(kind, owner), _) => namespace.put_owner(kind, name, owner),
        (Form::Delete(uid), ObjectKind::Pod) => namespace.remove_pod(name, uid, nodes),
        (Form::Delete(uid), ObjectKind::Owner(kind)) => namespace.remove_owner(kind, name, uid),
        (Form::Node(..), _) | (Form::Delete(_), ObjectKind::Node) => false,
    }
}
