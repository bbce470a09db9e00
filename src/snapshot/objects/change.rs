//! Batches of changes: checked and compiled once, then applied without fail.

use std::sync::Arc;

use hashbrown::HashSet;

use super::compiled::Compiled;
use super::kind::{ObjectKind, OwnerKind, metadata_of};
use super::node::CompiledNode;
use super::owners::Owner;
use super::parts::Parts;
use super::pod::CompiledPod;
use super::reservation::is_reservation;
use super::size;
use crate::limits::Limits;
use crate::matching::{Path, Violations, names};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// Valid changes, at most one per object.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// As they came: this is what a journal keeps.
    objects: Vec<Object>,
    /// The same changes, compiled.
    compiled: Vec<Compiled>,
    /// What they take in memory where they are kept, at most.
    bytes: usize,
    /// How many things pods request of which most request none.
    requests: usize,
}

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId<'a> {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// Its namespace; empty for nodes.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// A valid change.
#[derive(Clone, Copy)]
pub struct ValidChange<'a> {
    /// What it is about.
    pub id: ObjectId<'a>,
    /// What happens to it.
    pub form: Form<'a>,
    /// The change as it came.
    pub object: &'a Object,
}

/// What happens to an object.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// A node, with what is compiled of it.
    Node(&'a v1::Node, &'a CompiledNode),
    /// A pod, with what is compiled of it.
    Pod(&'a v1::Pod, &'a CompiledPod),
    /// A service or controller.
    Owner(OwnerKind, &'a Arc<Owner>),
    /// It is deleted if it has this uid, or if that is empty.
    Delete(&'a str),
}

impl Batch {
    /// Checks the changes of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of every change.
    pub fn check(
        changes: Vec<v1::Change>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let mut compiled = Vec::with_capacity(changes.len());
        for (i, change) in changes.iter().enumerate() {
            match &change.object {
                Some(object) => {
                    let path = path.index(i);
                    compiled.extend(Compiled::check(object, limits, path, &mut faults));
                }
                None => faults.add(path.index(i), "must hold an object or a delete"),
            }
        }
        // Only valid changes have an identity to compare.
        if !faults.is_empty() {
            return faults.finish(Self::default());
        }
        let objects = changes.into_iter().filter_map(|change| change.object);
        let batch = Self::of(objects.collect(), compiled);
        batch.check_unique(path, &mut faults);
        faults.finish(batch)
    }

    fn check_unique(&self, path: Path<'_>, faults: &mut Violations) {
        let mut seen = HashSet::with_capacity(self.len());
        for (i, change) in self.changes().enumerate() {
            let id = change.id;
            if !seen.insert(id) {
                let slash = if id.namespace.is_empty() { "" } else { "/" };
                let what = format!("{} {}{slash}{}", id.kind.as_str(), id.namespace, id.name);
                faults.add(
                    path.index(i),
                    format!("{what} is in the batch more than once"),
                );
            }
        }
    }

    /// Changes of the snapshot's own making, which need no check.
    pub(in crate::snapshot) fn trusted(objects: impl IntoIterator<Item = Object>) -> Self {
        let objects: Vec<Object> = objects.into_iter().collect();
        let compiled = objects.iter().map(Compiled::trusted).collect();
        Self::of(objects, compiled)
    }

    fn of(objects: Vec<Object>, compiled: Vec<Compiled>) -> Self {
        Self {
            bytes: objects.iter().map(size::most).sum(),
            requests: compiled.iter().map(Compiled::rare_requests).sum(),
            objects,
            compiled,
        }
    }

    /// The batch with more changes of the snapshot's own making.
    pub(in crate::snapshot) fn and(&self, objects: Vec<Object>) -> Self {
        let more = Self::trusted(objects);
        let mut batch = self.clone();
        batch.objects.extend(more.objects);
        batch.compiled.extend(more.compiled);
        batch.bytes += more.bytes;
        batch.requests += more.requests;
        batch
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The changes as they came.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The changes.
    pub fn changes(&self) -> impl Iterator<Item = ValidChange<'_>> {
        let pairs = self.objects.iter().zip(&self.compiled);
        pairs.map(|(object, compiled)| ValidChange::of(object, compiled))
    }

    /// How many resources and ports pods request of which most request none.
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// What they take in memory where they are kept, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<'a> ValidChange<'a> {
    fn of(object: &'a Object, compiled: &'a Compiled) -> Self {
        let form = match (object, compiled) {
            (Object::Node(node), Compiled::Node(compiled)) => Form::Node(node, compiled),
            (Object::Pod(pod), Compiled::Pod(compiled)) => Form::Pod(pod, compiled),
            (Object::Delete(reference), _) => Form::Delete(&reference.uid),
            (_, Compiled::Owner(kind, owner)) => Form::Owner(*kind, owner),
            _ => unreachable!("a change is compiled as what it is"),
        };
        Self {
            id: ObjectId::of_kind(compiled.kind(), object),
            form,
            object,
        }
    }
}

impl<'a> ObjectId<'a> {
    /// Of an object of a kind that is known.
    pub fn of_kind(kind: ObjectKind, object: &'a Object) -> Self {
        let (namespace, name) = match object {
            Object::Delete(reference) => (&*reference.namespace, &*reference.name),
            // A checked object has metadata, and a file may hold others.
            _ => metadata_of(object).map_or(("", ""), |it| (&*it.namespace, &*it.name)),
        };
        Self {
            kind,
            namespace: match kind {
                ObjectKind::Node => "",
                ObjectKind::Pod | ObjectKind::Owner(_) => names::namespace_or_default(namespace),
            },
            name,
        }
    }

    /// Names an object with this uid as a client does; `None` for what counts
    /// for a reservation, which no client names.
    pub fn reference(self, uid: &str) -> Option<v1::ObjectReference> {
        (!is_reservation(self.name)).then(|| v1::ObjectReference {
            kind: self.kind.as_str().to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: uid.to_owned(),
        })
    }

    /// Of an object, or of a delete of a known kind.
    pub fn of(object: &'a Object) -> Self {
        let kind = Parts::of(object).kind();
        Self::of_kind(kind.expect("a checked delete has a known kind"), object)
    }
}
