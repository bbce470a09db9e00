//! `UpdateSnapshot`: a request becomes a batch.

use std::sync::Arc;

use super::error::Error;
use super::request;
use crate::limits::Limit;
use crate::matching::{KubernetesVersion, Path, Violations};
use crate::proto::v1;
use crate::snapshot::{
    self, Applied, Batch, Defaults, Limits, Moment, Offer, Registry, ResourceVersions, Staged,
    Update,
};

/// A valid update request.
#[derive(Debug)]
pub struct ValidUpdate {
    /// The name of the snapshot.
    pub snapshot: String,
    /// True if the changes are the whole state.
    pub replaces: bool,
    /// The changes, and the terms on which they apply.
    pub offer: Offer,
}

impl ValidUpdate {
    /// Checks a request that arrived at the moment `arrived`. `parent` is the field of another
    /// request that contains this one; `None` if none does.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(
        wire: v1::UpdateSnapshotRequest,
        parent: Option<&Path<'_>>,
        arrived: Moment,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let field = |name| match parent {
            Some(parent) => parent.field(name),
            None => Path::root(name),
        };
        let mut faults = Violations::default();
        let snapshot = request::snapshot_name(&wire.snapshot, field("snapshot"), &mut faults);
        let mode: v1::Mode = request::known(wire.mode, field("mode"), &mut faults);
        if let Some(revision) = wire.expected_revision {
            let path = field("expectedRevision");
            request::check_not_negative(revision, path, &mut faults);
        }
        let defaults = wire.default_constraints.map(|wire| {
            let path = field("defaultConstraints");
            faults.collect(Defaults::compile(&wire, limits, path))
        });
        let version = field("kubernetesVersion");
        let version = KubernetesVersion::compile(&wire.kubernetes_version, version, &mut faults);
        let age = request::age(wire.age, field("age"), &mut faults);
        request::check_cluster(&wire.cluster, field("cluster"), &mut faults);
        let path = field("changes");
        let count = wire.changes.len();
        let batch = match faults.within(path, limits, Limit::ChangesPerBatch, count) {
            true => faults.collect(Batch::read(wire.changes, limits, path)),
            false => None,
        };
        Ok(faults.finish(Self {
            snapshot,
            replaces: mode == v1::Mode::Replace,
            offer: Offer {
                batch: Arc::new(batch.unwrap_or_default()),
                defaults: defaults.flatten().map(Arc::new),
                version,
                resource_versions: ResourceVersions::of_feed(wire.resource_versions, wire.cluster),
                expected_revision: wire.expected_revision,
                fence: None,
                arrived,
                age,
            },
        })?)
    }

    /// Applies the update to the live state of its snapshot.
    ///
    /// # Errors
    /// Those of [`Registry::update`] and [`Registry::replace`].
    pub fn apply(self, registry: &Registry) -> Result<Update, Error> {
        if self.replaces {
            let mut staged = registry.stage(&self.snapshot)?;
            self.apply_staged(&mut staged, registry.limits())?;
            let offer = &self.offer;
            let only_if = (offer.expected_revision, offer.fence.as_ref());
            return Ok(registry.replace(&self.snapshot, staged, only_if, offer.arrived)?);
        }
        Ok(registry.update(&self.snapshot, self.offer)?)
    }

    /// Applies the update to a staged state.
    ///
    /// # Errors
    /// Those of [`Staged::apply`] and [`Staged::read_up_to`].
    pub fn apply_staged(&self, staged: &mut Staged, limits: &Limits) -> Result<Applied, Error> {
        let offer = &self.offer;
        staged.set_version(offer.version);
        let other = |other| snapshot::Error::OtherCluster(self.snapshot.clone(), other);
        let read = staged.read_up_to(&offer.resource_versions);
        read.map_err(other)?;
        Ok(staged.apply(&offer.batch, offer.defaults.clone(), limits)?)
    }
}

/// Returns the result of an update, for the wire.
pub fn response(update: &Update) -> v1::UpdateSnapshotResponse {
    counts(update.revision, &update.epoch, update.applied)
}

/// As [`response`], from its parts.
pub fn counts(revision: i64, epoch: &str, applied: Applied) -> v1::UpdateSnapshotResponse {
    v1::UpdateSnapshotResponse {
        revision,
        epoch: epoch.to_owned(),
        changed_count: i64::try_from(applied.changed).unwrap_or(i64::MAX),
        unchanged_count: i64::try_from(applied.unchanged).unwrap_or(i64::MAX),
        skipped_count: i64::try_from(applied.skipped).unwrap_or(i64::MAX),
    }
}
