//! A namespace as an object.

use std::collections::BTreeMap;

use crate::account::heap;
use crate::proto::v1;

/// Uid and labels of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelledNamespace {
    pub(super) uid: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
}

impl LabelledNamespace {
    /// Of an object.
    pub fn of(wire: &v1::Namespace) -> Self {
        let metadata = wire.metadata.as_ref();
        metadata.map_or_else(Self::default, |metadata| Self {
            uid: metadata.uid.as_str().into(),
            labels: metadata.labels.clone(),
        })
    }

    /// Returns what it has on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        heap::block(self.uid.len()) + heap::texts(&self.labels)
    }
}
