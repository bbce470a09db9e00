//! The objects of one kind that the snapshot has, as far as a feed needs to know: names, to find
//! the objects that a list lacks, and a hash of each object, to send only changes. That is some 90
//! bytes for each object, and no second copy of the cluster. Also the objects that the snapshot
//! refuses.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashMap;

use super::pending::{ObjectKey, key_of, reference};
use crate::proto::v1::ObjectReference;
use crate::proto::v1::change::Object;
use crate::snapshot::{ObjectKind, encode_object, metadata_of};

/// The objects of one kind that were sent.
#[derive(Debug)]
pub(super) struct SentObjects {
    kind: ObjectKind,
    /// By namespace and name.
    pub(super) objects: HashMap<Box<str>, Sent>,
    /// Number of the last list that began.
    list: u32,
    hashes: RandomState,
    /// Room to encode an object.
    encoded: Vec<u8>,
}

/// An object that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    hash: u64,
    /// The last list that named it, or in which it was new.
    list: u32,
}

/// The difference between an object and the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// The object was not there.
    New,
    /// The object was different.
    Changed,
    /// The object was the same.
    None,
}

impl SentObjects {
    /// An empty set of objects of `kind`, with hashes from `hashes`.
    pub(super) fn new(kind: ObjectKind, hashes: RandomState) -> Self {
        Self {
            kind,
            objects: HashMap::new(),
            list: 0,
            hashes,
            encoded: Vec::new(),
        }
    }

    /// Begins a list: objects that it does not name are gone.
    pub(super) fn list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Ends the list: forgets the objects that it did not name, and returns them.
    pub(super) fn unlisted(&mut self) -> Vec<ObjectReference> {
        let (kind, list) = (self.kind, self.list);
        let gone = self.objects.extract_if(|_, sent| sent.list != list);
        // The list names all objects, so any object of the name is gone.
        let named = gone.map(|(key, _)| {
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            reference(kind, namespace, name, "")
        });
        named.collect()
    }

    /// The hash of an object.
    pub(super) fn hash_of(&mut self, object: &Object) -> u64 {
        self.encoded.clear();
        encode_object(object, &mut self.encoded);
        self.hashes.hash_one(&self.encoded)
    }

    /// Records an object that is about to be sent, if it differs. Returns its hash, too.
    pub(super) fn note(&mut self, object: &Object) -> (Difference, u64) {
        let hash = self.hash_of(object);
        let sent = Sent {
            hash,
            list: self.list,
        };
        let metadata = metadata_of(object);
        let key = metadata.map(|it| key(&it.namespace, &it.name));
        let difference = match self.objects.insert(key.unwrap_or_default(), sent) {
            None => Difference::New,
            Some(before) if before.hash == hash => Difference::None,
            Some(_) => Difference::Changed,
        };
        (difference, hash)
    }

    /// Forgets an object. Returns whether it was known.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) -> bool {
        self.objects.remove(&*key(namespace, name)).is_some()
    }
}

fn key(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

/// Objects that the snapshot refuses, each with the hash of the refused version. They are tried
/// again when they change.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    objects: HashMap<ObjectKey, u64>,
    /// The state that the hashes are made with.
    pub(super) hashes: RandomState,
}

impl LeftOut {
    /// Records that an object with this hash was refused.
    pub(super) fn insert(&mut self, key: ObjectKey, hash: u64) {
        self.objects.insert(key, hash);
    }

    /// Returns whether an object with this hash was refused. If it changed since, it is not left
    /// out any more.
    pub(super) fn has(&mut self, object: &Object, hash: u64) -> bool {
        if self.objects.is_empty() {
            return false;
        }
        let key = key_of(object);
        let is_same = self.objects.get(&key) == Some(&hash);
        if !is_same {
            self.objects.remove(&key);
        }
        is_same
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        if !self.objects.is_empty() {
            self.objects.remove(&(kind, namespace.into(), name.into()));
        }
    }
}
