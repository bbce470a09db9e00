//! The resource versions up to which a feed has read the kinds of its cluster.

use std::collections::BTreeMap;
use std::fmt;

use super::kind::ObjectKind;
use crate::matching::{Path, Violations};

/// Resource versions of one cluster by kind. Versions of two kinds, or of two clusters, are never
/// compared.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceVersions {
    /// The versions by Kubernetes' name of the kind; 0 for a kind that was read up to an unknown
    /// version.
    #[prost(btree_map = "string, uint64", tag = "1")]
    by_kind: BTreeMap<String, u64>,
}

/// A kind that a feed has not read far enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedBehind {
    /// Kubernetes' name of the kind.
    kind: String,
    /// The version that was asked for.
    wanted: u64,
    /// The version up to which the feed has read; 0 if it gives none.
    read: u64,
}

impl fmt::Display for FeedBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, wanted, read } = self;
        match self.may_catch_up() {
            true => write!(
                f,
                "has read {kind} up to resource version {read}, not {wanted}"
            ),
            false => write!(f, "gives no resource version of {kind}"),
        }
    }
}

impl FeedBehind {
    /// Returns whether the feed gives versions of the kind, so that it may come to the wanted one.
    pub fn may_catch_up(&self) -> bool {
        self.read > 0
    }
}

impl ResourceVersions {
    /// Those of a feed. Kinds that are not known are left out.
    pub fn of_feed(mut by_kind: BTreeMap<String, u64>) -> Self {
        by_kind.retain(|kind, _| ObjectKind::parse(kind).is_some());
        Self { by_kind }
    }

    /// Returns whether the feed has read claims, persistent volumes and storage classes, so that
    /// those that a snapshot lacks do not exist.
    pub fn has_storage(&self) -> bool {
        let mut kinds = ObjectKind::all().filter(|kind| matches!(kind, ObjectKind::Storage(_)));
        kinds.all(|kind| self.by_kind.contains_key(kind.as_str()))
    }

    /// Those that a request asks for. Kinds that are not known are faults.
    pub fn of_request(
        mut by_kind: BTreeMap<String, u64>,
        path: Path<'_>,
        faults: &mut Violations,
    ) -> Self {
        if by_kind.keys().any(|kind| ObjectKind::parse(kind).is_none()) {
            let rule = format!("must be by kinds of {}", ObjectKind::list());
            faults.add(path, rule);
        }
        by_kind.retain(|_, version| *version > 0);
        Self { by_kind }
    }

    /// The versions for the wire.
    pub fn to_wire(&self) -> BTreeMap<String, u64> {
        self.by_kind.clone()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Sets the version of a kind.
    pub fn set(&mut self, kind: ObjectKind, version: u64) {
        self.by_kind.insert(kind.as_str().to_owned(), version);
    }

    /// These versions after a feed has read on: its later ones replace those of the same kinds,
    /// also with smaller ones, as after a restore of the cluster from a backup.
    #[must_use]
    pub fn after(&self, later: &Self) -> Self {
        let mut by_kind = self.by_kind.clone();
        by_kind.extend(later.by_kind.clone());
        Self { by_kind }
    }

    /// The versions that are not alike in `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut by_kind = self.by_kind.clone();
        by_kind.retain(|kind, version| before.by_kind.get(kind) != Some(version));
        Self { by_kind }
    }

    /// Checks that a feed which has read up to these versions has read up to `wanted`.
    ///
    /// # Errors
    /// The first kind of which it has not.
    pub fn check(&self, wanted: &Self) -> Result<(), FeedBehind> {
        let read = |kind| self.by_kind.get(kind).copied().unwrap_or(0);
        let mut each = wanted.by_kind.iter();
        match each.find(|(kind, wanted)| read(*kind) < **wanted) {
            Some((kind, wanted)) => Err(FeedBehind {
                kind: kind.clone(),
                wanted: *wanted,
                read: read(kind),
            }),
            None => Ok(()),
        }
    }
}
