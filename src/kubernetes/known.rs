//! What the snapshot holds of one kind, as far as a feed has to know it: names,
//! to find what a list lacks, and a hash of each object, to send only what is
//! new. That is some 90 bytes for each object, and no second copy of the cluster.
//! And the objects that the snapshot refuses.

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

/// How an object differs from what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// It was not there.
    New,
    /// It was otherwise.
    Changed,
    /// It was the same.
    None,
}

impl SentObjects {
    /// Nothing of `kind` yet. Hashes are those of `hashes`.
    pub(super) fn new(kind: ObjectKind, hashes: RandomState) -> Self {
        Self {
            kind,
            objects: HashMap::new(),
            list: 0,
            hashes,
            encoded: Vec::new(),
        }
    }

    /// A list begins: what it does not name is gone.
    pub(super) fn list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// The list is complete: forgets what it did not name, and answers that.
    pub(super) fn unlisted(&mut self) -> Vec<ObjectReference> {
        let (kind, list) = (self.kind, self.list);
        let gone = self.objects.extract_if(|_, sent| sent.list != list);
        // The list names all that there are, so whatever has the name is gone.
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

    /// Notes an object that is about to be sent, if it differs. Answers its hash
    /// too.
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

/// Objects that the snapshot refuses, each with the hash of what was refused. They are
/// tried again when they change.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    objects: HashMap<ObjectKey, u64>,
    /// What the hashes are made with.
    pub(super) hashes: RandomState,
}

impl LeftOut {
    /// An object with this hash was refused.
    pub(super) fn insert(&mut self, key: ObjectKey, hash: u64) {
        self.objects.insert(key, hash);
    }

    /// Returns whether an object with this hash was refused. If it changed since, it is no
    /// longer left out.
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

    /// An object is gone.
    pub(super) fn forget(&mut self, kind: ObjectKind, namespace: &str, name: &str) {
        if !self.objects.is_empty() {
            self.objects.remove(&(kind, namespace.into(), name.into()));
        }
    }
}
