//! One state of a snapshot: shards by namespace, the nodes that they share,
//! and the locks that make every batch and every decision whole.
//!
//! Locks are taken in one order: shards ascending by name, then `shared`. A
//! batch holds all that it touches until it is applied, so a decision, which
//! holds one shard and `shared`, sees all of it or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::change::{Batch, Identity, Kind};
use super::defaults::Defaults;
use super::namespace::Namespace;
use super::nodes::Nodes;
use super::owners::Owner;
use super::undo::Undo;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// One state of a snapshot.
#[derive(Debug, Default)]
pub struct State {
    revision: AtomicI64,
    shared: RwLock<Shared>,
    namespaces: DashMap<Box<str>, Shard>,
    pods: AtomicUsize,
    label_sets: AtomicUsize,
    owners: AtomicUsize,
}

type Shard = Arc<RwLock<Namespace>>;

/// What all namespaces share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) nodes: Nodes,
    pub(super) defaults: Arc<Defaults>,
}

/// What a decision reads: one revision of one namespace.
#[derive(Clone, Copy)]
pub struct Cut<'a> {
    /// The revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: &'a Nodes,
    /// The default constraints.
    pub defaults: &'a Defaults,
    /// The namespace; an empty one if the snapshot has none of the name.
    pub namespace: &'a Namespace,
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

impl Applied {
    pub(super) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.unchanged += other.unchanged;
    }

    fn note(&mut self, changed: bool) {
        if changed {
            self.changed += 1;
        } else {
            self.unchanged += 1;
        }
    }
}

impl State {
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
        Sizes {
            nodes: self.shared.read().nodes.len(),
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
            let shard = shard.as_ref().map(|s| s.read());
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

    /// Applies a batch and moves on to `revision`. Callers take turns.
    pub fn apply(&self, batch: &Batch, defaults: Option<Arc<Defaults>>, revision: i64) -> Applied {
        let shards = self.shards_of(batch);
        let mut locked: Vec<_> = shards
            .iter()
            .map(|(name, s)| (&**name, s.write()))
            .collect();
        let before = Sizes::of(&locked);

        let mut applied = Applied::default();
        let shared = self.prepare_shared(batch, defaults, revision, &mut applied);
        for object in batch.objects() {
            let id = Identity::of(object);
            if let Ok(at) = locked.binary_search_by_key(&id.namespace, |(name, _)| name) {
                applied.note(apply_to_namespace(
                    object,
                    id,
                    &mut locked[at].1,
                    &shared.nodes,
                ));
            } else if id.kind != Kind::Node {
                // A delete in a namespace that does not exist.
                applied.note(false);
            }
        }

        self.recount_sizes(before, Sizes::of(&locked));
        for (name, mut namespace) in locked {
            if namespace.is_empty() {
                namespace.retired = true;
                self.namespaces.remove(name);
            }
        }
        drop(shared);
        applied
    }

    /// Changes nodes and defaults, gives slots out to nodes that pods name,
    /// and moves on to `revision`: from then on, whoever reads a namespace
    /// that the batch does not touch reads what it is after the batch.
    fn prepare_shared(
        &self,
        batch: &Batch,
        defaults: Option<Arc<Defaults>>,
        revision: i64,
        applied: &mut Applied,
    ) -> RwLockReadGuard<'_, Shared> {
        if defaults.is_none() {
            let shared = self.shared.read();
            if !shared.is_changed_by(batch) {
                self.revision.store(revision, Ordering::Release);
                return shared;
            }
        }
        let mut shared = self.shared.write();
        if let Some(defaults) = defaults {
            shared.defaults = defaults;
        }
        shared.apply(batch, applied);
        self.revision.store(revision, Ordering::Release);
        RwLockWriteGuard::downgrade(shared)
    }

    /// The shards that a batch touches, ascending by name; those that it adds
    /// to are created.
    fn shards_of(&self, batch: &Batch) -> Vec<(Box<str>, Shard)> {
        let ids = batch
            .objects()
            .iter()
            .map(|object| (Identity::of(object), object));
        let mut names: Vec<(&str, bool)> = ids
            .filter(|(id, _)| id.kind != Kind::Node)
            .map(|(id, object)| (id.namespace, !matches!(object, Object::Delete(_))))
            .collect();
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

    /// Runs a decision on one revision of a namespace.
    pub fn read<T>(&self, namespace: &str, decide: impl FnOnce(Cut<'_>) -> T) -> T {
        loop {
            let shard = self
                .namespaces
                .get(namespace)
                .map(|shard| Arc::clone(&shard));
            let none = Namespace::default();
            let locked = shard.as_ref().map(|shard| shard.read());
            let shared = self.shared.read();
            let current = match &locked {
                Some(namespace) => !namespace.retired,
                // It may have been created before `shared` was locked.
                None => !self.namespaces.contains_key(namespace),
            };
            if current {
                let namespace = locked.as_deref().unwrap_or(&none);
                return decide(self.cut(&shared, namespace));
            }
        }
    }

    /// Runs a decision as if a batch had been applied, and takes it back.
    pub fn read_overlaid<T>(
        &self,
        namespace: &str,
        overlay: Batch,
        decide: impl FnOnce(Cut<'_>) -> T,
    ) -> T {
        let overlay = overlay.within(namespace);
        loop {
            // An empty shard made for this stays out of the map, unless a
            // batch makes it real meanwhile; then this looks again.
            let known = self
                .namespaces
                .get(namespace)
                .map(|shard| Arc::clone(&shard));
            let shard = known.clone().unwrap_or_default();
            let mut locked = shard.write();
            let mut shared = self.shared.write();
            let current = match known {
                Some(_) => !locked.retired,
                None => !self.namespaces.contains_key(namespace),
            };
            if current {
                let undo = Undo::apply(&overlay, namespace, &mut locked, &mut shared);
                return decide(self.cut(undo.shared(), undo.namespace()));
            }
        }
    }

    fn cut<'a>(&self, shared: &'a Shared, namespace: &'a Namespace) -> Cut<'a> {
        Cut {
            revision: self.revision(),
            nodes: &shared.nodes,
            defaults: &shared.defaults,
            namespace,
        }
    }

    /// A copy of everything, of one revision.
    pub fn freeze(&self) -> Frozen {
        // Holding `shared` keeps batches from finishing; those that wait for
        // it hold their shards unchanged.
        let mut names: Vec<Box<str>> = self.namespaces.iter().map(|e| e.key().clone()).collect();
        names.sort_unstable();
        let shards: Vec<(Box<str>, Shard)> = names
            .into_iter()
            .filter_map(|name| {
                self.namespaces
                    .get(&name)
                    .map(|s| Arc::clone(&s))
                    .map(|s| (name, s))
            })
            .collect();
        let locked: Vec<(&str, RwLockReadGuard<'_, Namespace>)> = shards
            .iter()
            .map(|(name, shard)| (&**name, shard.read()))
            .collect();
        let shared = self.shared.read();
        Frozen {
            revision: self.revision(),
            nodes: shared.nodes.clone(),
            defaults: Arc::clone(&shared.defaults),
            namespaces: locked
                .iter()
                .map(|(name, n)| ((*name).into(), (**n).clone()))
                .collect(),
        }
    }

    /// What the state takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let shards: Vec<Shard> = self
            .namespaces
            .iter()
            .map(|e| Arc::clone(e.value()))
            .collect();
        let shards: usize = shards.iter().map(|shard| shard.read().memory_bytes()).sum();
        shards + self.shared.read().nodes.memory_bytes()
    }
}

/// A copy of a state, for writing it out at leisure.
#[derive(Debug)]
pub struct Frozen {
    /// Its revision.
    pub revision: i64,
    /// The nodes.
    pub nodes: Nodes,
    /// The default constraints.
    pub defaults: Arc<Defaults>,
    /// The namespaces, ascending by name.
    pub namespaces: Vec<(Box<str>, Namespace)>,
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

impl Shared {
    /// Whether a batch changes nodes, or has pods that name unknown ones.
    fn is_changed_by(&self, batch: &Batch) -> bool {
        batch.objects().iter().any(|object| match object {
            Object::Pod(pod) => {
                let node_name = pod.spec.as_ref().map_or("", |s| &s.node_name);
                !node_name.is_empty() && self.nodes.slot(node_name).is_none()
            }
            _ => Identity::of(object).kind == Kind::Node,
        })
    }

    /// Changes nodes and gives slots out to nodes that pods name.
    pub(super) fn apply(&mut self, batch: &Batch, applied: &mut Applied) {
        for object in batch.objects() {
            match object {
                Object::Node(node) => applied.note(self.nodes.put(node)),
                Object::Delete(reference) if Identity::of(object).kind == Kind::Node => {
                    applied.note(self.nodes.remove(&reference.name, &reference.uid));
                }
                _ => {}
            }
        }
        self.nodes.settle();
        for object in batch.objects() {
            if let Object::Pod(v1::Pod {
                spec: Some(spec), ..
            }) = object
                && !spec.node_name.is_empty()
            {
                self.nodes.reserve(&spec.node_name);
            }
        }
    }
}

/// Applies one change of a pod or an owner; whether it made a difference.
pub(super) fn apply_to_namespace(
    object: &Object,
    id: Identity<'_>,
    namespace: &mut Namespace,
    nodes: &Nodes,
) -> bool {
    let metadata = |metadata: &Option<v1::ObjectMeta>| metadata.clone().unwrap_or_default();
    let owner = match (object, id.kind) {
        (Object::Pod(pod), _) => return namespace.put_pod(pod, nodes),
        (Object::Delete(reference), Kind::Pod) => {
            return namespace.remove_pod(id.name, &reference.uid, nodes);
        }
        (Object::Delete(reference), Kind::Owner(kind)) => {
            return namespace.remove_owner(kind, id.name, &reference.uid);
        }
        (Object::Service(service), _) => {
            let labels = service.spec.as_ref().map(|s| &s.selector);
            Owner::of_labels(&metadata(&service.metadata), labels)
        }
        (Object::ReplicationController(controller), _) => {
            let labels = controller.spec.as_ref().map(|s| &s.selector);
            Owner::of_labels(&metadata(&controller.metadata), labels)
        }
        (Object::ReplicaSet(set), _) => {
            let selector = set.spec.as_ref().and_then(|s| s.selector.as_ref());
            Owner::of_selector(&metadata(&set.metadata), selector)
        }
        (Object::StatefulSet(set), _) => {
            let selector = set.spec.as_ref().and_then(|s| s.selector.as_ref());
            Owner::of_selector(&metadata(&set.metadata), selector)
        }
        (Object::Node(_) | Object::Delete(_), _) => return false,
    };
    match id.kind {
        Kind::Owner(kind) => namespace.put_owner(kind, id.name, owner),
        Kind::Node | Kind::Pod => false,
    }
}
