//! Objects that the snapshot refuses. They are tried again when they change.

use std::hash::RandomState;

use hashbrown::HashMap;

use super::pending::{ObjectKey, key_of};
use crate::proto::v1::change::Object;
use crate::snapshot::ObjectKind;

/// What is left out, each with the hash of what was refused.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    objects: HashMap<ObjectKey, u64>,
    hashes: RandomState,
}

impl LeftOut {
    /// What the hashes are made with.
    pub(super) fn hashes(&self) -> RandomState {
        self.hashes.clone()
    }

    /// An object with this hash was refused.
    pub(super) fn insert(&mut self, key: ObjectKey, hash: u64) {
        self.objects.insert(key, hash);
    }

    /// Whether an object with this hash was refused. If it changed since, it is no
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
