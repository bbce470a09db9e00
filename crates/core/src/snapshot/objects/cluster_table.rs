//! Tables of objects of all namespaces that decisions look up by name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects of one kind, by name. Copies share the objects.
#[derive(Debug, Clone)]
pub struct ClusterTable<T> {
    all: BTreeMap<Box<str>, Arc<T>>,
}

impl<T> Default for ClusterTable<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
        }
    }
}

impl<T: PartialEq> ClusterTable<T> {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// An object by name.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.all.get(name)
    }

    /// All objects, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.all.iter().map(|(name, object)| (&**name, &**object))
    }

    /// Creates or updates an object. Returns the old one, and whether there is a difference.
    pub fn put(&mut self, name: &str, object: &Arc<T>) -> (Option<Arc<T>>, bool) {
        if self.get(name).is_some_and(|known| known == object) {
            return (None, false);
        }
        (self.all.insert(name.into(), Arc::clone(object)), true)
    }

    /// Removes an object, if `uid` is empty or its own. `uid_of` returns the uid of an object, which
    /// is empty when unknown.
    pub fn remove(&mut self, name: &str, uid: &str, uid_of: impl Fn(&T) -> &str) -> Option<Arc<T>> {
        let is_meant = |object: &Arc<T>| uid.is_empty() || uid_of(object) == uid;
        if !self.all.get(name).is_some_and(is_meant) {
            return None;
        }
        self.all.remove(name)
    }
}
