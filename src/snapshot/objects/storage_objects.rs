//! Claims, persistent volumes and storage classes of a snapshot.

use std::collections::BTreeSet;

use super::change::{Form, ValidChange};
use super::cluster_table::ClusterTable;
use super::compiled::StorageObject;
use super::kind::{ObjectKind, StorageKind};
use crate::account::heap;
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The storage of a cluster: classes, volumes and claims.
#[derive(Debug, Clone, Default)]
pub struct StorageObjects {
    /// The claims, by namespace and name.
    claims: ClusterTable<VolumeClaim>,
    volumes: ClusterTable<PersistentVolume>,
    classes: ClusterTable<StorageClass>,
    /// The keys and names of the volumes that claims could be bound to.
    candidates: BTreeSet<(Box<str>, Box<str>)>,
}

/// The key of a claim; namespaces contain no slash.
fn key_of(namespace: &str, claim: &str) -> String {
    format!("{namespace}/{claim}")
}

/// Returns the key of a volume that claims could be bound to: the key of the claim that it is
/// reserved for, or its class after a slash. No key of a claim begins with a slash.
fn found_by(volume: &PersistentVolume) -> Option<Box<str>> {
    let class = volume.class();
    match &volume.spec().claim_ref {
        Some(claim) => Some(key_of(&claim.namespace, &claim.name).into()),
        None => volume.is_available().then(|| format!("/{class}").into()),
    }
}

impl StorageObjects {
    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.claims.len() + self.volumes.len() + self.classes.len()
    }

    /// Returns whether claims can be judged: there are classes or volumes.
    pub fn is_known(&self) -> bool {
        self.volumes.len() + self.classes.len() > 0
    }

    /// A claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&VolumeClaim> {
        self.claims.get(&key_of(namespace, name))
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.volumes.get(name)
    }

    /// A class.
    pub fn class(&self, name: &str) -> Option<&StorageClass> {
        self.classes.get(name)
    }

    /// The volumes that are reserved for a claim, ascending by name.
    pub fn kept_for(
        &self,
        namespace: &str,
        claim: &str,
    ) -> impl Iterator<Item = (&str, &PersistentVolume)> {
        self.found(key_of(namespace, claim))
    }

    /// The volumes of a class that are available and reserved for no claim, ascending by name.
    pub fn available(&self, class: &str) -> impl Iterator<Item = (&str, &PersistentVolume)> {
        self.found(format!("/{class}"))
    }

    fn found(&self, by: String) -> impl Iterator<Item = (&str, &PersistentVolume)> {
        let from = (Box::from(&*by), Box::default());
        let found = self
            .candidates
            .range(from..)
            .take_while(move |(it, _)| **it == *by);
        found.filter_map(|(_, name)| Some((&**name, self.volume(name)?)))
    }

    /// Returns whether it has the object of a change.
    pub fn contains(&self, change: &ValidChange<'_>) -> bool {
        let id = change.id;
        match id.kind {
            ObjectKind::Storage(StorageKind::Claim) => self.claim(id.namespace, id.name).is_some(),
            ObjectKind::Storage(StorageKind::Volume) => self.volume(id.name).is_some(),
            _ => self.class(id.name).is_some(),
        }
    }

    /// Returns whether it has the object of a change in the same form.
    pub fn has_same(&self, change: &ValidChange<'_>, object: &StorageObject) -> bool {
        let id = change.id;
        match object {
            StorageObject::Claim(it) => self.claims.has_same(&key_of(id.namespace, id.name), it),
            StorageObject::Volume(it) => self.volumes.has_same(id.name, it),
            StorageObject::Class(it) => self.classes.has_same(id.name, it),
        }
    }

    /// Applies a change of an object about storage. Returns whether that made a difference.
    pub fn apply(&mut self, change: &ValidChange<'_>, kind: StorageKind) -> bool {
        let id = change.id;
        let key = || key_of(id.namespace, id.name);
        match (change.form, kind) {
            (Form::Storage(StorageObject::Claim(it)), _) => self.claims.put(&key(), it).1,
            (Form::Storage(StorageObject::Class(it)), _) => self.classes.put(id.name, it).1,
            (Form::Storage(StorageObject::Volume(it)), _) => {
                let (old, changed) = self.volumes.put(id.name, it);
                self.unlist(id.name, old.as_deref());
                if let Some(by) = found_by(it) {
                    self.candidates.insert((by, id.name.into()));
                }
                changed
            }
            (Form::Delete(uid), StorageKind::Claim) => {
                let old = self.claims.remove(&key(), uid, |it| &it.metadata().uid);
                old.is_some()
            }
            (Form::Delete(uid), StorageKind::Class) => {
                let old = self.classes.remove(id.name, uid, |it| {
                    it.wire.metadata.as_ref().map_or("", |it| &it.uid)
                });
                old.is_some()
            }
            (Form::Delete(uid), StorageKind::Volume) => {
                let old = self.volumes.remove(id.name, uid, |it| &it.metadata().uid);
                self.unlist(id.name, old.as_deref());
                old.is_some()
            }
            _ => false,
        }
    }

    fn unlist(&mut self, name: &str, old: Option<&PersistentVolume>) {
        if let Some(by) = old.and_then(found_by) {
            self.candidates.remove(&(by, name.into()));
        }
    }

    /// All objects for the wire: classes, volumes, then claims, each ascending by name.
    pub fn to_wire(&self) -> impl Iterator<Item = Object> {
        let named = |metadata: &Option<v1::ObjectMeta>, namespace: &str, name: &str| {
            Some(v1::ObjectMeta {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..metadata.clone().unwrap_or_default()
            })
        };
        let classes = self.classes.iter().map(move |(name, class)| {
            Object::StorageClass(v1::StorageClass {
                metadata: named(&class.wire.metadata, "", name),
                ..class.wire.clone()
            })
        });
        let volumes = self.volumes.iter().map(move |(name, volume)| {
            Object::PersistentVolume(v1::PersistentVolume {
                metadata: named(&volume.wire.metadata, "", name),
                ..volume.wire.clone()
            })
        });
        let claims = self.claims.iter().map(move |(key, claim)| {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            Object::PersistentVolumeClaim(v1::PersistentVolumeClaim {
                metadata: named(&claim.wire.metadata, namespace, name),
                ..claim.wire.clone()
            })
        });
        classes.chain(volumes).chain(claims)
    }

    /// Returns the estimated bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        // The names of a volume, and of a class or a claim.
        const MOST_NAMES: usize = 3 * 128;
        self.claims.memory_bytes()
            + self.volumes.memory_bytes()
            + self.classes.memory_bytes()
            + heap::tree::<(Box<str>, Box<str>), ()>(self.candidates.len())
            + self.candidates.len() * MOST_NAMES
    }
}
