//! One state of a snapshot: shards by namespace, the nodes that they share, and the locks that make
//! every batch and every decision atomic.
//!
//! Locks are taken in one order: shards ascending by name, then `shared`. A batch holds all locks
//! that it needs until it is applied, so a decision, which holds one shard and `shared`, sees all
//! of the batch or nothing of it. The requests of pods are locked last and only for moments: a
//! decision takes the table of its revision.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::RwLock;

use super::memory::{Footprint, MemoryUse};
use super::namespace::Namespace;
use crate::account::{Account, Part, heap};
use crate::limits::processors;
use crate::snapshot::counts::partitioned_nodes::PartitionedNodes;
use crate::snapshot::counts::upkeep::Upkeep;
use crate::snapshot::locks::write_between_reads;
use crate::snapshot::objects::change::{Batch, Form, ValidChange};
use crate::snapshot::objects::cluster_objects::ClusterObjects;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::nominated::Nominations;
use crate::snapshot::objects::pair_index::PairIndex;
use crate::snapshot::objects::pod_terms::TermTable;
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::reservation::{Claim, Serial};
use crate::snapshot::objects::size::NEW_NAMESPACE;
use crate::snapshot::objects::storage_use::StorageUse;

/// One state of a snapshot.
#[derive(Debug)]
pub struct State {
    pub(in crate::snapshot) revision: AtomicI64,
    pub(in crate::snapshot) shared: RwLock<SharedObjects>,
    /// The requests of the pods on each node, at [`Self::revision`]: both change under
    /// this lock.
    pub(in crate::snapshot) requested: RwLock<Arc<RequestedTable>>,
    /// True if there ever were pods that keep others away, or use storage that decisions depend on.
    pub(in crate::snapshot) keeps_away: AtomicBool,
    pub(in crate::snapshot) namespaces: DashMap<Box<str>, Arc<Shard>>,
    pub(in crate::snapshot) upkeep: Upkeep,
    pub(in crate::snapshot) footprint: Footprint,
    /// A second copy of the default constraints, to describe the state without waiting for a batch.
    pub(in crate::snapshot) told_defaults: RwLock<Arc<Defaults>>,
    pub(in crate::snapshot) nodes: AtomicUsize,
    pub(in crate::snapshot) pods: AtomicUsize,
    pub(in crate::snapshot) label_sets: AtomicUsize,
    pub(in crate::snapshot) owners: AtomicUsize,
    /// The number of objects that all namespaces share, besides nodes.
    pub(in crate::snapshot) labelled: AtomicUsize,
}

/// A namespace and its lock.
#[derive(Debug, Default)]
pub(in crate::snapshot) struct Shard {
    pub(in crate::snapshot) namespace: RwLock<Namespace>,
    /// True if the shard may have views, which follow changes of nodes.
    pub(in crate::snapshot) viewed: AtomicBool,
}

/// Shards with their names, ascending.
pub(in crate::snapshot) type Shards = Vec<(Box<str>, Arc<Shard>)>;

/// The objects that all namespaces share.
#[derive(Debug, Clone, Default)]
pub(in crate::snapshot) struct SharedObjects {
    /// Shared with forks of this state.
    pub(in crate::snapshot) nodes: Arc<PartitionedNodes>,
    pub(in crate::snapshot) defaults: Arc<Defaults>,
    /// The nominated pods of all namespaces.
    pub(in crate::snapshot) nominations: Arc<Nominations>,
    /// Namespaces, claims, persistent volumes and storage classes.
    pub(in crate::snapshot) cluster: Arc<ClusterObjects>,
}

/// The numbers of changes in a batch, by whether they made a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Changes that made a difference.
    pub changed: usize,
    /// Changes that made no difference.
    pub unchanged: usize,
    /// Changes of unknown kinds, which were skipped.
    pub skipped: usize,
}

/// The number of objects of each kind in a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes that exist.
    pub nodes: usize,
    /// Pods, counted or not.
    pub pods: usize,
    /// Distinct (namespace, labels) of pods.
    pub label_sets: usize,
    /// Services, controllers, namespaces, claims, persistent volumes and storage classes.
    pub owners: usize,
}

impl SharedObjects {
    /// Returns whether a batch changes any of these objects.
    pub fn is_changed_by(&self, batch: &Batch) -> bool {
        self.has_other_nodes_after(batch)
            || batch.has_cluster_objects
            || self.nominations.is_changed_by(batch)
    }

    /// Applies a batch to all these objects except the nodes, and tells `note` for each change of
    /// an object of the cluster whether it made a difference. Returns whether it may have changed
    /// anything.
    pub fn apply<'b>(&mut self, batch: &'b Batch, note: impl FnMut(ValidChange<'b>, bool)) -> bool {
        let nominates = self.nominations.is_changed_by(batch);
        if nominates {
            Arc::make_mut(&mut self.nominations).apply(batch);
        }
        if batch.has_cluster_objects {
            Arc::make_mut(&mut self.cluster).apply(batch, note);
        }
        nominates || batch.has_cluster_objects
    }

    /// Returns whether a batch changes nodes, or has pods that name unknown ones.
    pub fn has_other_nodes_after(&self, batch: &Batch) -> bool {
        let nodes = self.nodes.nodes();
        let is_unknown = |name: &str| !name.is_empty() && nodes.slot(name).is_none();
        let names_unknown = |change: ValidChange<'_>| match change.form {
            Form::Pod(pod) => is_unknown(pod.node_name()),
            _ => false,
        };
        batch.has_nodes || batch.changes().any(names_unknown)
    }
}

impl Applied {
    pub(in crate::snapshot) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
        self.skipped += other.skipped;
    }

    /// The numbers before any change of `batch` is applied.
    pub(in crate::snapshot) fn before(batch: &Batch) -> Self {
        Self {
            skipped: batch.skipped,
            ..Self::default()
        }
    }

    /// Records that this many of the changes make no difference after all.
    pub(in crate::snapshot) fn spare(&mut self, alike: usize) {
        let alike = alike.min(self.changed);
        self.changed -= alike;
        self.unchanged += alike;
    }

    pub(in crate::snapshot) fn note(&mut self, changed: bool) {
        match changed {
            true => self.changed += 1,
            false => self.unchanged += 1,
        }
    }
}

impl State {
    /// An empty state whose views may take this many bytes, without an account.
    #[cfg(test)]
    pub fn new(max_view_bytes: usize) -> Self {
        Self::on(&Account::unlimited(), Part::Objects, max_view_bytes)
    }

    /// An empty state whose objects belong to a part of an account, and whose views may take this
    /// many bytes.
    pub fn on(account: &Arc<Account>, part: Part, max_view_bytes: usize) -> Self {
        Self {
            revision: AtomicI64::new(0),
            shared: RwLock::default(),
            requested: RwLock::default(),
            keeps_away: AtomicBool::new(false),
            namespaces: DashMap::new(),
            upkeep: Upkeep::new(max_view_bytes, account),
            footprint: Footprint::new(account, part, state_bytes()),
            told_defaults: RwLock::default(),
            nodes: AtomicUsize::new(0),
            pods: AtomicUsize::new(0),
            label_sets: AtomicUsize::new(0),
            owners: AtomicUsize::new(0),
            labelled: AtomicUsize::new(0),
        }
    }

    /// The revision of the last batch applied.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// The revision, and the requests of pods on each node then.
    pub fn revision_and_requested(&self) -> (i64, Arc<RequestedTable>) {
        let requested = self.requested.read();
        (self.revision(), Arc::clone(&requested))
    }

    /// Gives a state its place in a history, before it is read. If it replaces `former`, it comes
    /// after that state.
    pub fn adopt(&mut self, revision: i64, defaults: Arc<Defaults>, former: Option<&Self>) {
        *self.revision.get_mut() = revision;
        *self.told_defaults.get_mut() = Arc::clone(&defaults);
        let former = former.map(|former| Arc::clone(&former.shared.read().nodes));
        let shared = self.shared.get_mut();
        shared.defaults = defaults;
        let names = shared.nodes.nodes().names();
        let same = former.filter(|former| former.nodes().names().eq(names));
        let ordered_at = same.map_or(revision, |former| former.nodes().ordered_at);
        let nodes = PartitionedNodes::to_change(&mut shared.nodes);
        nodes.nodes_mut().ordered_at = ordered_at;
    }

    /// The default constraints.
    pub fn defaults(&self) -> Arc<Defaults> {
        Arc::clone(&self.told_defaults.read())
    }

    /// Returns the number of the state's objects.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            nodes: self.nodes.load(Ordering::Relaxed),
            pods: self.pods.load(Ordering::Relaxed),
            label_sets: self.label_sets.load(Ordering::Relaxed),
            owners: self.owners.load(Ordering::Relaxed) + self.labelled.load(Ordering::Relaxed),
        }
    }

    /// Returns which of these confirmed reservations, given with namespace and pod, have pods that
    /// are on nodes already; ascending.
    pub fn arrived<'c>(
        &self,
        confirmed: impl Iterator<Item = (Serial, &'c str, &'c Claim)>,
    ) -> Vec<Serial> {
        let mut by_namespace: HashMap<&str, Vec<(Serial, &Claim)>> = HashMap::new();
        for (serial, namespace, claim) in confirmed {
            by_namespace
                .entry(namespace)
                .or_default()
                .push((serial, claim));
        }
        let mut arrived = Vec::new();
        for (namespace, claims) in by_namespace {
            if let Some(shard) = self.shard(namespace) {
                arrived.extend(shard.namespace.read().arrived(&claims));
            }
        }
        arrived.sort_unstable();
        arrived.dedup();
        arrived
    }

    /// A namespace, if it has objects. The lock of the map is released.
    pub(in crate::snapshot) fn shard(&self, namespace: &str) -> Option<Arc<Shard>> {
        self.namespaces
            .get(namespace)
            .map(|shard| Arc::clone(&shard))
    }

    /// The namespaces with objects, ascending by name.
    pub(in crate::snapshot) fn all_shards(&self) -> Shards {
        let all = self.namespaces.iter();
        let mut all: Shards = all
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// The namespaces that have views, in no order.
    pub(in crate::snapshot) fn viewed_shards(&self) -> Shards {
        let all = self.namespaces.iter();
        let viewed = all.filter(|entry| entry.viewed.load(Ordering::Relaxed));
        viewed
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect()
    }

    /// The names of the namespaces with objects, ascending.
    pub fn namespace_names(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.namespaces.iter().map(|e| e.key().clone()).collect();
        names.sort_unstable();
        names
    }

    /// Starts a new tick: drops views and partitions that were not used for
    /// `idle_ticks`, and more while views take too much room.
    pub fn sweep(&self, idle_ticks: u64) {
        let since = self.upkeep.next_tick().saturating_sub(idle_ticks);
        let is_short = self.upkeep.takes_want();
        for (_, shard) in self.viewed_shards() {
            let namespace = shard.namespace.read();
            let shared = self.shared.read();
            let mut views = write_between_reads(namespace.views());
            let version = self.upkeep.version();
            views.change(&self.upkeep, |views| {
                views.sync(version);
                views.drop_idle(since);
                if is_short {
                    views.evict_some();
                }
            });
            drop(shared);
        }
        let shared = self.shared.read();
        shared.nodes.drop_idle_partitions(since, &self.upkeep);
        drop(shared);
        self.upkeep.discarded.drop_all();
    }

    /// Returns the memory of the state.
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            partitions: self.upkeep.partition_bytes(),
            views: self.upkeep.view_bytes(),
            ..self.footprint.memory()
        }
    }
}

/// The memory of a namespace without its name and contents.
const EMPTY_SHARD_BYTES: usize = heap::shared(size_of::<Shard>())
    + Namespace::EMPTY_BYTES
    + heap::entry::<(Box<str>, Arc<Shard>)>();

// The estimate for one object assumes that its namespace is new.
const _: () = assert!(EMPTY_SHARD_BYTES <= NEW_NAMESPACE);

/// The memory of a namespace without its contents.
pub fn shard_bytes(name: &str) -> usize {
    heap::block(name.len()) + EMPTY_SHARD_BYTES
}

/// The most bytes that the snapshot around a state takes.
pub const SNAPSHOT_BYTES: usize = 1_024;

/// Returns the bytes of an empty state.
pub fn state_bytes() -> usize {
    // The map of namespaces has parts, four for each processor, each with a lock on cache lines of
    // its own.
    const MAP_PART: usize = 128;
    let map = (4 * processors()).next_power_of_two() * MAP_PART;
    // The epoch and the name of the snapshot, and its waiters.
    const NAMES: usize = 512;
    let snapshot = heap::shared(SNAPSHOT_BYTES) + NAMES;
    let shared = heap::shared(size_of::<PartitionedNodes>())
        + heap::shared(size_of::<Defaults>())
        + heap::shared(size_of::<Nominations>())
        + heap::shared(size_of::<ClusterObjects>())
        + heap::shared(size_of::<RequestedTable>())
        + 2 * heap::shared(size_of::<TermTable>())
        + heap::shared(size_of::<StorageUse>())
        + 2 * heap::shared(size_of::<PairIndex>());
    heap::shared(size_of::<State>()) + heap::block(map) + shared + snapshot
}
