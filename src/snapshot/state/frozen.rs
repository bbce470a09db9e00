//! Copies of a state, of one revision: for writing it out, and for holding
//! what is kept up to date against it.

use std::sync::Arc;

use super::footprint::Measured;
use super::namespace::Namespace;
use super::shards::{Shared, Sizes, State};
use crate::account::{Charge, Part};
use crate::snapshot::counts::partitions::Lens;
use crate::snapshot::counts::views::Watch;
use crate::snapshot::history::named::Turn;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::nodes::Nodes;

/// A copy shares what it is of until that changes: so much of it is taken to be
/// its own.
pub(in crate::snapshot) const COPY_SHARE: usize = 8;

/// A copy of a state, without what it keeps up to date.
#[derive(Debug)]
pub struct Frozen {
    /// Its revision.
    pub revision: i64,
    /// How much it said to hold.
    pub sizes: Sizes,
    /// The nodes.
    pub nodes: Arc<Nodes>,
    /// The default constraints.
    pub defaults: Arc<Defaults>,
    /// The namespaces, ascending by name.
    pub namespaces: Vec<(Box<str>, Namespace)>,
    /// What the copy takes, on the account of the process.
    pub(in crate::snapshot) _charge: Charge,
}

/// A copy of what a state keeps up to date, of the same revision.
#[derive(Debug)]
pub struct Kept {
    /// The partitions in use.
    pub lenses: Vec<Lens>,
    /// The live views by namespace, in the order of [`Frozen::namespaces`].
    pub views: Vec<Vec<Watch>>,
    /// What is kept of the memory that they and the objects take: by
    /// namespace, and in all.
    pub memory: Vec<Measured>,
}

impl State {
    /// A copy of everything but views. Readers go on meanwhile.
    pub(in crate::snapshot) fn freeze(&self, turn: &Turn) -> Frozen {
        self.copy(turn, |_| (), |_| ()).0
    }

    /// As [`Self::freeze`], with what is kept up to date.
    pub(in crate::snapshot) fn freeze_kept(&self, turn: &Turn) -> (Frozen, Kept) {
        let lenses = |shared: &Shared| {
            let lenses = shared.nodes.lenses().copy();
            (lenses, self.measure_shared(shared))
        };
        let views = |namespace: &Namespace| {
            let _still = self.shared.read();
            (self.live_views(namespace), Measured::of(namespace))
        };
        let (frozen, (lenses, mut total), views) = self.copy(turn, lenses, views);
        let (views, mut memory): (Vec<_>, Vec<_>) = views.into_iter().unzip();
        for (measured, (name, _)) in memory.iter_mut().zip(&frozen.namespaces) {
            measured.namespace.clone_from(name);
            total += measured;
        }
        memory.push(total);
        let kept = Kept {
            lenses,
            views,
            memory,
        };
        (frozen, kept)
    }

    /// As [`Self::freeze_kept`], of one namespace: what a decision in it reads.
    pub fn freeze_kept_of(&self, name: &str) -> (Frozen, Kept) {
        self.locked(name, |locked| {
            let (shared, namespace) = (locked.shared, locked.namespace);
            let frozen = Frozen {
                revision: locked.revision,
                sizes: self.sizes(),
                nodes: Arc::clone(&shared.nodes),
                defaults: Arc::clone(&shared.defaults),
                namespaces: vec![(name.into(), namespace.clone())],
                _charge: self.charge_copy(namespace.memory().total()),
            };
            let kept = Kept {
                lenses: shared.nodes.lenses().copy(),
                views: vec![self.live_views(namespace)],
                memory: vec![Measured {
                    namespace: name.into(),
                    ..Measured::of(namespace)
                }],
            };
            (frozen, kept)
        })
    }

    /// What a copy takes of a state that takes so many bytes.
    fn charge_copy(&self, bytes: usize) -> Charge {
        let mut charge = self.footprint.account().open(Part::Staged);
        charge.set(bytes / COPY_SHARE);
        charge
    }

    /// The views that the next question may be answered from.
    fn live_views(&self, namespace: &Namespace) -> Vec<Watch> {
        let views = namespace.views().read();
        let live = views.version() == self.upkeep.version();
        if live { views.copy() } else { Vec::new() }
    }

    /// Copies nodes and namespaces, and what is wanted beside each: of one
    /// moment, because nothing can change while this runs. Who has the turn
    /// keeps batches out, so one of the other locks at a time is enough.
    fn copy<L, V>(
        &self,
        _no_batch: &Turn,
        lenses: impl FnOnce(&Shared) -> L,
        views: impl Fn(&Namespace) -> V,
    ) -> (Frozen, L, Vec<V>) {
        let shared = self.shared.read();
        let (nodes, defaults) = (Arc::clone(&shared.nodes), Arc::clone(&shared.defaults));
        let sizes = self.sizes();
        let lenses = lenses(&shared);
        drop(shared);
        let shards = self.namespaces.iter();
        let mut shards: Vec<_> = shards
            .map(|entry| (entry.key().clone(), Arc::clone(entry.value())))
            .collect();
        shards.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut namespaces, mut all_views) = (Vec::new(), Vec::new());
        for (name, shard) in shards {
            let namespace = shard.namespace.read();
            all_views.push(views(&namespace));
            namespaces.push((name, namespace.clone()));
        }
        let frozen = Frozen {
            revision: self.revision(),
            sizes,
            nodes,
            defaults,
            namespaces,
            _charge: self.charge_copy(self.footprint.memory().total()),
        };
        (frozen, lenses, all_views)
    }
}
