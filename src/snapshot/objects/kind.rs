//! The kinds of objects that a snapshot holds: one definition of each.

use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The kinds of objects that a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// Something that selects pods.
    Owner(OwnerKind),
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
}

/// How Kubernetes names a kind.
struct Names {
    kind: ObjectKind,
    api_version: &'static str,
    name: &'static str,
    /// The field of a `Change` that holds an object of the kind.
    field: &'static str,
}

const fn names(
    kind: ObjectKind,
    api_version: &'static str,
    name: &'static str,
    field: &'static str,
) -> Names {
    Names {
        kind,
        api_version,
        name,
        field,
    }
}

/// All kinds.
const KINDS: [Names; 6] = [
    names(ObjectKind::Node, "v1", "Node", "node"),
    names(ObjectKind::Pod, "v1", "Pod", "pod"),
    names(
        ObjectKind::Owner(OwnerKind::Service),
        "v1",
        "Service",
        "service",
    ),
    names(
        ObjectKind::Owner(OwnerKind::ReplicaSet),
        "apps/v1",
        "ReplicaSet",
        "replicaSet",
    ),
    names(
        ObjectKind::Owner(OwnerKind::StatefulSet),
        "apps/v1",
        "StatefulSet",
        "statefulSet",
    ),
    names(
        ObjectKind::Owner(OwnerKind::ReplicationController),
        "v1",
        "ReplicationController",
        "replicationController",
    ),
];

impl ObjectKind {
    /// The kind that Kubernetes calls so.
    pub fn parse(name: &str) -> Option<Self> {
        let named = KINDS.iter().find(|names| names.name == name);
        named.map(|names| names.kind)
    }

    /// The kind of this name and API version.
    pub fn of_version(api_version: &str, name: &str) -> Option<Self> {
        let same = |names: &&Names| names.name == name && names.api_version == api_version;
        KINDS.iter().find(same).map(|names| names.kind)
    }

    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|names| names.kind)
    }

    /// The names of all kinds, as a list for a message.
    pub fn list() -> String {
        KINDS.map(|names| names.name).join(", ")
    }

    /// Kubernetes' word for it.
    pub fn as_str(self) -> &'static str {
        self.names().name
    }

    /// The API version that has it.
    pub fn api_version(self) -> &'static str {
        self.names().api_version
    }

    /// The field of a `Change` that holds an object of the kind.
    pub fn field(self) -> &'static str {
        self.names().field
    }

    fn names(self) -> &'static Names {
        let named = KINDS.iter().find(|names| names.kind == self);
        named.expect("every kind has names")
    }
}

/// Runs the same code on the message of an object of any kind, and other code
/// on a deletion.
macro_rules! with_message {
    ($object:expr, $message:ident => $same:expr, $reference:ident => $deleted:expr) => {
        match $object {
            $crate::proto::v1::change::Object::Node($message) => $same,
            $crate::proto::v1::change::Object::Pod($message) => $same,
            $crate::proto::v1::change::Object::Service($message) => $same,
            $crate::proto::v1::change::Object::ReplicaSet($message) => $same,
            $crate::proto::v1::change::Object::StatefulSet($message) => $same,
            $crate::proto::v1::change::Object::ReplicationController($message) => $same,
            $crate::proto::v1::change::Object::Delete($reference) => $deleted,
        }
    };
}
#[cfg(feature = "cli")]
pub(crate) use with_message;

/// Makes an object of a kind. The code is expanded for the message of each kind.
macro_rules! of_kind {
    ($kind:expr, $message:expr) => {
        match $kind {
            $crate::snapshot::ObjectKind::Node => $crate::proto::v1::change::Object::Node($message),
            $crate::snapshot::ObjectKind::Pod => $crate::proto::v1::change::Object::Pod($message),
            $crate::snapshot::ObjectKind::Owner($crate::snapshot::OwnerKind::Service) => {
                $crate::proto::v1::change::Object::Service($message)
            }
            $crate::snapshot::ObjectKind::Owner($crate::snapshot::OwnerKind::ReplicaSet) => {
                $crate::proto::v1::change::Object::ReplicaSet($message)
            }
            $crate::snapshot::ObjectKind::Owner($crate::snapshot::OwnerKind::StatefulSet) => {
                $crate::proto::v1::change::Object::StatefulSet($message)
            }
            $crate::snapshot::ObjectKind::Owner(
                $crate::snapshot::OwnerKind::ReplicationController,
            ) => $crate::proto::v1::change::Object::ReplicationController($message),
        }
    };
}
#[cfg(feature = "cli")]
pub(crate) use of_kind;

/// The metadata of an object that is created or updated; none of a delete.
pub fn metadata_of(object: &Object) -> Option<&v1::ObjectMeta> {
    with_message!(object, message => message.metadata.as_ref(), _deleted => None)
}

/// The same, to change it; made if need be.
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

/// The object of a kind whose message `bytes` are.
///
/// # Errors
/// They are none.
pub fn decode_object(kind: ObjectKind, bytes: &[u8]) -> Result<Object, prost::DecodeError> {
    Ok(of_kind!(kind, prost::Message::decode(bytes)?))
}
