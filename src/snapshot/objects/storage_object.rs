//! A claim, a persistent volume or a storage class as an object.

use std::sync::Arc;

use super::kind::StorageKind;
use crate::limits::Limits;
use crate::matching::storage::{PersistentVolume, StorageClass, VolumeClaim};
use crate::matching::{Path, Violations};
use crate::proto::v1::change::Object;

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

impl StorageObject {
    /// Checks and compiles an object, whose field is at `path`; `None` for other objects.
    pub fn compile(
        object: &Object,
        limits: &Limits,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Option<Self> {
        Some(match object {
            Object::PersistentVolumeClaim(wire) => {
                Self::Claim(Arc::new(VolumeClaim::compile(wire, path, faults)))
            }
            Object::PersistentVolume(wire) => Self::Volume(Arc::new(PersistentVolume::compile(
                wire, limits, path, faults,
            ))),
            Object::StorageClass(wire) => Self::Class(Arc::new(StorageClass::compile(wire))),
            _ => return None,
        })
    }

    /// The object's kind.
    pub fn kind(&self) -> StorageKind {
        match self {
            Self::Claim(_) => StorageKind::Claim,
            Self::Volume(_) => StorageKind::Volume,
            Self::Class(_) => StorageKind::Class,
        }
    }
}
