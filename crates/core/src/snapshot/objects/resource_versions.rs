//! The cluster that a snapshot is fed from, and the resource versions up to which its kinds were
//! read.

use std::collections::BTreeMap;
use std::fmt;

use super::kind::ObjectKind;
use crate::matching::{Path, Violations};

/// Resource versions of one cluster by kind. Versions of two kinds are never compared, nor are those
/// of two clusters: a snapshot that is fed from one takes nothing from another.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceVersions {
    /// The versions by Kubernetes' name of the kind; 0 for a kind that was read up to an unknown
    /// version.
    #[prost(btree_map = "string, uint64", tag = "1")]
    by_kind: BTreeMap<String, u64>,
    /// The identity of the cluster; empty where the feed gives none.
    #[prost(string, tag = "2")]
    cluster: String,
}

/// A feed of another cluster than the one that a snapshot is fed from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is fed from the cluster {fed_from}, not from {given}")]
pub struct OtherCluster {
    /// The identity of the snapshot's cluster.
    fed_from: String,
    /// The identity of the other one.
    given: String,
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
    /// Those of a feed of this cluster. Kinds that are not known are left out.
    pub fn of_feed(mut by_kind: BTreeMap<String, u64>, cluster: String) -> Self {
        by_kind.retain(|kind, _| ObjectKind::parse(kind).is_some());
        Self { by_kind, cluster }
    }

    /// The identity of the cluster; empty where the feed gives none.
    pub fn cluster(&self) -> &str {
        &self.cluster
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
        Self::of_feed(by_kind, String::new())
    }

    /// The versions for the wire.
    pub fn to_wire(&self) -> BTreeMap<String, u64> {
        self.by_kind.clone()
    }

    /// Returns whether there are none, and no cluster.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.cluster.is_empty()
    }

    /// Sets the version of a kind.
    pub fn set(&mut self, kind: ObjectKind, version: u64) {
        self.by_kind.insert(kind.as_str().to_owned(), version);
    }

    /// These versions after a feed has read on: its later ones replace those of the same kinds,
    /// also with smaller ones, as after a restore of the cluster from a backup.
    ///
    /// # Errors
    /// The later ones are of another cluster.
    pub fn after(&self, later: &Self) -> Result<Self, OtherCluster> {
        let mut after = self.replaced_by(later)?;
        let before = self.by_kind.iter();
        for (kind, version) in before {
            after.by_kind.entry(kind.clone()).or_insert(*version);
        }
        Ok(after)
    }

    /// The versions of a feed that has replaced what was read up to these. The cluster stays.
    ///
    /// # Errors
    /// The new ones are of another cluster.
    pub fn replaced_by(&self, new: &Self) -> Result<Self, OtherCluster> {
        let (known, given) = (&self.cluster, &new.cluster);
        if !known.is_empty() && !given.is_empty() && known != given {
            return Err(OtherCluster {
                fed_from: known.clone(),
                given: given.clone(),
            });
        }
        let cluster = if given.is_empty() { known } else { given };
        Ok(Self::of_feed(new.by_kind.clone(), cluster.clone()))
    }

    /// The versions that are not alike in `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since
            .by_kind
            .retain(|kind, version| before.by_kind.get(kind) != Some(version));
        since
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
