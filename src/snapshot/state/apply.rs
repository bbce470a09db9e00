//! Applies a batch to a state: takes all locks that it needs, changes nodes, updates views, changes
//! pods and owners, and releases the locks. A large batch does all of that to copies first
//! (`publish.rs`).

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};

use super::memory::MemoryUse;
use super::namespace::Namespace;
use super::shards::{Applied, Shards, SharedObjects, Sizes, State, shard_bytes};
use crate::snapshot::counts::discarded::Discarded;
use crate::snapshot::counts::partitioned_nodes::{Followed, PartitionedNodes};
use crate::snapshot::counts::views::Views;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::kind::ObjectKind;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::requested::{RequestedTable, Shifts};

/// Namespaces with their names, ascending, locked to be changed.
pub(in crate::snapshot) type LockedShards<'a> = Vec<(&'a str, RwLockWriteGuard<'a, Namespace>)>;

/// The objects that all namespaces share, while a batch is applied.
enum LockedObjects<'a> {
    /// They stay as they are: others read them meanwhile.
    Read(RwLockReadGuard<'a, SharedObjects>),
    /// They have changed: they are read only after the whole batch is applied.
    Written(RwLockWriteGuard<'a, SharedObjects>),
}

impl Deref for LockedObjects<'_> {
    type Target = SharedObjects;

    fn deref(&self) -> &SharedObjects {
        match self {
            Self::Read(shared) => shared,
            Self::Written(shared) => shared,
        }
    }
}

impl State {
    /// Applies a batch and sets `revision`. Callers take turns. Readers wait for some milliseconds
    /// at most, however large the batch is: one that takes longer is applied to copies, which are
    /// swapped in.
    pub fn apply(&self, batch: &Batch, defaults: Option<Arc<Defaults>>, revision: i64) -> Applied {
        let shards = self.shards_of(batch);
        match self.room_for_copies(batch, &shards) {
            Some(_room) => self.apply_to_copies(&shards, batch, defaults, revision),
            None => self.apply_in_place(&shards, batch, defaults, revision),
        }
    }

    /// Applies a batch to an unpublished state.
    pub fn apply_unread(&self, batch: &Batch, revision: i64) -> Applied {
        self.apply_in_place(&self.shards_of(batch), batch, None, revision)
    }

    /// Applies a batch while readers of the touched namespaces wait.
    fn apply_in_place(
        &self,
        shards: &Shards,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        revision: i64,
    ) -> Applied {
        let mut locked: LockedShards<'_> = Vec::with_capacity(shards.len());
        for (name, shard) in shards {
            locked.push((name, shard.namespace.write()));
        }
        let before = measure(&locked);

        let mut applied = Applied::before(batch);
        let mut shifts = Shifts::default();
        let shared = self.prepare_shared((batch, revision), defaults, &mut locked, &mut applied);
        let nodes = &shared.nodes;
        apply_to_namespaces(batch, &mut locked, nodes, &mut applied, &mut shifts);
        self.note_keeping_away(&shifts);
        self.move_on(|requested| shifts.apply_to(requested), &shared, revision);
        self.note_namespaces(before, measure(&locked));
        self.settle(locked);
        drop(shared);
        self.upkeep.discarded.drop_all();
        applied
    }

    /// Removes empty namespaces and notes the size of the views of the others.
    pub(in crate::snapshot) fn settle(&self, locked: LockedShards<'_>) {
        for (name, mut namespace) in locked {
            if namespace.is_empty() {
                namespace.retired = true;
                namespace.views_mut().change(&self.upkeep, Views::retire);
                self.namespaces.remove(name);
            } else {
                // The views have grown with the label sets, so their size is recorded again.
                namespace.views_mut().change(&self.upkeep, |_| ());
            }
        }
    }

    /// Changes nodes, defaults and nominations, and gives slots out to nodes that
    /// pods name.
    fn prepare_shared(
        &self,
        (batch, revision): (&Batch, i64),
        defaults: Option<Arc<Defaults>>,
        locked: &mut LockedShards<'_>,
        applied: &mut Applied,
    ) -> LockedObjects<'_> {
        if defaults.is_none() {
            let shared = self.shared.read();
            if !shared.is_changed_by(batch) {
                self.sync_views(locked);
                return LockedObjects::Read(shared);
            }
        }
        let mut shared = self.shared.write();
        let was_empty = shared.nominations.is_empty();
        let changes_others = shared.apply(batch, |_, changed| applied.note(changed));
        // If no pod is nominated before or after the batch, a reservation that a client decided
        // about changes no answer.
        let is_looked_at = !(was_empty && shared.nominations.is_empty());
        let changes_answers = defaults.is_some()
            || batch.has_nodes
            || batch.has_cluster_objects
            || changes_others && is_looked_at;
        if let Some(defaults) = defaults {
            *self.told_defaults.write() = Arc::clone(&defaults);
            shared.defaults = defaults;
        }
        self.sync_views(locked);
        if shared.has_other_nodes_after(batch) {
            let nodes = PartitionedNodes::to_change(&mut shared.nodes);
            let requested = self.requested.read();
            let discarded = &self.upkeep.discarded;
            let followed =
                apply_to_shared(nodes, &requested, (batch, revision), applied, discarded);
            drop(requested);
            if self.follow(&followed, locked) {
                self.move_views_on(locked);
            }
            self.note_nodes(&shared.nodes);
        }
        match changes_answers {
            true => LockedObjects::Written(shared),
            // New slots alone change no answer, so readers may continue.
            false => LockedObjects::Read(RwLockWriteGuard::downgrade(shared)),
        }
    }

    /// Updates views after a change of nodes. Returns whether their version
    /// changed.
    pub(in crate::snapshot) fn follow<N>(
        &self,
        followed: &Followed,
        namespaces: &mut [(&str, N)],
    ) -> bool
    where
        N: DerefMut<Target = Namespace>,
    {
        match followed {
            Followed::Moved(moves) if moves.is_empty() => return false,
            Followed::Moved(moves) => {
                for (_, namespace) in namespaces {
                    namespace.follow(moves, &self.upkeep);
                }
            }
            Followed::Dropped => {
                for (_, namespace) in namespaces {
                    namespace.views_mut().change(&self.upkeep, Views::clear);
                }
            }
        }
        true
    }

    /// Sets another version of the nodes, which the views follow already. The caller has locked the
    /// nodes and the views.
    pub(in crate::snapshot) fn move_views_on(&self, locked: &mut LockedShards<'_>) {
        let version = self.upkeep.next_version();
        for (_, namespace) in locked {
            namespace.views_mut().version = version;
        }
    }

    /// Records the number of nodes. The caller has locked the nodes.
    pub(in crate::snapshot) fn note_nodes(&self, nodes: &PartitionedNodes) {
        self.nodes.store(nodes.nodes().len(), Ordering::Relaxed);
        self.upkeep
            .note_partitions(nodes.partitions().memory_bytes());
    }

    /// Records that pods keep others away before the revision at which they do: decisions at
    /// earlier revisions may then read their terms, too.
    pub(in crate::snapshot) fn note_keeping_away(&self, shifts: &Shifts) {
        if shifts.are_looked_at() {
            self.keeps_away.store(true, Ordering::Release);
        }
    }

    /// Changes the requests of pods on nodes and moves on to `revision`, both at once: from then
    /// on, a read of a namespace that the batch does not touch sees the state after the batch.
    pub(in crate::snapshot) fn move_on(
        &self,
        shift: impl FnOnce(&mut Arc<RequestedTable>),
        shared: &SharedObjects,
        revision: i64,
    ) {
        let mut requested = self.requested.write();
        shift(&mut requested);
        let bytes = shared.nodes.nodes().memory_bytes()
            + shared.nominations.memory_bytes()
            + shared.cluster.memory_bytes();
        self.footprint.note_nodes(bytes + requested.memory_bytes());
        let labelled = shared.cluster.len();
        self.labelled.store(labelled, Ordering::Relaxed);
        self.revision.store(revision, Ordering::Release);
    }

    /// Drops the views that missed a move of nodes.
    pub(in crate::snapshot) fn sync_views<N>(&self, namespaces: &mut [(&str, N)])
    where
        N: DerefMut<Target = Namespace>,
    {
        let version = self.upkeep.version();
        for (_, namespace) in namespaces {
            let views = namespace.views_mut();
            views.change(&self.upkeep, |views| views.sync(version));
        }
    }

    /// The shards that a batch touches, ascending by name; missing ones that it adds to are
    /// created. Changes of nodes touch all that have views.
    fn shards_of(&self, batch: &Batch) -> Shards {
        let mut all = self.named_shards(batch);
        if batch.has_nodes {
            all.extend(self.viewed_shards());
            all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            all.dedup_by(|a, b| a.0 == b.0);
        }
        all
    }

    /// The shards of the pods and owners of a batch, ascending by name.
    fn named_shards(&self, batch: &Batch) -> Shards {
        let named = batch.changes().filter(|c| c.id.kind.is_in_shard());
        let adds = |form: Form<'_>| !matches!(form, Form::Delete(_));
        let mut names: Vec<(&str, bool)> = named
            .map(|change| (change.id.namespace, adds(change.form)))
            .collect();
        // Feeds send changes in runs of one namespace.
        names.dedup();
        // Of entries with the same name, the one that adds comes first.
        names.sort_unstable_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
        names.dedup_by_key(|(name, _)| *name);
        let shard = |(name, adds): (&str, bool)| {
            let known = self.shard(name);
            let created =
                || adds.then(|| Arc::clone(&self.namespaces.entry(name.into()).or_default()));
            known.or_else(created).map(|shard| (name.into(), shard))
        };
        names.into_iter().filter_map(shard).collect()
    }

    /// Records the sizes and bytes of some namespaces, before and after a change.
    pub(in crate::snapshot) fn note_namespaces(
        &self,
        before: (Sizes, MemoryUse),
        after: (Sizes, MemoryUse),
    ) {
        let count = |total: &AtomicUsize, before: usize, after: usize| {
            total.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        };
        let (sizes, new_sizes) = (before.0, after.0);
        count(&self.pods, sizes.pods, new_sizes.pods);
        count(&self.label_sets, sizes.label_sets, new_sizes.label_sets);
        count(&self.owners, sizes.owners, new_sizes.owners);
        self.footprint.change(before.1, after.1);
    }
}

/// Returns the sizes of namespaces, and their bytes without views.
pub(in crate::snapshot) fn measure<N: Deref<Target = Namespace>>(
    namespaces: &[(&str, N)],
) -> (Sizes, MemoryUse) {
    let (mut sizes, mut memory) = (Sizes::default(), MemoryUse::default());
    // Empty namespaces are removed afterwards.
    for (name, namespace) in namespaces.iter().filter(|(_, it)| !it.is_empty()) {
        sizes.pods += namespace.pod_count();
        sizes.label_sets += namespace.label_sets().len();
        sizes.owners += namespace.owners().len();
        memory += MemoryUse {
            namespaces: shard_bytes(name),
            ..namespace.memory()
        };
    }
    (sizes, memory)
}

/// Changes nodes and gives slots out to nodes that pods name. Returns the consequence for views.
pub(in crate::snapshot) fn apply_to_shared(
    all: &mut PartitionedNodes,
    requested: &RequestedTable,
    (batch, revision): (&Batch, i64),
    applied: &mut Applied,
    discarded: &Discarded,
) -> Followed {
    let nodes = all.nodes_mut();
    nodes.free_unnamed(|slot| requested.has_pods(slot));
    apply_to_nodes(nodes, batch, |_, changed| applied.note(changed));
    nodes.settle(revision);
    let followed = all.follow(discarded);
    reserve_slots(all.nodes_mut(), batch);
    followed
}

/// Applies the changes of pods and owners to their namespaces, which are
/// ascending by name.
pub(in crate::snapshot) fn apply_to_namespaces<N>(
    batch: &Batch,
    namespaces: &mut [(&str, N)],
    nodes: &PartitionedNodes,
    applied: &mut Applied,
    shifts: &mut Shifts,
) where
    N: DerefMut<Target = Namespace>,
{
    for change in batch.changes() {
        if !change.id.kind.is_in_shard() {
            continue;
        }
        let at = namespaces.binary_search_by_key(&change.id.namespace, |(name, _)| name);
        // A delete may name a namespace that does not exist.
        applied.note(at.is_ok_and(|at| {
            let namespace = &mut namespaces[at].1;
            apply_to_namespace(change, namespace, nodes, shifts)
        }));
    }
}

/// Applies the changes of nodes in a batch, and tells `note` for each whether it made a difference.
pub fn apply_to_nodes<'b>(
    nodes: &mut Nodes,
    batch: &'b Batch,
    mut note: impl FnMut(ValidChange<'b>, bool),
) {
    if !batch.has_nodes {
        return;
    }
    for change in batch.changes() {
        match change.form {
            Form::Node(node, compiled) => note(change, nodes.put(node, compiled)),
            Form::Delete(uid) if change.id.kind == ObjectKind::Node => {
                note(change, nodes.remove(change.id.name, uid));
            }
            _ => {}
        }
    }
}

/// Gives slots out to the nodes that the pods of a batch name.
pub fn reserve_slots(nodes: &mut Nodes, batch: &Batch) {
    for change in batch.changes() {
        if let Form::Pod(pod) = change.form
            && !pod.node_name().is_empty()
        {
            nodes.reserve(pod.node_name());
        }
    }
}

/// Applies one change of a pod or an owner. Returns whether it made a difference.
pub fn apply_to_namespace(
    change: ValidChange<'_>,
    namespace: &mut Namespace,
    nodes: &PartitionedNodes,
    shifts: &mut Shifts,
) -> bool {
    let name = change.id.name;
    match (change.form, change.id.kind) {
        (Form::Pod(pod), _) => namespace.put_pod(pod, nodes, shifts),
        (Form::Owner(kind, owner), _) => namespace.owners.put(kind, name, owner),
        (Form::Delete(uid), ObjectKind::Pod) => {
            let name = (change.id.namespace, name);
            namespace.remove_pod(name, uid, nodes, shifts)
        }
        (Form::Delete(uid), ObjectKind::Owner(kind)) => namespace.owners.remove(kind, name, uid),
        (Form::Node(..) | Form::Namespace(_) | Form::Storage(_), _) | (Form::Delete(_), _) => false,
    }
}
