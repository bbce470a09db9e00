//! Tables of objects of all namespaces that decisions look up by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::account::heap;

/// An object of a table.
pub trait Tabled: PartialEq {
    /// Its uid; empty when unknown.
    fn uid(&self) -> &str;
    /// Returns what it has on the heap, in bytes.
    fn heap_bytes(&self) -> usize;
}

/// Objects of one kind, by name. Copies share the objects.
#[derive(Debug, Clone)]
pub struct ClusterTable<T> {
    all: BTreeMap<Box<str>, Arc<T>>,
    /// What the objects have on the heap, with their names.
    heap_bytes: usize,
}

impl<T> Default for ClusterTable<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            heap_bytes: 0,
        }
    }
}

impl<T: Tabled> ClusterTable<T> {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// One of them; `None` where it is not there.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.all.get(name)
    }

    /// All of them, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.all.iter().map(|(name, object)| (&**name, &**object))
    }

    /// Returns whether it has one just so.
    pub fn has_same(&self, name: &str, object: &T) -> bool {
        self.get(name).is_some_and(|held| **held == *object)
    }

    /// Creates or updates one. Returns the old one, and whether there is a difference.
    pub fn put(&mut self, name: &str, object: &Arc<T>) -> (Option<Arc<T>>, bool) {
        if self.has_same(name, object) {
            return (None, false);
        }
        self.heap_bytes += bytes(name, &**object);
        let old = self.all.insert(name.into(), Arc::clone(object));
        self.heap_bytes -= old.as_ref().map_or(0, |old| bytes(name, &**old));
        (old, true)
    }

    /// Removes one, if `uid` is empty or its own.
    pub fn remove(&mut self, name: &str, uid: &str) -> Option<Arc<T>> {
        let is_meant = |object: &Arc<T>| uid.is_empty() || object.uid() == uid;
        if !self.all.get(name).is_some_and(is_meant) {
            return None;
        }
        let old = self.all.remove(name)?;
        self.heap_bytes -= bytes(name, &*old);
        Some(old)
    }

    /// As [`Self::memory_bytes`], with every one measured anew.
    pub fn measured_bytes(&self) -> usize {
        let all = self.iter().map(|(name, object)| bytes(name, object));
        self.memory_bytes() - self.heap_bytes + all.sum::<usize>()
    }

    /// Returns what they take in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes + heap::tree::<Box<str>, Arc<T>>(self.all.len())
    }
}

fn bytes<T: Tabled>(name: &str, object: &T) -> usize {
    heap::block(name.len()) + heap::shared(size_of::<T>()) + object.heap_bytes()
}
