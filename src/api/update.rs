//! `UpdateSnapshot`: a request becomes a batch.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::request;
use crate::limits::Limit;
use crate::matching::{KubernetesVersion, Path, Violations};
use crate::proto::received::ReceivedUpdate;
use crate::proto::v1;
use crate::snapshot::{
    Applied, Batch, Defaults, Fence, Limits, Moment, Offer, Registry, Staged, Update,
};

/// A valid update request.
#[derive(Debug)]
pub struct ValidUpdate {
    /// The name of the snapshot.
    pub snapshot: String,
    /// The changes.
    pub batch: Batch,
    /// Default constraints to set.
    pub defaults: Option<Arc<Defaults>>,
    /// The version of Kubernetes to set.
    pub version: Option<KubernetesVersion>,
    /// True if the changes are the whole state.
    pub replaces: bool,
    /// The revision that the snapshot must have.
    pub expected_revision: Option<i64>,
    /// The right that the update needs, if it needs one.
    pub fence: Option<Fence>,
    /// The moment when the server had read the update, by the clock of the registry.
    pub arrived: Moment,
    /// The age of the feed's knowledge at that moment.
    pub age: Duration,
}

impl ValidUpdate {
    /// Checks a request that arrived at the moment `arrived`. `parent` is the field of another
    /// request that contains this one; `None` if none does.
    ///
    /// # Errors
    /// Every fault of the request.
    pub fn of(
        received: ReceivedUpdate,
        parent: Option<&Path<'_>>,
        arrived: Moment,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let field = |name| match parent {
            Some(parent) => parent.field(name),
            None => Path::root(name),
        };
        let ReceivedUpdate {
            request: wire,
            changes,
        } = received;
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
        let path = field("changes");
        let count = changes.len();
        let batch = match faults.within(path, limits, Limit::ChangesPerBatch, count) {
            true => faults.collect(Batch::read(changes, limits, path)),
            false => {
                // Unreadable changes are refused as such, however many there are.
                faults.collect(Batch::can_be_read(changes, path));
                None
            }
        };
        Ok(faults.finish(Self {
            snapshot,
            batch: batch.unwrap_or_default(),
            defaults: defaults.flatten().map(Arc::new),
            version,
            replaces: mode == v1::Mode::Replace,
            expected_revision: wire.expected_revision,
            fence: None,
            arrived,
            age,
        })?)
    }

    /// Applies the update to the live state of its snapshot.
    ///
    /// # Errors
    /// Those of [`Registry::update`] and [`Registry::replace`].
    pub fn apply(self, registry: &Registry) -> Result<Update, Error> {
        if self.replaces {
            let mut staged = registry.stage(&self.snapshot)?;
            self.apply_aside(&mut staged, registry.limits())?;
            let only_if = (self.expected_revision, self.fence.as_ref());
            return Ok(registry.replace(&self.snapshot, staged, only_if, self.arrived)?);
        }
        let (snapshot, offer) = self.into_offer();
        Ok(registry.update(&snapshot, offer)?)
    }

    /// Applies the update to a state that is built aside.
    ///
    /// # Errors
    /// Those of [`Staged::apply`].
    pub fn apply_aside(&self, staged: &mut Staged, limits: &Limits) -> Result<Applied, Error> {
        staged.set_version(self.version);
        Ok(staged.apply(&self.batch, self.defaults.clone(), limits)?)
    }

    /// Returns the name of the snapshot and the offer to it, for an update that does not replace.
    pub fn into_offer(self) -> (String, Offer) {
        let offer = Offer {
            batch: Arc::new(self.batch),
            defaults: self.defaults,
            version: self.version,
            expected_revision: self.expected_revision,
            fence: self.fence,
            arrived: self.arrived,
            age: self.age,
        };
        (self.snapshot, offer)
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
    }
}
