//! Objects of a snapshot that all namespaces share, besides nodes: namespaces and storage.

use std::collections::BTreeMap;

use super::change::{Batch, Form, ValidChange};
use super::cluster_table::ClusterTable;
use super::compiled::LabelledNamespace;
use super::kind::ObjectKind;
use super::storage_objects::StorageObjects;
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};

/// Objects that all namespaces share.
#[derive(Debug, Clone, Default)]
pub struct ClusterObjects {
    /// The Namespace objects. Pods need none.
    namespaces: ClusterTable<LabelledNamespace>,
    /// Claims, persistent volumes and storage classes.
    pub storage: StorageObjects,
}

impl ClusterObjects {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.namespaces.len() + self.storage.count()
    }

    /// Returns whether there are Namespace objects.
    pub fn has_namespaces(&self) -> bool {
        self.namespaces.len() > 0
    }

    /// The labels of a namespace; `None` where it has no object.
    pub fn labels_of(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.namespaces.get(namespace).map(|it| &it.labels)
    }

    /// All Namespace objects with their labels, ascending by name.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        self.namespaces.iter().map(|(name, it)| (name, &it.labels))
    }

    /// Returns whether it has the object of a change.
    pub fn contains(&self, change: &ValidChange<'_>) -> bool {
        match change.id.kind {
            ObjectKind::Storage(_) => self.storage.contains(change),
            _ => self.namespaces.get(change.id.name).is_some(),
        }
    }

    /// Applies a batch, and tells `note` for each change of one of these objects whether it made a
    /// difference.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn apply<'b>(
        &mut self,
        batch: &'b Batch,
        deadline: &Deadline<'_>,
        mut note: impl FnMut(ValidChange<'b>, bool),
    ) -> Result<(), Stopped> {
        for change in batch.changes() {
            deadline.step(change.entries())?;
            let name = change.id.name;
            let changed = match (change.id.kind, change.form) {
                (ObjectKind::Storage(kind), _) => self.storage.apply(&change, kind),
                (_, Form::Namespace(it)) => self.namespaces.put(name, it).1,
                (ObjectKind::Namespace, Form::Delete(uid)) => {
                    let removed = self.namespaces.remove(name, uid, |it| &it.uid);
                    removed.is_some()
                }
                _ => continue,
            };
            note(change, changed);
        }
        Ok(())
    }

    /// All objects for the wire: namespaces, ascending by name, then storage.
    pub fn to_wire(&self) -> impl Iterator<Item = Object> {
        let namespaces = self.namespaces.iter().map(|(name, it)| {
            Object::Namespace(v1::Namespace {
                metadata: Some(v1::ObjectMeta {
                    name: name.to_owned(),
                    uid: it.uid.to_string(),
                    labels: it.labels.clone(),
                    ..v1::ObjectMeta::default()
                }),
            })
        });
        namespaces.chain(self.storage.to_wire())
    }
}
