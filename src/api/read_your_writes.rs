//! Read your writes: a call that names a revision, or resource versions of the source cluster,
//! waits until the snapshot has reached them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::base::Service;
use super::error::Error;
use super::{deadline, request};
use crate::matching::{Path, Violations};
use crate::snapshot::{self, FeedBehind, Limits, ResourceVersions, Snapshot};

/// The pause between two searches for a snapshot that another server has created.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The longest time to wait for a feed to read on. One that is heard lags by milliseconds.
const FEED_LAG: Duration = Duration::from_millis(100);

/// The snapshot that a request is about, and the revision that it must have reached before it is
/// asked.
#[derive(Debug, Clone)]
pub struct AskedSnapshot {
    /// The name of the snapshot.
    pub name: String,
    revision: i64,
    /// The epoch of the revision; any if empty.
    epoch: String,
    /// The versions up to which the feed must have read the source cluster.
    read: ResourceVersions,
}

impl AskedSnapshot {
    /// Checks the revision, and its epoch, in a request about the snapshot of this name.
    pub fn of(
        name: String,
        revision: i64,
        epoch: String,
        limits: &Limits,
        faults: &mut Violations,
    ) -> Self {
        request::check_not_negative(revision, Path::root("minRevision"), faults);
        request::check_length(&epoch, Path::root("epoch"), limits, faults);
        Self {
            name,
            revision,
            epoch,
            read: ResourceVersions::default(),
        }
    }

    /// Adds resource versions that the feed must have read.
    pub fn and_read(mut self, versions: BTreeMap<String, u64>, faults: &mut Violations) -> Self {
        let path = Path::root("minResourceVersions");
        self.read = ResourceVersions::of_request(versions, path, faults);
        self
    }

    fn is_anything(&self) -> bool {
        self.revision == 0 && self.epoch.is_empty() && self.read.is_empty()
    }

    fn is_epoch_of(&self, snapshot: &Snapshot) -> bool {
        self.epoch.is_empty() || snapshot.epoch() == self.epoch
    }

    fn is_reached(&self, snapshot: &Snapshot) -> bool {
        self.is_revision_reached(snapshot) && self.check_feed(snapshot).is_ok()
    }

    fn is_revision_reached(&self, snapshot: &Snapshot) -> bool {
        // The epoch comes first, because revisions of two epochs cannot be compared.
        self.is_epoch_of(snapshot) && snapshot.revision() >= self.revision
    }

    fn check_feed(&self, snapshot: &Snapshot) -> Result<(), FeedBehind> {
        match self.read.is_empty() {
            true => Ok(()),
            false => snapshot.state().resource_versions().check(&self.read),
        }
    }

    /// The last moment to wait for the snapshot, which had reached the revision at `begun`.
    fn latest(&self, snapshot: &Snapshot, begun: Instant, deadline: Instant) -> Instant {
        match self.check_feed(snapshot) {
            Err(behind) if self.is_revision_reached(snapshot) => match behind.may_catch_up() {
                true => begun
                    .checked_add(FEED_LAG)
                    .map_or(deadline, |at| deadline.min(at)),
                false => begun,
            },
            _ => deadline,
        }
    }

    /// The error for a snapshot that has not reached the revision, or whose feed has not read far
    /// enough.
    fn refusal(&self, snapshot: &Snapshot) -> Error {
        let name = snapshot.name().to_owned();
        if self.is_epoch_of(snapshot) {
            return match self.check_feed(snapshot) {
                Err(behind) if self.is_revision_reached(snapshot) => Error::FeedBehind {
                    snapshot: name,
                    behind,
                },
                _ => Error::MinRevision {
                    snapshot: name,
                    wanted: self.revision,
                    actual: snapshot.revision(),
                },
            };
        }
        Error::Snapshot(snapshot::Error::EpochMismatch {
            snapshot: name,
            expected: self.epoch.clone(),
            actual: snapshot.epoch().to_owned(),
        })
    }
}

impl Service {
    /// The snapshot of a decision, once it has reached the revision.
    ///
    /// # Errors
    /// The snapshot answers no decisions, its epoch is another one, it did not reach the revision in
    /// time, or its feed has not read far enough.
    pub(super) async fn reach(
        &self,
        asked: &AskedSnapshot,
        deadline: Option<Instant>,
    ) -> Result<Arc<Snapshot>, Error> {
        self.lookups.look_up(&self.registry, &asked.name).await;
        if asked.is_anything() {
            return Ok(self.registry.get_synced(&asked.name)?);
        }
        let mut begun = Instant::now();
        let deadline = deadline::or_patience(deadline);
        loop {
            let snapshot = match self.registry.get_synced(&asked.name) {
                Err(error) if self.may_come(asked, &error) && Instant::now() < deadline => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_AGAIN) => continue,
                        () = self.draining.cancelled() => return Err(Error::Draining),
                    }
                }
                found => found?,
            };
            // Listen before looking, so that no move is missed.
            let moved = snapshot.moved();
            if asked.is_reached(&snapshot) {
                return Ok(snapshot);
            }
            self.check_epoch(&snapshot, asked)?;
            if !asked.is_revision_reached(&snapshot) {
                begun = Instant::now();
            }
            let latest = asked.latest(&snapshot, begun, deadline);
            tokio::select! {
                () = moved => {}
                () = self.draining.cancelled() => return Err(Error::Draining),
                () = tokio::time::sleep_until(latest) => return Err(asked.refusal(&snapshot)),
            }
        }
    }

    /// Checks that the epoch of a snapshot is the requested one, or may become it: if servers share
    /// a log, another server may have begun that epoch.
    fn check_epoch(&self, snapshot: &Snapshot, asked: &AskedSnapshot) -> Result<(), Error> {
        match self.registry.is_shared() || asked.is_epoch_of(snapshot) {
            true => Ok(()),
            false => Err(asked.refusal(snapshot)),
        }
    }

    /// Returns whether a snapshot that does not answer may do so soon, because another server has
    /// begun it.
    fn may_come(&self, asked: &AskedSnapshot, error: &snapshot::Error) -> bool {
        use snapshot::Error::{NotFound, NotSynced};
        let is_hoped_for = match error {
            NotFound(_) => true,
            NotSynced(_) => !asked.is_anything(),
            _ => false,
        };
        self.registry.is_shared() && is_hoped_for
    }
}
