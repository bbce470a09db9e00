//! Nominated pods: those for which room is being made on a node. They are on no
//! node yet, and count there for pods of at most their priority.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::change::{Batch, Form, ObjectId, ValidChange};
use super::kind::ObjectKind;
use crate::account::heap;
use crate::matching::{PodTerm, Requests, UsedStorage};

/// A pod that is nominated to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NominatedPod {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid; empty when unknown.
    pub uid: Box<str>,
    /// Its priority.
    pub priority: i32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it requests of the node, if anything.
    pub requests: Option<Arc<Requests>>,
    /// The terms by which it keeps others away, if it has any.
    pub keeps_away: Option<Arc<[PodTerm]>>,
    /// The storage that it uses, if any.
    pub storage: Option<Arc<UsedStorage>>,
}

/// Namespace and name of a pod.
type PodKey = Arc<str>;

/// All nominated pods of a snapshot. There are few, as a rule none.
#[derive(Debug, Clone, Default)]
pub struct Nominations {
    /// By the name of the node, which may not exist, and by the key of the pod.
    pods: BTreeMap<(Arc<str>, PodKey), Arc<NominatedPod>>,
    /// The node of each pod.
    nodes: HashMap<PodKey, Arc<str>>,
    /// What the pods have on the heap.
    heap_bytes: usize,
}

impl NominatedPod {
    /// The nominated pod of a change, if it is one, and its node.
    fn of(change: ValidChange<'_>) -> Option<(Arc<str>, Self)> {
        let Form::Pod(compiled) = change.form else {
            return None;
        };
        let node = compiled.nominated_to()?;
        let labels = compiled.labels().texts();
        let pod = Self {
            namespace: change.id.namespace.into(),
            name: change.id.name.into(),
            uid: compiled.uid().into(),
            priority: compiled.asks().map_or(0, |asks| asks.priority),
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            requests: compiled.requests().cloned(),
            keeps_away: compiled.keeps_away().cloned(),
            storage: compiled.storage().cloned(),
        };
        Some((node.into(), pod))
    }

    /// Returns whether it is the pod of this namespace, name and uid. Where one of two
    /// pods has no uid, they are told apart by their names.
    pub fn is(&self, namespace: &str, name: &str, uid: &str) -> bool {
        match self.uid.is_empty() || uid.is_empty() {
            true => *self.namespace == *namespace && *self.name == *name,
            false => *self.uid == *uid,
        }
    }

    /// With its key, and without its node.
    fn heap_bytes(&self) -> usize {
        let texts = [&*self.namespace, &self.name, &self.uid];
        let requests = self.requests.as_ref();
        heap::shared(size_of::<Self>())
            + texts.map(|text| heap::block(text.len())).iter().sum::<usize>()
            + heap::shared(self.namespace.len() + 1 + self.name.len())
            + heap::texts(&self.labels)
            // Others may share it: it counts wherever it is.
            + requests.map_or(0, |r| heap::shared(size_of::<Requests>()) + r.heap_bytes())
            + self.keeps_away.as_ref().map_or(0, |terms| PodTerm::list_bytes(terms))
            + self.storage.as_ref().map_or(0, |it| it.heap_bytes())
    }
}

impl Nominations {
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns how many pods there are.
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// All of them, by the names of their nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NominatedPod)> {
        self.pods.iter().map(|((node, _), pod)| (&**node, &**pod))
    }

    /// Returns whether a batch may change it.
    pub fn is_changed_by(&self, batch: &Batch) -> bool {
        let is_there = |change: ValidChange<'_>| match change.form {
            Form::Pod(_) => self.has(change.id),
            Form::Delete(_) => change.id.kind == ObjectKind::Pod && self.has(change.id),
            Form::Node(..) | Form::Owner(..) | Form::Namespace(_) | Form::Storage(_) => false,
        };
        batch.nominates() || !self.is_empty() && batch.changes().any(is_there)
    }

    fn has(&self, id: ObjectId<'_>) -> bool {
        !self.is_empty() && self.nodes.contains_key(&key_of(id))
    }

    /// Applies a batch.
    pub fn apply(&mut self, batch: &Batch) {
        for change in batch.changes() {
            match change.form {
                Form::Pod(..) => {
                    self.remove(change.id, "");
                    if let Some((node, pod)) = NominatedPod::of(change) {
                        self.add(key_of(change.id), node, pod);
                    }
                }
                Form::Delete(uid) if change.id.kind == ObjectKind::Pod => {
                    self.remove(change.id, uid);
                }
                Form::Delete(_)
                | Form::Node(..)
                | Form::Owner(..)
                | Form::Namespace(_)
                | Form::Storage(_) => {}
            }
        }
    }

    fn add(&mut self, key: PodKey, node: Arc<str>, pod: NominatedPod) {
        self.heap_bytes += pod.heap_bytes() + heap::shared(node.len());
        self.nodes.insert(Arc::clone(&key), Arc::clone(&node));
        self.pods.insert((node, key), Arc::new(pod));
    }

    /// Removes a pod, if `uid` is empty or its own.
    fn remove(&mut self, id: ObjectId<'_>, uid: &str) {
        if self.is_empty() {
            return;
        }
        let key = key_of(id);
        let Some(node) = self.nodes.get(&key) else {
            return;
        };
        let place = (Arc::clone(node), key);
        let pod = &self.pods[&place];
        if uid.is_empty() || *pod.uid == *uid {
            self.heap_bytes -= pod.heap_bytes() + heap::shared(place.0.len());
            self.pods.remove(&place);
            self.nodes.remove(&place.1);
        }
    }

    /// As [`Self::memory_bytes`], with every pod measured anew.
    pub fn measured_bytes(&self) -> usize {
        let pods = self.iter();
        let pods = pods.map(|(node, pod)| pod.heap_bytes() + heap::shared(node.len()));
        self.memory_bytes() - self.heap_bytes + pods.sum::<usize>()
    }

    /// Returns what it takes in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes
            + heap::table::<PodKey, Arc<str>>(self.nodes.capacity())
            + heap::tree::<(Arc<str>, PodKey), Arc<NominatedPod>>(self.pods.len())
    }
}

/// A namespace has no slash.
fn key_of(id: ObjectId<'_>) -> PodKey {
    format!("{}/{}", id.namespace, id.name).into()
}
