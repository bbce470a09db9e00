//! The parts of objects: of nodes, of pods and of the objects that select pods.

use std::collections::BTreeMap;

use super::kind::{ObjectKind, OwnerKind};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// What a change is about.
#[derive(Clone, Copy)]
pub enum Parts<'a> {
    /// A node.
    Node(&'a v1::Node),
    /// A pod, which is taken apart elsewhere (`pod_parts.rs`).
    Pod,
    /// A service or controller, with what it selects.
    Owner(OwnerKind, Selects<'a>),
    /// An object that is deleted.
    Delete(&'a v1::ObjectReference),
}

/// Which pods a service or a controller selects.
#[derive(Clone, Copy)]
pub enum Selects<'a> {
    /// The pods with all of these labels (services, replication controllers).
    Labels(Option<&'a BTreeMap<String, String>>),
    /// The pods that match (replica sets, stateful sets).
    Selector(Option<&'a v1::LabelSelector>),
}

impl<'a> Parts<'a> {
    /// Takes an object apart.
    pub fn of(object: &'a Object) -> Self {
        match object {
            Object::Node(node) => Self::Node(node),
            Object::Pod(_) => Self::Pod,
            Object::Service(it) => {
                let labels = it.spec.as_ref().map(|spec| &spec.selector);
                Self::Owner(OwnerKind::Service, Selects::Labels(labels))
            }
            Object::ReplicationController(it) => {
                let labels = it.spec.as_ref().map(|spec| &spec.selector);
                Self::Owner(OwnerKind::ReplicationController, Selects::Labels(labels))
            }
            Object::ReplicaSet(it) => {
                let selector = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                Self::Owner(OwnerKind::ReplicaSet, Selects::Selector(selector))
            }
            Object::StatefulSet(it) => {
                let selector = it.spec.as_ref().and_then(|spec| spec.selector.as_ref());
                Self::Owner(OwnerKind::StatefulSet, Selects::Selector(selector))
            }
            Object::Delete(reference) => Self::Delete(reference),
        }
    }

    /// The kind; `None` of a delete of an unknown one.
    pub fn kind(self) -> Option<ObjectKind> {
        match self {
            Self::Node(_) => Some(ObjectKind::Node),
            Self::Pod => Some(ObjectKind::Pod),
            Self::Owner(kind, _) => Some(ObjectKind::Owner(kind)),
            Self::Delete(reference) => ObjectKind::parse(&reference.kind),
        }
    }
}

/// Puts a service or controller together; of labels and selector it takes what
/// its kind has.
pub fn owner_object(
    kind: OwnerKind,
    metadata: v1::ObjectMeta,
    labels: BTreeMap<String, String>,
    selector: Option<v1::LabelSelector>,
) -> Object {
    let metadata = Some(metadata);
    match kind {
        OwnerKind::Service => Object::Service(v1::Service {
            metadata,
            spec: Some(v1::ServiceSpec { selector: labels }),
        }),
        OwnerKind::ReplicationController => {
            let spec = Some(v1::ReplicationControllerSpec { selector: labels });
            Object::ReplicationController(v1::ReplicationController { metadata, spec })
        }
        OwnerKind::ReplicaSet => Object::ReplicaSet(v1::ReplicaSet {
            metadata,
            spec: Some(v1::ReplicaSetSpec { selector }),
        }),
        OwnerKind::StatefulSet => Object::StatefulSet(v1::StatefulSet {
            metadata,
            spec: Some(v1::StatefulSetSpec { selector }),
        }),
    }
}
