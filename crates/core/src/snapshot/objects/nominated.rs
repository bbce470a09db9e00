//! Nominated pods: pods for which room is reserved on a node. They are on no node yet, and count on
//! that node for pods of at most their priority.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::change::{Batch, Form, ObjectId, ValidChange};
use super::kind::ObjectKind;
use super::reservation::is_reservation;
use crate::matching::{PodTerm, Requests, UsedStorage};
use crate::snapshot::deadline::{Deadline, Stopped};

/// A pod that is nominated to a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NominatedPod {
    /// The pod's namespace.
    pub namespace: Box<str>,
    /// The pod's name.
    pub name: Box<str>,
    /// The pod's uid; empty when unknown.
    pub uid: Box<str>,
    /// The pod's priority.
    pub priority: i32,
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
    /// The pod's requests to the node, if it has any.
    pub requests: Option<Arc<Requests>>,
    /// The terms by which it keeps other pods away, if it has any.
    pub keeps_away: Option<Arc<[PodTerm]>>,
    /// The storage that it uses, if any.
    pub storage: Option<Arc<UsedStorage>>,
}

/// Namespace and name of a pod.
type PodKey = Arc<str>;

/// All nominated pods of a snapshot. There are few, usually none.
#[derive(Debug, Clone, Default)]
pub struct Nominations {
    /// The pods, each with the name of its node, which may not exist.
    pods: BTreeMap<PodKey, (Box<str>, Arc<NominatedPod>)>,
    /// The reservations of pods for which a client has decided, by the uids of these pods. Such a
    /// pod counts where the reservation is, and nowhere else.
    decided: HashMap<Box<str>, PodKey>,
}

impl NominatedPod {
    /// The nominated pod of a change, if it is one, and its node.
    fn of(change: ValidChange<'_>) -> Option<(Box<str>, Self)> {
        let Form::Pod(compiled) = change.form else {
            return None;
        };
        let node = compiled.nominated_to()?;
        let read = compiled.requirements().map(|it| it.read.clone());
        let read = read.unwrap_or_default();
        let pod = Self {
            namespace: change.id.namespace.into(),
            name: change.id.name.into(),
            uid: compiled.life.uid().into(),
            priority: read.priority,
            labels: compiled.labels().clone(),
            requests: read.requests,
            keeps_away: read.keeps_away,
            storage: read.storage,
        };
        Some((node.into(), pod))
    }

    /// Returns whether this is the pod of this namespace, name and uid. If one of two pods has no
    /// uid, they are told apart by their names.
    pub fn is(&self, namespace: &str, name: &str, uid: &str) -> bool {
        match self.uid.is_empty() || uid.is_empty() {
            true => *self.namespace == *namespace && *self.name == *name,
            false => *self.uid == *uid,
        }
    }
}

impl Nominations {
    /// Returns whether there are no nominated pods.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the number of entries to search and to copy.
    pub fn len(&self) -> usize {
        self.pods.len() + self.decided.len()
    }

    /// The pods that count, by the names of their nodes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NominatedPod)> {
        let all = self.pods.values().map(|(node, pod)| (&**node, &**pod));
        let counted = all.filter(|(_, pod)| !self.decided.contains_key(&*pod.uid));
        let mut counted: Vec<_> = counted.collect();
        counted.sort_by_key(|(node, _)| *node);
        counted.into_iter()
    }

    /// Returns whether a batch may change the nominations.
    pub fn is_changed_by(&self, batch: &Batch) -> bool {
        let is_changed = |change: ValidChange<'_>| match change.form {
            Form::Pod(pod) => {
                self.has(change.id) || is_reservation(change.id.name) && pod.life.uid_length() > 0
            }
            Form::Delete(uid) if change.id.kind == ObjectKind::Pod => {
                self.has(change.id) || is_reservation(change.id.name) && !uid.is_empty()
            }
            _ => false,
        };
        batch.nominates || batch.changes().any(is_changed)
    }

    fn has(&self, id: ObjectId<'_>) -> bool {
        !self.is_empty() && self.pods.contains_key(&key_of(id))
    }

    /// Applies a batch.
    ///
    /// # Errors
    /// The deadline has passed.
    pub fn apply(&mut self, batch: &Batch, deadline: &Deadline<'_>) -> Result<(), Stopped> {
        for change in batch.changes() {
            deadline.step(change.entries())?;
            match change.form {
                Form::Pod(pod) if is_reservation(change.id.name) => {
                    self.decide(change.id, &pod.life.uid());
                }
                Form::Delete(uid) if is_reservation(change.id.name) => self.undo(change.id, uid),
                Form::Pod(..) => {
                    self.remove(change.id, "");
                    if let Some((node, pod)) = NominatedPod::of(change) {
                        self.pods.insert(key_of(change.id), (node, Arc::new(pod)));
                    }
                }
                Form::Delete(uid) if change.id.kind == ObjectKind::Pod => {
                    self.remove(change.id, uid);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the pod of a reservation, if a client has decided for that pod.
    fn decide(&mut self, reservation: ObjectId<'_>, uid: &str) {
        if uid.is_empty() {
            return;
        }
        let key = key_of(reservation);
        self.decided.insert(uid.into(), key);
    }

    /// Forgets a reservation, unless another one was decided for its pod.
    fn undo(&mut self, reservation: ObjectId<'_>, uid: &str) {
        let key = key_of(reservation);
        if self.decided.get(uid) == Some(&key) {
            self.decided.remove(uid);
        }
    }

    /// Removes a pod, if `uid` is empty or its own.
    fn remove(&mut self, id: ObjectId<'_>, uid: &str) {
        if self.is_empty() {
            return;
        }
        let key = key_of(id);
        let is_meant = |pod: &NominatedPod| uid.is_empty() || *pod.uid == *uid;
        if self.pods.get(&key).is_some_and(|(_, pod)| is_meant(pod)) {
            self.pods.remove(&key);
        }
    }
}

/// The key of an object; namespaces contain no slash.
fn key_of(id: ObjectId<'_>) -> PodKey {
    format!("{}/{}", id.namespace, id.name).into()
}
