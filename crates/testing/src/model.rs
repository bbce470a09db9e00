//! Changes applied to plain lists of objects: the state that a snapshot must
//! be in, for the oracle to decide on.

use evenkeel::proto::v1::change::Object;
use evenkeel::proto::v1::{
    Change, Namespace, Node, ObjectMeta, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Service, StatefulSet,
    StorageClass,
};

use crate::recount::{Cluster, namespace};

/// An object that a snapshot stores.
pub trait Stored: Clone {
    /// The kind that a reference names it by.
    const KIND: &'static str;
    /// The metadata of the object.
    fn metadata(&self) -> &ObjectMeta;
    /// The list that holds its kind.
    fn list(cluster: &mut Cluster) -> &mut Vec<Self>;
    /// The change that creates or updates it.
    fn change(self) -> Change;

    /// Namespace and name. Nodes and namespaces have no namespace.
    fn key(&self) -> (String, String) {
        let metadata = self.metadata();
        let namespace = match Self::KIND {
            "Node" | "Namespace" | "PersistentVolume" | "StorageClass" => "",
            _ => namespace(Some(metadata)),
        };
        (namespace.into(), metadata.name.clone())
    }
}

macro_rules! stored {
    ($($object:ident $list:ident;)*) => {
        $(impl Stored for $object {
            const KIND: &'static str = stringify!($object);
            fn metadata(&self) -> &ObjectMeta {
                self.metadata.as_ref().expect("stored objects have metadata")
            }
            fn list(cluster: &mut Cluster) -> &mut Vec<Self> {
                &mut cluster.$list
            }
            fn change(self) -> Change {
                Change { object: Some(Object::$object(self)) }
            }
        })*

        /// Kind, namespace and name of the object that a change is about.
        pub fn subject(change: &Change) -> (String, String, String) {
            fn of<T: Stored>(object: &T) -> (String, String, String) {
                let (namespace, name) = object.key();
                (T::KIND.into(), namespace, name)
            }
            match change.object.as_ref().expect("a change has an object") {
                $(Object::$object(object) => of(object),)*
                Object::Delete(reference) => {
                    let namespace = match (reference.kind.as_str(), reference.namespace.as_str()) {
                        ("Node" | "Namespace" | "PersistentVolume" | "StorageClass", _) => "",
                        (_, "") => "default",
                        (_, given) => given,
                    };
                    let name = reference.name.clone();
                    (reference.kind.clone(), namespace.into(), name)
                }
            }
        }

        /// Applies one change. Returns false for a delete that hits nothing.
        pub fn hits(cluster: &mut Cluster, change: &Change) -> bool {
            match change.object.clone().expect("a change has an object") {
                $(Object::$object(object) => put(cluster, object),)*
                Object::Delete(reference) => {
                    let (kind, namespace, name) = subject(change);
                    let key = (namespace, name);
                    match kind.as_str() {
                        $(stringify!($object) => remove::<$object>(cluster, &key, &reference.uid),)*
                        // No object has any other kind, which only a request to be refused names.
                        _ => false,
                    }
                }
            }
        }

        /// The changes that build the cluster from nothing.
        pub fn changes(cluster: &Cluster) -> Vec<Change> {
            let mut changes = Vec::new();
            $(changes.extend(cluster.$list.iter().cloned().map(Stored::change));)*
            changes
        }
    };
}

stored! {
    Node nodes;
    Pod pods;
    Service services;
    ReplicaSet replica_sets;
    StatefulSet stateful_sets;
    ReplicationController replication_controllers;
    Namespace namespaces;
    PodDisruptionBudget pod_disruption_budgets;
    PersistentVolumeClaim persistent_volume_claims;
    PersistentVolume persistent_volumes;
    StorageClass storage_classes;
}

/// The change that deletes an object, whatever its uid.
pub fn delete(kind: &str, namespace: &str, name: &str) -> Change {
    delete_uid(kind, namespace, name, "")
}

/// The change that deletes an object if it has this uid.
pub fn delete_uid(kind: &str, namespace: &str, name: &str, uid: &str) -> Change {
    Change {
        object: Some(Object::Delete(ObjectReference {
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
        })),
    }
}

/// Returns whether a change deletes something.
pub fn is_deletion(change: &Change) -> bool {
    deleted(change).is_some()
}

/// Returns the full reference of the object that a change deletes.
pub fn deleted(change: &Change) -> Option<ObjectReference> {
    let Some(Object::Delete(reference)) = &change.object else {
        return None;
    };
    let (kind, namespace, name) = subject(change);
    Some(ObjectReference {
        kind,
        namespace,
        name,
        uid: reference.uid.clone(),
    })
}

/// The cluster that these changes make of an empty one.
pub fn cluster<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Cluster {
    let mut cluster = Cluster::default();
    changes
        .into_iter()
        .for_each(|change| apply(&mut cluster, change));
    cluster
}

/// Applies one change.
pub fn apply(cluster: &mut Cluster, change: &Change) {
    hits(cluster, change);
}

fn put<T: Stored>(cluster: &mut Cluster, object: T) -> bool {
    let list = T::list(cluster);
    list.retain(|other| other.key() != object.key());
    list.push(object);
    true
}

fn remove<T: Stored>(cluster: &mut Cluster, key: &(String, String), uid: &str) -> bool {
    let list = T::list(cluster);
    let before = list.len();
    list.retain(|other| {
        let meant = uid.is_empty() || other.metadata().uid == uid;
        other.key() != *key || !meant
    });
    list.len() < before
}
