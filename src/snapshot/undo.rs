//! Changes that are taken back: what-if overlays.

use super::apply::apply_to_namespace;
use super::change::{Batch, Identity, Kind};
use super::namespace::Namespace;
use super::nodes::Followed;
use super::state::{Applied, Shared};
use super::upkeep::Upkeep;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// A batch applied to one namespace and the nodes; dropping it takes the
/// batch back.
pub(super) struct Undo<'a> {
    name: &'a str,
    namespace: &'a mut Namespace,
    shared: &'a mut Shared,
    upkeep: &'a Upkeep,
    inverse: Batch,
}

impl<'a> Undo<'a> {
    /// Applies a batch whose pods and owners are all of the namespace `name`.
    pub(super) fn apply(
        batch: &Batch,
        name: &'a str,
        namespace: &'a mut Namespace,
        shared: &'a mut Shared,
        upkeep: &'a Upkeep,
    ) -> Self {
        let before = |object| current(Identity::of(object), namespace, shared);
        let inverse = Batch::trusted(batch.objects().iter().map(before));
        let mut undo = Self {
            name,
            namespace,
            shared,
            upkeep,
            inverse,
        };
        undo.run(batch);
        undo
    }

    pub(super) fn namespace(&self) -> &Namespace {
        self.namespace
    }

    pub(super) fn shared(&self) -> &Shared {
        self.shared
    }

    fn run(&mut self, batch: &Batch) {
        // Nobody else reads meanwhile, and in the end the nodes are what they
        // were: views of other namespaces need not follow.
        match self.shared.apply(batch, &mut Applied::default()) {
            Followed::Moved(moves) => {
                self.namespace.follow(&moves, self.upkeep);
            }
            Followed::Dropped => {
                let version = self.upkeep.next_version();
                self.upkeep
                    .account(self.namespace.views_mut(), |views| views.sync(version));
            }
        }
        for object in batch.objects() {
            let id = Identity::of(object);
            if id.kind != Kind::Node {
                debug_assert_eq!(id.namespace, self.name);
                apply_to_namespace(object, id, self.namespace, &self.shared.nodes);
            }
        }
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let inverse = std::mem::take(&mut self.inverse);
        self.run(&inverse);
        // Slots that only the overlay named are free again. All others are
        // what they were: none was freed meanwhile.
        self.shared.nodes.free_unnamed();
    }
}

/// The change that brings an object back to what it is.
fn current(id: Identity<'_>, namespace: &Namespace, shared: &Shared) -> Object {
    let nodes = &shared.nodes;
    let existing = match id.kind {
        Kind::Node => {
            let node = nodes.find(id.name).and_then(|slot| nodes.get(slot));
            node.map(|node| Object::Node(node.to_wire()))
        }
        Kind::Pod => namespace
            .pod_to_wire(id.namespace, id.name, nodes)
            .map(Object::Pod),
        Kind::Owner(kind) => {
            let change = namespace.owners().get_wire(kind, id.namespace, id.name);
            change.and_then(|change| change.object)
        }
    };
    existing.unwrap_or_else(|| {
        Object::Delete(v1::ObjectReference {
            kind: id.kind.as_str().to_owned(),
            namespace: id.namespace.to_owned(),
            name: id.name.to_owned(),
            uid: String::new(),
        })
    })
}
