//! The objects of a state for exports and checkpoints, and a state that is built again from them.

use std::iter;
use std::sync::Arc;

use super::revision::State;
use crate::account::Purpose;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::counts::partition::PartitionInUse;
use crate::snapshot::deadline::{Deadline, Stopped};
use crate::snapshot::objects::change::Batch;
use crate::snapshot::objects::reservation::is_reservation;

/// The number of objects in a batch of many.
const BATCH_OBJECTS: usize = 1_000;

/// The encoded bytes after which a batch has no more objects.
const BATCH_BYTES: usize = 1 << 20;

impl State {
    /// The partitions in use.
    pub fn partitions(&self) -> Vec<PartitionInUse> {
        self.shared.nodes.partitions().all().collect()
    }

    /// A state with the same objects and reservations, which are applied to an empty one.
    ///
    /// # Errors
    /// Nobody waits for it any more, or [`Stopped::Full`]: nobody needs the second state as much as
    /// its memory.
    pub fn rebuilt(&self, deadline: &Deadline<'_>) -> Result<Self, Stopped> {
        let account = self.upkeep.account();
        let mut state = Self::empty(account, &Arc::default());
        for batch in in_batches(self.objects()) {
            deadline.look()?;
            let room = account.check(Purpose::Objects, 0);
            room.map_err(Stopped::Full)?;
            state.apply(&batch, self.revision);
        }
        Ok(state)
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

    fn objects(&self) -> impl Iterator<Item = Object> {
        let all = self.nodes();
        let nodes = all.order().iter().filter_map(|slot| all.get(*slot));
        let nodes = nodes.map(|node| Object::Node(node.to_wire()));
        let namespaces = self.namespaces();
        let namespaces = namespaces.flat_map(move |(name, namespace)| {
            let names = namespace.pod_names();
            let pods = names.filter_map(move |pod| namespace.pod_to_wire(name, pod, all));
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

fn in_batches(mut objects: impl Iterator<Item = Object>) -> impl Iterator<Item = Batch> {
    iter::from_fn(move || {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_OBJECTS
            && bytes < BATCH_BYTES
            && let Some(object) = objects.next()
        {
            bytes += object.encoded_len();
            batch.push(object);
        }
        (!batch.is_empty()).then(|| Batch::trusted(batch))
    })
}
