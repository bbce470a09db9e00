//! Objects of a snapshot that all namespaces share, besides nodes: namespaces and storage.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use super::change::{Batch, Form, ValidChange};
use super::compiled::{LabelledNamespace, StorageObject};
use super::free_volumes::{FreeVolume, FreeVolumes, VolumeList, VolumeRank};
use super::kind::{ObjectKind, StorageKind};
use super::name_table::NameTable;
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::proto::v1;
use crate::proto::v1::change::Object;
use crate::snapshot::deadline::{Deadline, Stopped};

/// Objects that all namespaces share.
#[derive(Debug, Clone, Default)]
pub struct ClusterObjects {
    /// The Namespace objects. Pods need none.
    namespaces: NameTable<Arc<LabelledNamespace>>,
    /// Claims, persistent volumes and storage classes.
    pub storage: StorageObjects,
}

impl ClusterObjects {
    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.namespaces.len() + self.storage.count()
    }

    /// Returns whether there are Namespace objects.
    pub fn has_namespaces(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// The labels of a namespace; `None` where it has no object.
    pub fn labels_of(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.namespaces.get(namespace).map(|it| &it.labels)
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
                (_, Form::Namespace(it)) => self.namespaces.put_changed(name, it).1,
                (ObjectKind::Namespace, Form::Delete(uid)) => {
                    let removed = self.namespaces.remove_meant(name, uid, |it| &it.uid);
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

impl<T: PartialEq> NameTable<Arc<T>> {
    /// Creates or updates an object. Returns the old one, and whether there is a difference.
    fn put_changed(&mut self, name: &str, object: &Arc<T>) -> (Option<Arc<T>>, bool) {
        let old = self.get(name).cloned();
        if old.as_ref() == Some(object) {
            return (None, false);
        }
        self.put(name, Arc::clone(object));
        (old, true)
    }

    /// Removes an object, if `uid` is empty or its own. `uid_of` returns the uid of an object, which
    /// is empty when unknown.
    fn remove_meant(
        &mut self,
        name: &str,
        uid: &str,
        uid_of: impl Fn(&T) -> &str,
    ) -> Option<Arc<T>> {
        let is_meant = |object: &Arc<T>| uid.is_empty() || uid_of(object) == uid;
        self.get(name).filter(|object| is_meant(object))?;
        self.remove(name)
    }
}

/// The storage of a cluster: classes, volumes and claims.
#[derive(Debug, Clone, Default)]
pub struct StorageObjects {
    /// The claims, by namespace and name.
    claims: NameTable<Arc<VolumeClaim>>,
    volumes: NameTable<Arc<PersistentVolume>>,
    classes: NameTable<Arc<StorageClass>>,
    /// The available volumes that are reserved for no claim, by class.
    free: HashMap<Box<str>, FreeVolumes>,
    /// The volumes that are reserved for a claim, by its key.
    reserved: HashMap<Box<str>, VolumeList>,
}

/// What the volumes of a list are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListOf<'a> {
    /// The claim with this key, for which they are reserved.
    Claim(&'a str),
    /// Claims of a class, on nodes with a label if one is given.
    Class(&'a str, Option<(&'a str, &'a str)>),
}

/// The key of a claim; namespaces contain no slash.
fn key_of(namespace: &str, claim: &str) -> String {
    format!("{namespace}/{claim}")
}

impl StorageObjects {
    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.claims.len() + self.volumes.len() + self.classes.len()
    }

    /// Returns whether there are classes or volumes.
    pub fn has_some(&self) -> bool {
        self.volumes.len() + self.classes.len() > 0
    }

    /// A claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<VolumeClaim>> {
        self.claims.get(&key_of(namespace, name))
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(name)
    }

    /// A class.
    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    /// The volumes that are reserved for a claim, ascending by name; `None` without any.
    pub fn reserved_for(&self, namespace: &str, claim: &str) -> Option<&VolumeList> {
        self.reserved.get(&*key_of(namespace, claim))
    }

    /// The volumes of a class that are available and reserved for no claim; `None` without any.
    pub fn free(&self, class: &str) -> Option<&FreeVolumes> {
        self.free.get(class)
    }

    /// The lists of volumes to which claims can be bound.
    pub fn lists(&self) -> impl Iterator<Item = (ListOf<'_>, &VolumeList)> {
        let free = self.free.iter().flat_map(|(class, free)| {
            let lists = free.lists();
            lists.map(move |(label, list)| (ListOf::Class(class, label), list))
        });
        let reserved = self.reserved.iter();
        free.chain(reserved.map(|(claim, list)| (ListOf::Claim(claim), list)))
    }

    /// Applies a change of an object about storage. Returns whether that made a difference.
    pub fn apply(&mut self, change: &ValidChange<'_>, kind: StorageKind) -> bool {
        let id = change.id;
        let key = || key_of(id.namespace, id.name);
        match (change.form, kind) {
            (Form::Storage(StorageObject::Claim(it)), _) => self.claims.put_changed(&key(), it).1,
            (Form::Storage(StorageObject::Class(it)), _) => self.classes.put_changed(id.name, it).1,
            (Form::Storage(StorageObject::Volume(it)), _) => {
                let (old, changed) = self.volumes.put_changed(id.name, it);
                if changed {
                    self.unlist(id.name, old.as_deref());
                    self.list(id.name, it);
                }
                changed
            }
            (Form::Delete(uid), StorageKind::Claim) => {
                let old = self
                    .claims
                    .remove_meant(&key(), uid, |it| &it.metadata().uid);
                old.is_some()
            }
            (Form::Delete(uid), StorageKind::Class) => {
                let old = self.classes.remove_meant(id.name, uid, |it| {
                    it.wire.metadata.as_ref().map_or("", |it| &it.uid)
                });
                old.is_some()
            }
            (Form::Delete(uid), StorageKind::Volume) => {
                let old = self
                    .volumes
                    .remove_meant(id.name, uid, |it| &it.metadata().uid);
                self.unlist(id.name, old.as_deref());
                old.is_some()
            }
            _ => false,
        }
    }

    /// Adds a volume to the lists of those that claims can be bound to.
    fn list(&mut self, name: &str, volume: &Arc<PersistentVolume>) {
        if let Some(claim) = &volume.spec().claim_ref {
            let key = key_of(&claim.namespace, &claim.name);
            let list = self.reserved.entry_ref(&*key).or_default();
            list.add(&Arc::new(FreeVolume::reserved(name, volume)));
        } else if volume.is_available() {
            let free = self.free.entry_ref(volume.class()).or_default();
            free.add(&Arc::new(FreeVolume::available(name, volume)));
        }
    }

    /// Removes a volume that was there from the lists.
    fn unlist(&mut self, name: &str, old: Option<&PersistentVolume>) {
        let Some(old) = old else {
            return;
        };
        if let Some(claim) = &old.spec().claim_ref {
            let key = key_of(&claim.namespace, &claim.name);
            let rank = VolumeRank {
                name: name.into(),
                ..VolumeRank::default()
            };
            let Some(list) = self.reserved.get_mut(&*key) else {
                return;
            };
            if list.take(&rank) {
                self.reserved.remove(&*key);
            }
        } else if old.is_available()
            && let Some(free) = self.free.get_mut(old.class())
        {
            let rank = VolumeRank {
                size: old.size,
                name: name.into(),
            };
            free.take(old, &rank);
            if free.is_empty() {
                self.free.remove(old.class());
            }
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
}
