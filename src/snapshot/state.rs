//! One state of a snapshot: shards by namespace, the nodes that they share,
//! and the locks that make every batch and every decision whole.
//!
//! Locks are taken in one order: shards ascending by name, then
//! `shared`. A batch holds all that it touches until it is applied, so a decision, which
//! holds one shard and `shared`, sees all of it or nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::RwLock;

use super::change::{Batch, Identity, Kind};
use super::defaults::Defaults;
use super::namespace::Namespace;
use super::nodes::Nodes;
use super::reservations::{Claim, Serial};
use super::upkeep::Upkeep;
use super::views::Views;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// One state of a snapshot.
#[derive(Debug)]
pub struct State {
    pub(super) revision: AtomicI64,
    pub(super) shared: RwLock<Shared>,
    pub(super) namespaces: DashMap<Box<str>, Arc<Shard>>,
    pub(super) upkeep: Upkeep,
    pub(super) pods: AtomicUsize,
    pub(super) label_sets: AtomicUsize,
    pub(super) owners: AtomicUsize,
}

/// A namespace and its lock.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) namespace: RwLock<Namespace>,
    /// Whether it may have views: those follow changes of nodes.
    pub(super) viewed: AtomicBool,
}

/// What all namespaces share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Shared with forks of this state.
    pub(super) nodes: Arc<Nodes>,
    pub(super) defaults: Arc<Defaults>,
}

/// How much a batch did, or how much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Applied {
    /// Changes that made a difference.
    pub changed: usize,
    /// Changes that said what was known.
    pub unchanged: usize,
}

/// How many objects of each kind a state holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes that exist.
    pub nodes: usize,
    /// Pods, counted or not.
    pub pods: usize,
    /// Distinct (namespace, labels) of pods.
    pub label_sets: usize,
    /// Services and controllers.
    pub owners: usize,
}

/// What a state takes in memory, by part: an estimate, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Nodes with their labels and taints.
    pub nodes: usize,
    /// Topologies and partitions.
    pub partitions: usize,
    /// Pods and their names.
    pub pods: usize,
    /// Label sets and their counts by node.
    pub label_sets: usize,
    /// What stored pods ask for.
    pub templates: usize,
    /// Services and controllers.
    pub owners: usize,
    /// Views.
    pub views: usize,
}

impl Memory {
    /// All parts by name.
    pub fn parts(&self) -> [(&'static str, usize); 7] {
        [
            ("nodes", self.nodes),
            ("partitions", self.partitions),
            ("pods", self.pods),
            ("label_sets", self.label_sets),
            ("templates", self.templates),
            ("owners", self.owners),
            ("views", self.views),
        ]
    }

    /// The sum of all parts.
    pub fn total(&self) -> usize {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Adds another's parts.
    pub fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.partitions += other.partitions;
        self.pods += other.pods;
        self.label_sets += other.label_sets;
        self.templates += other.templates;
        self.owners += other.owners;
        self.views += other.views;
    }
}

impl Applied {
    pub(super) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
    }

    pub(super) fn note(&mut self, changed: bool) {
        if changed {
            self.changed += 1;
        } else {
            self.unchanged += 1;
        }
    }
}

impl State {
    /// An empty state whose views may take so many bytes.
    pub fn new(max_view_bytes: usize) -> Self {
        Self {
            revision: AtomicI64::new(0),
            shared: RwLock::default(),
            namespaces: DashMap::new(),
            upkeep: Upkeep::new(max_view_bytes),
            pods: AtomicUsize::new(0),
            label_sets: AtomicUsize::new(0),
            owners: AtomicUsize::new(0),
        }
    }

    /// The revision of the last batch applied.
    pub fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Gives a state that nobody reads yet its place in a history.
    pub fn adopt(&mut self, revision: i64, defaults: Arc<Defaults>) {
        *self.revision.get_mut() = revision;
        self.shared.get_mut().defaults = defaults;
    }

    /// The default constraints.
    pub fn defaults(&self) -> Arc<Defaults> {
        Arc::clone(&self.shared.read().defaults)
    }

    /// How many objects it holds.
    pub fn sizes(&self) -> Sizes {
        self.sizes_with(&self.shared.read())
    }

    pub(super) fn sizes_with(&self, shared: &Shared) -> Sizes {
        Sizes {
            nodes: shared.nodes.len(),
            pods: self.pods.load(Ordering::Relaxed),
            label_sets: self.label_sets.load(Ordering::Relaxed),
            owners: self.owners.load(Ordering::Relaxed),
        }
    }

    /// How many objects a batch adds, at most: its additions come before its
    /// deletions.
    pub fn additions(&self, batch: &Batch) -> Sizes {
        let mut new = Sizes::default();
        let mut label_sets = std::collections::HashSet::new();
        for object in batch.objects() {
            let id = Identity::of(object);
            if matches!(object, Object::Delete(_)) {
                continue;
            }
            let shard = self.namespaces.get(id.namespace).map(|s| Arc::clone(&s));
            let shard = shard.as_ref().map(|s| s.namespace.read());
            match id.kind {
                Kind::Node => {
                    let known = self.shared.read().nodes.find(id.name).is_some();
                    new.nodes += usize::from(!known);
                }
                Kind::Owner(kind) => {
                    let known = shard.is_some_and(|s| s.owners().contains(kind, id.name));
                    new.owners += usize::from(!known);
                }
                Kind::Pod => {
                    let known = shard.as_ref().is_some_and(|s| s.has_pod(id.name));
                    new.pods += usize::from(!known);
                    if let Object::Pod(v1::Pod {
                        metadata: Some(metadata),
                        ..
                    }) = object
                    {
                        let labels = &metadata.labels;
                        let known = shard.is_some_and(|s| s.label_sets().find(labels).is_some());
                        let fresh = !known && label_sets.insert((id.namespace, labels));
                        new.label_sets += usize::from(fresh);
                    }
                }
            }
        }
        new
    }

    /// Of these confirmed reservations, given with namespace and pod, those
    /// whose pods are on nodes already; ascending.
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
            let shard = self.namespaces.get(namespace).map(|s| Arc::clone(&s));
            if let Some(shard) = shard {
                arrived.extend(shard.namespace.read().arrived(&claims));
            }
        }
        arrived.sort_unstable();
        arrived.dedup();
        arrived
    }

    /// The namespaces that hold something, ascending by name.
    pub fn namespace_names(&self) -> Vec<Box<str>> {
        let mut names: Vec<_> = self.namespaces.iter().map(|e| e.key().clone()).collect();
        names.sort_unstable();
        names
    }

    /// Starts a new tick: drops views and lenses that were not used for
    /// `idle_ticks`, and more while views take too much room.
    pub fn sweep(&self, idle_ticks: u64) {
        let since = self.upkeep.next_tick().saturating_sub(idle_ticks);
        let is_short = self.upkeep.takes_want();
        let viewed = self
            .namespaces
            .iter()
            .filter(|entry| entry.viewed.load(Ordering::Relaxed))
            .map(|entry| Arc::clone(entry.value()));
        for shard in viewed.collect::<Vec<_>>() {
            let namespace = shard.namespace.read();
            let shared = self.shared.read();
            let mut views = namespace.views().write();
            let version = self.upkeep.version();
            self.upkeep.account(&mut views, |views| {
                views.sync(version);
                views.retain(|view| view.last_used() >= since);
            });
            if is_short {
                self.upkeep.account(&mut views, Views::evict_some);
            }
            drop(shared);
        }
        self.shared.read().nodes.drop_idle_lenses(since);
    }

    /// How many namespaces there are.
    pub fn namespace_count(&self) -> usize {
        self.namespaces.len()
    }

    /// How many views there are.
    pub fn view_count(&self) -> usize {
        self.upkeep.view_count()
    }

    /// What the state takes in memory.
    pub fn memory(&self) -> Memory {
        let shards: Vec<Arc<Shard>> = self
            .namespaces
            .iter()
            .map(|e| Arc::clone(e.value()))
            .collect();
        let mut memory = Memory {
            views: self.upkeep.view_bytes(),
            ..Memory::default()
        };
        for shard in shards {
            shard.namespace.read().add_memory(&mut memory);
        }
        let shared = self.shared.read();
        memory.nodes = shared.nodes.memory_bytes();
        memory.partitions = shared.nodes.lenses().memory_bytes();
        memory
    }
}
