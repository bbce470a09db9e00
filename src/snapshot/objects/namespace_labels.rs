//! Namespaces as objects: their labels, by which terms of affinity between pods
//! select them. Pods need no such object.

use std::collections::BTreeMap;

use super::change::{Batch, Form, ValidChange};
use super::kind::ObjectKind;
use super::namespace_object::LabelledNamespace;
use crate::account::heap;
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The Namespace objects of a snapshot, by name.
#[derive(Debug, Clone, Default)]
pub struct NamespaceLabels {
    all: BTreeMap<Box<str>, LabelledNamespace>,
    /// What they have on the heap.
    heap_bytes: usize,
}

impl NamespaceLabels {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The labels of one; `None` where it is not there.
    pub fn get(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        self.all.get(name).map(|namespace| &namespace.labels)
    }

    /// All of them with their labels, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        let all = self.all.iter();
        all.map(|(name, namespace)| (&**name, &namespace.labels))
    }

    /// All of them as objects, ascending by name.
    pub fn to_wire(&self) -> impl Iterator<Item = Object> {
        self.all.iter().map(|(name, namespace)| {
            Object::Namespace(v1::Namespace {
                metadata: Some(v1::ObjectMeta {
                    name: name.to_string(),
                    uid: namespace.uid.to_string(),
                    labels: namespace.labels.clone(),
                    ..v1::ObjectMeta::default()
                }),
            })
        })
    }

    /// Whether it has one just so.
    pub fn has_same(&self, name: &str, namespace: &LabelledNamespace) -> bool {
        self.all.get(name) == Some(namespace)
    }

    /// Applies a batch, and notes of each change of a namespace whether it made a
    /// difference.
    pub fn apply<'b>(&mut self, batch: &'b Batch, mut note: impl FnMut(ValidChange<'b>, bool)) {
        for change in batch.changes() {
            let name = change.id.name;
            match change.form {
                Form::Namespace(namespace) => note(change, self.put(name, namespace)),
                Form::Delete(uid) if change.id.kind == ObjectKind::Namespace => {
                    note(change, self.remove(name, uid));
                }
                _ => {}
            }
        }
    }

    fn put(&mut self, name: &str, namespace: &LabelledNamespace) -> bool {
        if self.has_same(name, namespace) {
            return false;
        }
        self.heap_bytes += namespace.heap_bytes(name);
        if let Some(old) = self.all.insert(name.into(), namespace.clone()) {
            self.heap_bytes -= old.heap_bytes(name);
        }
        true
    }

    /// Removes one, if `uid` is empty or its own.
    fn remove(&mut self, name: &str, uid: &str) -> bool {
        let meant = |namespace: &LabelledNamespace| uid.is_empty() || *namespace.uid == *uid;
        if !self.all.get(name).is_some_and(meant) {
            return false;
        }
        let old = self.all.remove(name);
        self.heap_bytes -= old.map_or(0, |old| old.heap_bytes(name));
        true
    }

    /// As [`Self::memory_bytes`], with every one measured anew.
    pub fn measured_bytes(&self) -> usize {
        let all = self.all.iter();
        let all = all.map(|(name, namespace)| namespace.heap_bytes(name));
        self.memory_bytes() - self.heap_bytes + all.sum::<usize>()
    }

    /// What they take in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes + heap::tree::<Box<str>, LabelledNamespace>(self.all.len())
    }
}
