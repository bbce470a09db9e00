//! Batches of changes: checked and compiled once, then applied without fail.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashSet;

use super::compiled::{Compiled, LabelledNamespace, StorageObject};
use super::kind::{ObjectKind, OwnerKind, metadata_of};
use super::nodes::CompiledNode;
use super::owners::Owner;
use super::pod::{CompiledPod, PodCompiler};
use super::reservation::is_reservation;
use crate::limits::Limits;
use crate::matching::{Path, VersionRules, Violations, names};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// Valid changes, at most one per object.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    changes: Vec<CheckedChange>,
    /// True if there are changes of nodes.
    pub(in crate::snapshot) has_nodes: bool,
    /// True if there are changes of objects that all namespaces share, besides nodes.
    pub(in crate::snapshot) has_cluster_objects: bool,
    /// True if there are pods that are nominated to nodes.
    pub(in crate::snapshot) nominates: bool,
    /// True if the requests of some pods depend on the version.
    differs_by_version: bool,
    /// The number of changes of unknown kinds, which were skipped.
    pub(in crate::snapshot) skipped: usize,
}

/// A change that was checked.
#[derive(Debug, Clone)]
enum CheckedChange {
    Pod(CompiledPod),
    /// Any other object, with its compiled form.
    Other(Box<(Object, Compiled)>),
}

/// The object of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId<'a> {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The object's namespace; empty for objects outside of namespaces.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

/// A valid change.
#[derive(Clone, Copy)]
pub struct ValidChange<'a> {
    /// The object.
    pub id: ObjectId<'a>,
    /// The change of the object.
    pub form: Form<'a>,
    change: &'a CheckedChange,
}

/// The change of an object.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// A node, with its compiled form.
    Node(&'a v1::Node, &'a CompiledNode),
    /// A pod.
    Pod(&'a CompiledPod),
    /// A service or controller.
    Owner(OwnerKind, &'a Arc<Owner>),
    /// A namespace.
    Namespace(&'a Arc<LabelledNamespace>),
    /// A claim, a persistent volume or a storage class.
    Storage(&'a StorageObject),
    /// The object is deleted if it has this uid, or if the uid is empty.
    Delete(&'a str),
}

impl Batch {
    /// The bytes that most changes fit in when they are encoded.
    pub const USUAL_BYTES: usize = 256;

    /// Checks and compiles the changes of a request, whose field is at `path`.
    ///
    /// # Errors
    /// Every fault of every change.
    pub fn check(
        changes: impl IntoIterator<Item = v1::Change>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        Self::compile(changes, false, limits, path)
    }

    /// As [`Self::check`], for the changes of a feed: those of unknown kinds, e.g. of a newer client,
    /// are skipped and counted. So are empty ones, because a decoder drops what it does not know.
    ///
    /// # Errors
    /// Every fault of every change.
    pub fn read(
        changes: impl IntoIterator<Item = v1::Change>,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        Self::compile(changes, true, limits, path)
    }

    fn compile(
        changes: impl IntoIterator<Item = v1::Change>,
        skips_unknown: bool,
        limits: &Limits,
        path: Path<'_>,
    ) -> Result<Self, Violations> {
        let mut faults = Violations::default();
        let mut pods = PodCompiler::new(limits);
        let mut batch = Self::default();
        let changes = changes.into_iter();
        batch.changes.reserve(changes.size_hint().1.unwrap_or(0));
        for (index, change) in changes.enumerate() {
            let path = path.index(index);
            let object = change.object;
            if skips_unknown && object.as_ref().is_none_or(is_unknown) {
                batch.skipped += 1;
                continue;
            }
            match object {
                Some(Object::Pod(pod)) => {
                    let pod = pods.compile(pod, path.field("pod"), &mut faults);
                    pod.into_iter()
                        .for_each(|pod| batch.add(CheckedChange::Pod(pod)));
                }
                Some(object) => {
                    let compiled = Compiled::check(&object, limits, path, &mut faults);
                    if let Some(compiled) = compiled {
                        batch.add(CheckedChange::Other(Box::new((object, compiled))));
                    }
                }
                None => faults.add(path, "must hold an object or a delete"),
            }
        }
        // Only valid changes have an identity to compare.
        if !faults.is_empty() {
            return faults.finish(Self::default());
        }
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
        Self::default().and(objects)
    }

    /// The batch with more changes of the snapshot's own making.
    pub(in crate::snapshot) fn and(mut self, objects: impl IntoIterator<Item = Object>) -> Self {
        let objects = objects.into_iter();
        self.changes.reserve(objects.size_hint().0);
        for object in objects {
            self.add(match object {
                Object::Pod(pod) => CheckedChange::Pod(CompiledPod::trusted(pod)),
                object => {
                    let compiled = Compiled::trusted(&object);
                    CheckedChange::Other(Box::new((object, compiled)))
                }
            });
        }
        self
    }

    fn add(&mut self, change: CheckedChange) {
        match &change {
            CheckedChange::Pod(pod) => {
                self.nominates |= pod.nominated_to().is_some();
                self.differs_by_version |= pod.differs_by_version();
            }
            CheckedChange::Other(other) => {
                let kind = other.1.kind();
                self.has_nodes |= kind == ObjectKind::Node;
                self.has_cluster_objects |=
                    kind != ObjectKind::Node && !kind.is_kept_with_namespace();
            }
        }
        self.changes.push(change);
    }

    /// The batch with the requests of pods by these rules. The rules were unknown when the pods
    /// were checked, because they follow from the version of the snapshot.
    pub fn under(&self, rules: &VersionRules) -> Cow<'_, Self> {
        if !self.differs_by_version {
            return Cow::Borrowed(self);
        }
        let mut chosen = Self {
            skipped: self.skipped,
            ..Self::default()
        };
        chosen.changes.reserve(self.len());
        for change in &self.changes {
            chosen.add(match change {
                CheckedChange::Pod(pod) => CheckedChange::Pod(pod.under(rules.resizing)),
                CheckedChange::Other(_) => change.clone(),
            });
        }
        Cow::Owned(chosen)
    }

    /// As [`Self::under`], shared where nothing differs.
    pub fn of_version(batch: &Arc<Self>, rules: &VersionRules) -> Arc<Self> {
        match batch.under(rules) {
            Cow::Borrowed(_) => Arc::clone(batch),
            Cow::Owned(chosen) => Arc::new(chosen),
        }
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes.
    pub fn changes(&self) -> impl Iterator<Item = ValidChange<'_>> {
        self.changes.iter().map(ValidChange::of)
    }
}

/// Returns whether an object is the delete of a kind that is not known here, e.g. of a newer client.
/// What is no kind, or a known kind in other letters or in the plural, is a fault.
fn is_unknown(object: &Object) -> bool {
    let Object::Delete(reference) = object else {
        return false;
    };
    let kind = &*reference.kind;
    let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    let single = kind.strip_suffix('s').unwrap_or(kind);
    let is_known = |known: ObjectKind| {
        let known = known.as_str();
        known.eq_ignore_ascii_case(kind) || known.eq_ignore_ascii_case(single)
    };
    is_kind && !ObjectKind::all().any(is_known)
}

impl<'a> ValidChange<'a> {
    fn of(change: &'a CheckedChange) -> Self {
        let (id, form) = match change {
            CheckedChange::Pod(pod) => {
                let id = ObjectId {
                    kind: ObjectKind::Pod,
                    namespace: pod.namespace(),
                    name: pod.name(),
                };
                (id, Form::Pod(pod))
            }
            CheckedChange::Other(other) => {
                let (object, compiled) = &**other;
                let form = match (object, compiled) {
                    (Object::Node(node), Compiled::Node(compiled)) => Form::Node(node, compiled),
                    (Object::Delete(reference), _) => Form::Delete(&reference.uid),
                    (_, Compiled::Owner(kind, owner)) => Form::Owner(*kind, owner),
                    (_, Compiled::Namespace(namespace)) => Form::Namespace(namespace),
                    (_, Compiled::Storage(storage)) => Form::Storage(storage),
                    _ => unreachable!("a change is compiled as what it is"),
                };
                (ObjectId::of_kind(compiled.kind(), object), form)
            }
        };
        Self { id, form, change }
    }

    /// The number of the labels of the object, and the object itself: how long the change takes.
    pub fn entries(&self) -> usize {
        let labels = match self.form {
            Form::Pod(pod) => pod.labels().len(),
            Form::Node(node, _) => node.metadata.as_ref().map_or(0, |it| it.labels.len()),
            _ => 0,
        };
        1 + labels
    }

    /// The object for the wire. A pod has the parts that are stored.
    pub fn to_wire(&self) -> v1::Change {
        let object = match self.change {
            CheckedChange::Pod(pod) => Object::Pod(pod.to_wire()),
            CheckedChange::Other(other) => other.0.clone(),
        };
        v1::Change {
            object: Some(object),
        }
    }
}

impl<'a> ObjectId<'a> {
    /// The id of an object of a known kind.
    pub fn of_kind(kind: ObjectKind, object: &'a Object) -> Self {
        let (namespace, name) = match object {
            Object::Delete(reference) => (&*reference.namespace, &*reference.name),
            // A checked object has metadata, but one from a file may have none.
            _ => metadata_of(object).map_or(("", ""), |it| (&*it.namespace, &*it.name)),
        };
        Self {
            kind,
            namespace: match kind.is_namespaced() {
                true => names::namespace_or_default(namespace),
                false => "",
            },
            name,
        }
    }

    /// A client's reference to the object with this uid; `None` for the pod of a reservation, which
    /// no client names.
    pub fn reference(self, uid: &str) -> Option<v1::ObjectReference> {
        (!is_reservation(self.name)).then(|| v1::ObjectReference {
            kind: self.kind.as_str().to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: uid.to_owned(),
        })
    }

    /// The id of an object, or of a delete of a known kind.
    pub fn of(object: &'a Object) -> Self {
        let kind = ObjectKind::of(object);
        Self::of_kind(kind.expect("a checked delete has a known kind"), object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str) -> Result<(usize, usize), String> {
        let delete = v1::Change {
            object: Some(Object::Delete(v1::ObjectReference {
                kind: kind.to_owned(),
                name: "a".to_owned(),
                ..v1::ObjectReference::default()
            })),
        };
        let changes = vec![delete, v1::Change::default()];
        let batch = Batch::read(changes, &Limits::default(), Path::root("changes"));
        let batch = batch.map_err(|faults| faults.to_string())?;
        Ok((batch.len(), batch.skipped))
    }

    #[test]
    fn only_changes_of_unknown_kinds_are_skipped() {
        for kind in ObjectKind::all() {
            assert_eq!(read(kind.as_str()), Ok((1, 1)), "{kind:?}");
        }
        assert_eq!(read("Gadget"), Ok((0, 2)));
        for misspelt in ["Pods", "storageClass", "Storageclass", "", "a b"] {
            assert!(read(misspelt).is_err(), "{misspelt}");
        }
    }
}
