//! What the snapshot holds of one kind, as far as a feed has to know it: names,
//! to find what a list lacks, and a hash of each object, to send only what is
//! new. That is some 90 bytes for each object, and no second copy of the cluster.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::proto::v1::change::Object;
use crate::proto::v1::{ObjectMeta, ObjectReference};
use crate::snapshot::{ObjectKind, encode_object, metadata_of};

/// The objects of one kind that were sent.
#[derive(Debug)]
pub(super) struct SentObjects {
    kind: ObjectKind,
    objects: HashMap<Box<str>, Sent>,
    /// Number of the last list that began.
    list: u32,
    hashes: RandomState,
    /// Room to encode an object.
    encoded: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// A list begins: what it does not name is gone.
    pub(super) fn list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// The list is complete: forgets what it did not name, and answers that.
    pub(super) fn unlisted(&mut self) -> Vec<ObjectReference> {
        let (kind, list) = (self.kind, self.list);
        let gone = self.objects.extract_if(|_, sent| sent.list != list);
        gone.map(|(key, _)| reference(kind, &key)).collect()
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
        let key = metadata_of(object).map(key_of).unwrap_or_default();
        let difference = match self.objects.entry(key) {
            Entry::Vacant(place) => {
                place.insert(sent);
                Difference::New
            }
            Entry::Occupied(mut place) => match place.insert(sent).hash == hash {
                true => Difference::None,
                false => Difference::Changed,
            },
        };
        (difference, hash)
    }

    /// Forgets an object. Returns whether it was known.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) -> bool {
        self.objects.remove(&*key(namespace, name)).is_some()
    }
}

fn key_of(metadata: &ObjectMeta) -> Box<str> {
    key(&metadata.namespace, &metadata.name)
}

fn key(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

/// A reference to whatever has this name: the list names all that there are.
fn reference(kind: ObjectKind, key: &str) -> ObjectReference {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    ObjectReference {
        kind: kind.as_str().to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
    }
}
