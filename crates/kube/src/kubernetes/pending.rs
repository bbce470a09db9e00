//! Changes that wait to be sent as one batch.

use std::time::SystemTime;

use hashbrown::HashMap;

use evenkeel_core::proto::v1::change::Object;
use evenkeel_core::proto::v1::{Change, ObjectReference};
use evenkeel_core::snapshot::{ObjectId, ObjectKind};

/// Kind, namespace and name of an object.
pub(super) type ObjectKey = (ObjectKind, Box<str>, Box<str>);

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

/// The pending changes, at most one for each object. A later change replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    pub(super) changes: Vec<Change>,
    places: HashMap<ObjectKey, usize>,
    /// An upper bound of the bytes of the changes.
    pub(super) bytes: usize,
    /// The creation times of objects that a watch reported as new.
    pub(super) created: Vec<(ObjectKind, SystemTime)>,
}

impl PendingChanges {
    /// Creates or changes an object.
    pub(super) fn put(&mut self, object: Object) {
        self.bytes += object.encoded_len();
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

    /// Deletes an object. If the batch has an earlier change of this name, the uid is left out,
    /// because the snapshot may have an older object with this name and another uid.
    pub(super) fn delete(&mut self, mut reference: ObjectReference) {
        let object = Object::Delete(reference.clone());
        if self.places.contains_key(&key_of(&object)) {
            reference.uid.clear();
        }
        self.put(Object::Delete(reference));
    }
}
