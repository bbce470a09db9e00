//! Changes that wait to be sent as one batch.

use std::time::SystemTime;

use hashbrown::HashMap;
use prost::Message;

use crate::proto::v1::change::Object;
use crate::proto::v1::{Change, ObjectReference};
use crate::snapshot::{ObjectId, ObjectKind};

/// Kind, namespace and name of an object.
pub(super) type ObjectKey = (ObjectKind, Box<str>, Box<str>);

/// Returns the key of an object.
pub(super) fn key_of(object: &Object) -> ObjectKey {
    let id = ObjectId::of(object);
    (id.kind, id.namespace.into(), id.name.into())
}

/// A reference to an object; an empty `uid` means any object of this name.
pub(super) fn reference(
    kind: ObjectKind,
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        kind: kind.as_str().to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

/// Changes that wait, one for each object: a later one replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    /// The changes.
    pub(super) changes: Vec<Change>,
    places: HashMap<ObjectKey, usize>,
    /// An upper bound of their bytes.
    pub(super) bytes: usize,
    /// The creation times of objects that the cluster has just created.
    pub(super) created: Vec<(ObjectKind, SystemTime)>,
}

impl PendingChanges {
    /// Creates or changes an object.
    pub(super) fn put(&mut self, object: Object) {
        self.bytes += crate::snapshot::with_message!(
            &object,
            message => message.encoded_len(),
            reference => reference.encoded_len()
        );
        let key = key_of(&object);
        let change = Change {
            object: Some(object),
        };
        match self.places.get(&key) {
            Some(place) => self.changes[*place] = change,
            None => {
                self.places.insert(key, self.changes.len());
                self.changes.push(change);
            }
        }
    }

    /// Deletes an object. If its name occurs earlier in the same batch, the uid is left out: the
    /// snapshot has not seen that object, and may have an older one of its name.
    pub(super) fn delete(&mut self, mut reference: ObjectReference) {
        let object = Object::Delete(reference.clone());
        if self.places.contains_key(&key_of(&object)) {
            reference.uid.clear();
        }
        self.put(Object::Delete(reference));
    }

    /// Adds the changes of `other`.
    pub(super) fn append(&mut self, other: Self) {
        let objects = other.changes.into_iter().filter_map(|it| it.object);
        objects.for_each(|object| self.put(object));
        self.created.extend(other.created);
    }
}
