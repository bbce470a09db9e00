//! A namespace as an object.

use std::collections::BTreeMap;

use crate::account::heap::on_heap;
use crate::proto::v1;

/// Uid and labels of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelledNamespace {
    pub(super) uid: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
}

on_heap!(LabelledNamespace: uid, labels);

impl LabelledNamespace {
    /// The uid and labels of an object.
    pub fn of(wire: &v1::Namespace) -> Self {
        let metadata = wire.metadata.as_ref();
        metadata.map_or_else(Self::default, |metadata| Self {
            uid: metadata.uid.as_str().into(),
            labels: metadata.labels.clone(),
        })
    }
}
