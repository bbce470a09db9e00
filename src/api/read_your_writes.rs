//! Read your writes: a call that names a revision waits until the snapshot has reached it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::base::Service;
use super::error::Error;
use super::{deadline, request};
use crate::matching::{Path, Violations};
use crate::snapshot::{self, Limits, Snapshot};

/// The pause between two searches for a snapshot that another server has created.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The snapshot that a request is about, and the revision that it must have reached before it is
/// asked.
#[derive(Debug, Clone)]
pub struct AskedSnapshot {
    /// The name of the snapshot.
    pub name: String,
    revision: i64,
    /// The epoch of the revision; any if empty.
    epoch: String,
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
        }
    }

    fn is_anything(&self) -> bool {
        self.revision == 0 && self.epoch.is_empty()
    }

    fn is_epoch_of(&self, snapshot: &Snapshot) -> bool {
        self.epoch.is_empty() || snapshot.epoch() == self.epoch
    }

    fn is_reached(&self, snapshot: &Snapshot) -> bool {
        // The epoch comes first, because revisions of two epochs cannot be compared.
        self.is_epoch_of(snapshot) && snapshot.revision() >= self.revision
    }

    /// The error for a snapshot that has not reached the revision.
    fn refusal(&self, snapshot: &Snapshot) -> Error {
        let name = snapshot.name().to_owned();
        if self.is_epoch_of(snapshot) {
            return Error::MinRevision {
                snapshot: name,
                wanted: self.revision,
                actual: snapshot.revision(),
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
    /// The snapshot of a decision; `None` if the call has to wait for it.
    ///
    /// # Errors
    /// The snapshot answers no decisions, or its epoch is another one.
    pub(super) fn reached(&self, asked: &AskedSnapshot) -> Result<Option<Arc<Snapshot>>, Error> {
        let snapshot = match self.registry.get_synced(&asked.name) {
            Err(error) if self.may_come(asked, &error) => return Ok(None),
            found => found?,
        };
        if asked.is_anything() || asked.is_reached(&snapshot) {
            return Ok(Some(snapshot));
        }
        self.check_epoch(&snapshot, asked)?;
        Ok(None)
    }

    /// The snapshot of a decision, once it has reached the revision.
    ///
    /// # Errors
    /// Those of [`Self::reached`], and that it did not reach the revision in time.
    pub(super) async fn reach(
        &self,
        asked: &AskedSnapshot,
        deadline: Option<Instant>,
    ) -> Result<Arc<Snapshot>, Error> {
        self.lookups.look_up(&self.registry, &asked.name).await;
        if asked.is_anything() {
            return Ok(self.registry.get_synced(&asked.name)?);
        }
        let latest = deadline::or_patience(deadline);
        loop {
            let snapshot = match self.registry.get_synced(&asked.name) {
                Err(error) if self.may_come(asked, &error) && Instant::now() < latest => {
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
