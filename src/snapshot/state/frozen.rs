//! Copies of a state at one revision, for exports and for verification, and states that are built again from the
//! objects of a copy.

use std::iter;
use std::sync::Arc;

use super::namespace::Namespace;
use super::read_view::ReadView;
use super::shards::{SharedObjects, Sizes, State};
use crate::account::{Charge, Part};
use crate::matching::Requested;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::counts::partition_in_use::PartitionInUse;
use crate::snapshot::counts::watched::SelectorViews;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::cluster_objects::ClusterObjects;
use crate::snapshot::objects::defaults::Defaults;
use crate::snapshot::objects::nodes::Nodes;
use crate::snapshot::objects::nominated::Nominations;
use crate::snapshot::objects::pod_terms::TermTable;
use crate::snapshot::objects::requested::RequestedTable;
use crate::snapshot::objects::reservation::is_reservation;
use crate::snapshot::objects::slots::Slot;
use crate::snapshot::objects::storage_use::StorageUse;

/// A copy shares everything with the state until the state changes. It is charged for one byte of
/// the state in this many.
pub(in crate::snapshot) const COPY_SHARE: usize = 8;

/// The number of objects in each of [`Frozen::batches`].
const BATCH_OBJECTS: usize = 1_000;

/// A copy of a state, without its counts.
#[derive(Debug)]
pub struct Frozen {
    /// The state's revision.
    pub revision: i64,
    /// The state's sizes.
    pub sizes: Sizes,
    shared: SharedObjects,
    requested: Arc<RequestedTable>,
    /// The namespaces, ascending by name.
    pub namespaces: Vec<(Box<str>, Namespace)>,
    /// The memory of the copy, on the account of the process.
    charge: Charge,
}

/// A state that was built again from the objects of a copy.
#[derive(Debug)]
pub struct Rebuilt {
    /// A copy of the state.
    pub frozen: Frozen,
    state: State,
}

/// A copy of the counts of a state, of the same revision.
#[derive(Debug)]
pub struct Kept {
    /// The partitions in use.
    pub partitions: Vec<PartitionInUse>,
    /// The live views by namespace, in the order of [`Frozen::namespaces`].
    pub views: Vec<Vec<SelectorViews>>,
}

impl Frozen {
    /// The default constraints.
    pub fn defaults(&self) -> &Arc<Defaults> {
        &self.shared.defaults
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        self.shared.nodes.nodes()
    }

    /// Returns the requests of the pods of all namespaces on a node, whether or not it exists.
    pub fn requested(&self, slot: Slot) -> &Requested {
        self.requested
            .get(slot)
            .unwrap_or_else(|| Requested::nothing())
    }

    /// The terms by which the pods of all namespaces keep other pods away.
    pub fn anti_affinity(&self) -> &TermTable {
        self.requested.anti_affinity()
    }

    /// The terms by which kube-scheduler scores nodes for other pods.
    pub fn scored_terms(&self) -> &TermTable {
        self.requested.scored_terms()
    }

    /// Namespaces, claims, persistent volumes and storage classes.
    pub fn cluster_objects(&self) -> &ClusterObjects {
        &self.shared.cluster
    }

    /// Returns the storage that the pods of all namespaces use.
    pub fn storage_use(&self) -> &StorageUse {
        self.requested.storage_use()
    }

    /// The nominated pods of all namespaces.
    pub fn nominations(&self) -> &Nominations {
        &self.shared.nominations
    }

    /// Returns the requests of the pods of all namespaces, by the name of the node: of each node that
    /// exists, and of others with pods.
    pub fn requested_by_node(&self) -> impl Iterator<Item = (&str, &Requested)> {
        let slots = (0..self.nodes().slot_count()).map(Slot::at);
        let named = slots.map(|slot| (self.nodes().name(slot), self.requested(slot)));
        named.filter(|(name, pods)| self.nodes().find(name).is_some() || pods.pods() > 0)
    }

    /// A state with the same objects and reservations, which are applied to an empty one. `None` as
    /// soon as `is_cancelled` returns true.
    pub fn rebuilt(&self, is_cancelled: &dyn Fn() -> bool) -> Option<Rebuilt> {
        let state = State::on(self.charge.account(), Part::Staged, usize::MAX);
        for batch in in_batches(self.objects()) {
            if is_cancelled() {
                return None;
            }
            state.apply_unread(&batch, self.revision);
        }
        let frozen = state.freeze(&Alone);
        Some(Rebuilt { frozen, state })
    }

    /// All objects of clients: nodes in node order, the other objects of all namespaces, then each
    /// namespace's owners and pods, ascending by name. Reservations belong to this server, not to
    /// the reader of an export.
    pub fn changes(&self) -> impl Iterator<Item = v1::Change> + '_ {
        self.objects_of_clients().map(|object| v1::Change {
            object: Some(object),
        })
    }

    fn objects_of_clients(&self) -> impl Iterator<Item = Object> + '_ {
        let is_held = |object: &Object| match object {
            Object::Pod(pod) => pod
                .metadata
                .as_ref()
                .is_some_and(|it| is_reservation(&it.name)),
            _ => false,
        };
        self.objects().filter(move |object| !is_held(object))
    }

    fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        let all = self.nodes();
        let nodes = all.order().iter().filter_map(|slot| all.get(*slot));
        let nodes = nodes.map(|node| Object::Node(node.to_wire()));
        let namespaces = self.namespaces.iter().flat_map(|(name, namespace)| {
            let names = namespace.pod_names();
            let pods = names.filter_map(|pod| namespace.pod_to_wire(name, pod, self.nodes()));
            namespace
                .owners()
                .to_wire(name)
                .chain(pods.map(Object::Pod))
        });
        nodes.chain(self.shared.cluster.to_wire()).chain(namespaces)
    }

    /// The same objects as batches.
    pub fn batches(&self) -> impl Iterator<Item = Batch> + '_ {
        in_batches(self.objects_of_clients())
    }
}

impl Rebuilt {
    /// Reads a namespace of the state until a deadline.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read<T>(
        &self,
        namespace: &str,
        deadline: &Deadline<'_>,
        read: impl FnOnce(ReadView<'_>) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        read(self.state.fork(namespace, false).read_view(deadline))
    }
}

fn in_batches(mut objects: impl Iterator<Item = Object>) -> impl Iterator<Item = Batch> {
    iter::from_fn(move || {
        let batch = Batch::trusted(objects.by_ref().take(BATCH_OBJECTS));
        (!batch.is_empty()).then_some(batch)
    })
}

/// Proof that no batch is applied as long as this exists.
pub trait NoBatch {}

/// Nobody else has the state.
struct Alone;

impl NoBatch for Alone {}

impl State {
    /// A copy of everything except views. Readers continue meanwhile. The turn keeps batches out,
    /// so one of the other locks at a time is enough.
    pub(in crate::snapshot) fn freeze(&self, _no_batch: &impl NoBatch) -> Frozen {
        let shared = self.shared.read().clone();
        let shards = self.all_shards().into_iter();
        let namespaces = shards.map(|(name, shard)| (name, shard.namespace.read().clone()));
        let namespaces = namespaces.collect();
        let (revision, requested) = self.revision_and_requested();
        Frozen {
            revision,
            sizes: self.sizes(),
            shared,
            requested,
            namespaces,
            charge: self.charge_copy(self.footprint.bytes()),
        }
    }

    /// The same as [`Self::freeze`], with the kept counts.
    pub(in crate::snapshot) fn freeze_kept(&self, no_batch: &impl NoBatch) -> (Frozen, Kept) {
        let frozen = self.freeze(no_batch);
        let partitions = self.shared.read().nodes.partitions().copy();
        let mut views = Vec::new();
        for (_, shard) in self.all_shards() {
            let namespace = shard.namespace.read();
            let _still = self.shared.read();
            views.push(self.live_views(&namespace));
        }
        (frozen, Kept { partitions, views })
    }

    /// As [`Self::freeze_kept`], of one namespace: the data that a decision in it reads.
    pub fn freeze_kept_of(&self, name: &str) -> (Frozen, Kept) {
        self.locked(name, |locked| {
            let (shared, namespace) = (locked.shared, locked.namespace);
            let frozen = Frozen {
                revision: locked.revision,
                sizes: self.sizes(),
                shared: shared.clone(),
                requested: locked.requested.unwrap_or_default(),
                namespaces: vec![(name.into(), namespace.clone())],
                charge: self.charge_copy(namespace.memory().total()),
            };
            let kept = Kept {
                partitions: shared.nodes.partitions().copy(),
                views: vec![self.live_views(namespace)],
            };
            (frozen, kept)
        })
    }

    /// Charges the memory of a copy of a state of this many bytes.
    fn charge_copy(&self, bytes: usize) -> Charge {
        let charge = self.footprint.account().open(Part::Staged);
        charge.set(bytes / COPY_SHARE);
        charge
    }

    /// The views that the next question may be answered from.
    fn live_views(&self, namespace: &Namespace) -> Vec<SelectorViews> {
        let views = namespace.views().read();
        match views.version == self.upkeep.version() {
            true => views.watched.copy(),
            false => Vec::new(),
        }
    }
}
