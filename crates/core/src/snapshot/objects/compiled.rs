//! Objects in their kept form. Compiling is validating. It happens once; a compiled object is
//! applied without another check. Pods have their own form (`pod.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kind::{ObjectKind, OwnerKind, StorageKind, metadata_of};
use super::nodes::CompiledNode;
use super::owners::Owner;
use crate::limits::{Limit, Limits, NodeNames};
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::matching::{Path, Violations, names};
use crate::proto::v1;
use crate::proto::v1::change::Object;

/// The compiled form of a change, before it is applied.
#[derive(Debug, Clone)]
pub enum Compiled {
    /// A compiled node.
    Node(Box<CompiledNode>),
    /// A service or controller.
    Owner(OwnerKind, Arc<Owner>),
    /// A namespace.
    Namespace(Arc<LabelledNamespace>),
    /// A claim, a persistent volume or a storage class.
    Storage(StorageObject),
    /// The kind of an object that is deleted.
    Delete(ObjectKind),
}

/// Uid and labels of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledNamespace {
    pub(super) uid: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
}

/// An object about storage.
#[derive(Debug, Clone)]
pub enum StorageObject {
    /// A claim.
    Claim(Arc<VolumeClaim>),
    /// A persistent volume.
    Volume(Arc<PersistentVolume>),
    /// A class.
    Class(Arc<StorageClass>),
}

impl Compiled {
    /// Checks a change, which is at `path`, and compiles it. `None` when a fault leaves nothing to
    /// compile, and for a pod.
    pub fn check(
        object: &Object,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        let kind = ObjectKind::of(object);
        if let Object::Delete(reference) = object {
            check_reference(kind, reference, limits, path.field("delete"), faults);
            return kind.map(Self::Delete);
        }
        let field = kind?.field();
        let path = path.field(&field);
        check_metadata(kind?, metadata_of(object), limits, path, faults);
        Self::of(object, limits, path, faults)
    }

    /// Compiles a change of the snapshot's own making, which needs no check.
    pub fn trusted(object: &Object) -> Self {
        let (limits, no_faults) = (Limits::none(), &mut Violations::default());
        let compiled = Self::of(object, &limits, Path::root("change"), no_faults);
        compiled.expect("what the snapshot makes itself is valid")
    }

    fn of(
        object: &Object,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        Some(match object {
            Object::Node(node) => Self::Node(Box::new(CompiledNode::compile(node, path, faults))),
            Object::Namespace(namespace) => {
                let metadata = namespace.metadata.clone().unwrap_or_default();
                Self::Namespace(Arc::new(LabelledNamespace {
                    uid: metadata.uid.into(),
                    labels: metadata.labels,
                }))
            }
            Object::PersistentVolumeClaim(wire) => {
                let claim = VolumeClaim::compile(wire, path, faults);
                Self::Storage(StorageObject::Claim(Arc::new(claim)))
            }
            Object::PersistentVolume(wire) => {
                let volume = PersistentVolume::compile(wire, limits, path, faults);
                Self::Storage(StorageObject::Volume(Arc::new(volume)))
            }
            Object::StorageClass(wire) => {
                Self::Storage(StorageObject::Class(Arc::new(StorageClass::compile(wire))))
            }
            Object::Delete(reference) => Self::Delete(ObjectKind::parse(&reference.kind)?),
            _ => {
                let ObjectKind::Owner(kind) = ObjectKind::of(object)? else {
                    return None;
                };
                let owner = Owner::compile(object, path.field("spec"), faults)?;
                Self::Owner(kind, Arc::new(owner))
            }
        })
    }

    /// The kind of the object.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Node(_) => ObjectKind::Node,
            Self::Owner(kind, _) => ObjectKind::Owner(*kind),
            Self::Namespace(_) => ObjectKind::Namespace,
            Self::Storage(StorageObject::Claim(_)) => ObjectKind::Storage(StorageKind::Claim),
            Self::Storage(StorageObject::Volume(_)) => ObjectKind::Storage(StorageKind::Volume),
            Self::Storage(StorageObject::Class(_)) => ObjectKind::Storage(StorageKind::Class),
            Self::Delete(kind) => *kind,
        }
    }
}

fn check_reference(
    kind: Option<ObjectKind>,
    reference: &v1::ObjectReference,
    limits: &Limits,
    path: Path<'_>,
    faults: &mut Violations,
) {
    if kind.is_none() {
        let known = ObjectKind::list();
        faults.add(path.field("kind"), format!("must be one of {known}"));
    }
    names::check_namespace(&reference.namespace, path.field("namespace"), faults);
    // An object that was stored under another setting can be deleted.
    check_name(kind, &reference.name, NodeNames::Any, path, faults);
    check_text(&reference.uid, limits, path.field("uid"), faults);
}

/// Checks the name of an object, or of an object of no known kind.
fn check_name(
    kind: Option<ObjectKind>,
    name: &str,
    allowed: NodeNames,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let path = path.field("name");
    match kind {
        Some(ObjectKind::Node) => names::check_node_name(name, allowed, path, faults),
        Some(ObjectKind::Namespace) if !name.is_empty() => {
            names::check_namespace(name, path, faults);
        }
        _ => names::check_name(name, path, faults),
    }
}

/// Checks the metadata of an object of a kind, which is at `path`.
pub fn check_metadata(
    kind: ObjectKind,
    metadata: Option<&v1::ObjectMeta>,
    limits: &Limits,
    path: Path<'_>,
    faults: &mut Violations,
) {
    let path = path.field("metadata");
    let Some(metadata) = metadata else {
        faults.add(path.field("name"), "is required");
        return;
    };
    let allowed = limits.node_names;
    check_name(Some(kind), &metadata.name, allowed, path, faults);
    names::check_namespace(&metadata.namespace, path.field("namespace"), faults);
    // A volume's label may list zones, which is no valid label value.
    if kind != ObjectKind::Storage(StorageKind::Volume) {
        names::check_labels(&metadata.labels, path.field("labels"), faults);
    }
    names::check_deletion(metadata, path, faults);
    check_text(&metadata.uid, limits, path.field("uid"), faults);
}

fn check_text(text: &str, limits: &Limits, path: Path<'_>, faults: &mut Violations) {
    faults.within(path, limits, Limit::StringBytes, text.len());
}
