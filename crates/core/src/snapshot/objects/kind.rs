//! The kinds of objects in a snapshot: one definition of each.

use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The kinds of objects in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// An object that selects pods.
    Owner(OwnerKind),
    /// A namespace.
    Namespace,
    /// An object about storage.
    Storage(StorageKind),
}

/// The kinds of objects about storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StorageKind {
    /// core/v1 PersistentVolumeClaim.
    Claim,
    /// core/v1 PersistentVolume.
    Volume,
    /// storage.k8s.io/v1 StorageClass.
    Class,
}

/// The kinds of objects whose selectors are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OwnerKind {
    /// core/v1 Service.
    Service,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// core/v1 ReplicationController.
    ReplicationController,
    /// policy/v1 PodDisruptionBudget.
    PodDisruptionBudget,
}

impl OwnerKind {
    /// Returns whether default constraints get their selector from such objects.
    pub fn deduces(self) -> bool {
        self != Self::PodDisruptionBudget
    }

    /// Returns whether such objects are controllers of pods, which adopt those without one.
    pub fn adopts(self) -> bool {
        !matches!(self, Self::Service | Self::PodDisruptionBudget)
    }
}

impl ObjectKind {
    const ALL: [Self; 11] = [
        Self::Node,
        Self::Pod,
        Self::Owner(OwnerKind::Service),
        Self::Owner(OwnerKind::ReplicaSet),
        Self::Owner(OwnerKind::StatefulSet),
        Self::Owner(OwnerKind::ReplicationController),
        Self::Namespace,
        Self::Owner(OwnerKind::PodDisruptionBudget),
        Self::Storage(StorageKind::Claim),
        Self::Storage(StorageKind::Volume),
        Self::Storage(StorageKind::Class),
    ];

    /// The kind of this name in Kubernetes.
    pub fn parse(name: &str) -> Option<Self> {
        Self::all().find(|kind| kind.as_str() == name)
    }

    /// The kind of this name and API version.
    pub fn of_version(api_version: &str, name: &str) -> Option<Self> {
        Self::parse(name).filter(|kind| kind.api_version() == api_version)
    }

    /// The kind of an object; `None` for a delete of an unknown kind.
    pub fn of(object: &Object) -> Option<Self> {
        match object {
            Object::Node(_) => Some(Self::Node),
            Object::Pod(_) => Some(Self::Pod),
            Object::Service(_) => Some(Self::Owner(OwnerKind::Service)),
            Object::ReplicaSet(_) => Some(Self::Owner(OwnerKind::ReplicaSet)),
            Object::StatefulSet(_) => Some(Self::Owner(OwnerKind::StatefulSet)),
            Object::ReplicationController(_) => Some(Self::Owner(OwnerKind::ReplicationController)),
            Object::Namespace(_) => Some(Self::Namespace),
            Object::PodDisruptionBudget(_) => Some(Self::Owner(OwnerKind::PodDisruptionBudget)),
            Object::PersistentVolumeClaim(_) => Some(Self::Storage(StorageKind::Claim)),
            Object::PersistentVolume(_) => Some(Self::Storage(StorageKind::Volume)),
            Object::StorageClass(_) => Some(Self::Storage(StorageKind::Class)),
            Object::Delete(reference) => Self::parse(&reference.kind),
        }
    }

    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// The names of all kinds, as a list for a message.
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Kubernetes' name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Owner(OwnerKind::Service) => "Service",
            Self::Owner(OwnerKind::ReplicaSet) => "ReplicaSet",
            Self::Owner(OwnerKind::StatefulSet) => "StatefulSet",
            Self::Owner(OwnerKind::ReplicationController) => "ReplicationController",
            Self::Namespace => "Namespace",
            Self::Owner(OwnerKind::PodDisruptionBudget) => "PodDisruptionBudget",
            Self::Storage(StorageKind::Claim) => "PersistentVolumeClaim",
            Self::Storage(StorageKind::Volume) => "PersistentVolume",
            Self::Storage(StorageKind::Class) => "StorageClass",
        }
    }

    /// Returns whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.is_kept_with_namespace() || self == Self::Storage(StorageKind::Claim)
    }

    /// Returns whether its objects are kept with their namespace. All others are kept together.
    pub fn is_kept_with_namespace(self) -> bool {
        matches!(self, Self::Pod | Self::Owner(_))
    }

    /// The API version of the kind.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Owner(OwnerKind::ReplicaSet | OwnerKind::StatefulSet) => "apps/v1",
            Self::Owner(OwnerKind::PodDisruptionBudget) => "policy/v1",
            Self::Storage(StorageKind::Class) => "storage.k8s.io/v1",
            _ => "v1",
        }
    }

    /// The field of a `Change` that holds an object of the kind.
    pub fn field(self) -> String {
        let name = self.as_str();
        name[..1].to_ascii_lowercase() + &name[1..]
    }
}

/// Runs the same code on the message of an object of any kind, and other code
/// on a deletion.
#[macro_export]
macro_rules! with_message {
    ($object:expr, $message:ident => $same:expr, $reference:ident => $deleted:expr) => {{
        use $crate::proto::v1::change::Object;
        match $object {
            Object::Node($message) => $same,
            Object::Pod($message) => $same,
            Object::Service($message) => $same,
            Object::ReplicaSet($message) => $same,
            Object::StatefulSet($message) => $same,
            Object::ReplicationController($message) => $same,
            Object::Namespace($message) => $same,
            Object::PodDisruptionBudget($message) => $same,
            Object::PersistentVolumeClaim($message) => $same,
            Object::PersistentVolume($message) => $same,
            Object::StorageClass($message) => $same,
            Object::Delete($reference) => $deleted,
        }
    }};
}

/// Makes an object of a kind. The code is expanded for the message of each kind.
#[macro_export]
macro_rules! of_kind {
    ($kind:expr, $message:expr) => {{
        use $crate::proto::v1::change::Object;
        use $crate::snapshot::kind::{ObjectKind, OwnerKind, StorageKind};
        match $kind {
            ObjectKind::Node => Object::Node($message),
            ObjectKind::Pod => Object::Pod($message),
            ObjectKind::Namespace => Object::Namespace($message),
            ObjectKind::Storage(kind) => match kind {
                StorageKind::Claim => Object::PersistentVolumeClaim($message),
                StorageKind::Volume => Object::PersistentVolume($message),
                StorageKind::Class => Object::StorageClass($message),
            },
            ObjectKind::Owner(kind) => match kind {
                OwnerKind::Service => Object::Service($message),
                OwnerKind::ReplicaSet => Object::ReplicaSet($message),
                OwnerKind::StatefulSet => Object::StatefulSet($message),
                OwnerKind::ReplicationController => Object::ReplicationController($message),
                OwnerKind::PodDisruptionBudget => Object::PodDisruptionBudget($message),
            },
        }
    }};
}

/// The metadata of an object that is created or updated; none of a delete.
pub fn metadata_of(object: &Object) -> Option<&v1::ObjectMeta> {
    with_message!(object, message => message.metadata.as_ref(), _deleted => None)
}

/// The metadata of an object that is created or updated, to change it; created if needed.
pub fn metadata_mut(object: &mut Object) -> Option<&mut v1::ObjectMeta> {
    with_message!(
        object,
        message => Some(message.metadata.get_or_insert_default()),
        _deleted => None
    )
}

/// Appends the message of an object to `bytes`; nothing of a delete.
pub fn encode_object(object: &Object, bytes: &mut Vec<u8>) {
    let encoded = with_message!(
        object,
        message => prost::Message::encode(message, bytes),
        _deleted => Ok(())
    );
    encoded.expect("a vector has room");
}
