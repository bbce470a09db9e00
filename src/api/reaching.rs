//! Read your writes: a call that names a revision waits until the snapshot has reached it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::base::Service;
use super::error::Error;
use super::{deadline, request};
use crate::matching::{Path, Violations};
use crate::snapshot::{self, Limits, Snapshot};

/// The pause between two looks for a snapshot that another server has created.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The revision, and its epoch, that a snapshot must have reached before it is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtLeast {
    revision: i64,
    /// The epoch of the revision; any if empty.
    epoch: String,
}

impl AtLeast {
    /// Reads it from a request.
    pub fn of(revision: i64, epoch: String, limits: &Limits, faults: &mut Violations) -> Self {
        request::check_not_negative(revision, Path::root("minRevision"), faults);
        request::check_length(&epoch, Path::root("epoch"), limits, faults);
        Self { revision, epoch }
    }

    fn is_anything(&self) -> bool {
        self.revision == 0 && self.epoch.is_empty()
    }

    fn is_epoch_of(&self, snapshot: &Snapshot) -> bool {
        self.epoch.is_empty() || snapshot.epoch() == self.epoch
    }

    fn is_reached(&self, snapshot: &Snapshot) -> bool {
        // The epoch comes first: a revision is that of its epoch.
        self.is_epoch_of(snapshot) && snapshot.revision() >= self.revision
    }

    /// The error for a snapshot that has not reached it.
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
    /// The snapshot of a decision; `None` if it has to be waited for.
    ///
    /// # Errors
    /// It answers no decisions, or its epoch is another one.
    pub(super) fn reached(&self, name: &str, at: &AtLeast) -> Result<Option<Arc<Snapshot>>, Error> {
        let snapshot = match self.registry.get_synced(name) {
            Err(error) if !at.is_anything() && self.may_come(&error) => return Ok(None),
            found => found?,
        };
        if at.is_anything() || at.is_reached(&snapshot) {
            return Ok(Some(snapshot));
        }
        self.check_epoch(&snapshot, at)?;
        Ok(None)
    }

    /// The snapshot of a decision, once it has come that far.
    ///
    /// # Errors
    /// Those of [`Self::reached`], and that it did not come that far in time.
    pub(super) async fn reach(
        &self,
        name: &str,
        at: &AtLeast,
        deadline: Option<Instant>,
    ) -> Result<Arc<Snapshot>, Error> {
        if at.is_anything() {
            return Ok(self.registry.get_synced(name)?);
        }
        let latest = deadline::or_patience(deadline);
        loop {
            let snapshot = match self.registry.get_synced(name) {
                Err(error) if self.may_come(&error) && Instant::now() < latest => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_AGAIN) => continue,
                        () = self.draining.cancelled() => return Err(Error::Draining),
                    }
                }
                found => found?,
            };
            // Start to listen before looking, so that no move is missed.
            let moved = snapshot.moved();
            if at.is_reached(&snapshot) {
                return Ok(snapshot);
            }
            self.check_epoch(&snapshot, at)?;
            tokio::select! {
                () = moved => {}
                () = self.draining.cancelled() => return Err(Error::Draining),
                () = tokio::time::sleep_until(latest) => return Err(at.refusal(&snapshot)),
            }
        }
    }

    /// That the epoch of a snapshot is, or may become, the one that is asked for: of
    /// servers that share a log another one may have begun it.
    fn check_epoch(&self, snapshot: &Snapshot, at: &AtLeast) -> Result<(), Error> {
        match self.registry.is_shared() || at.is_epoch_of(snapshot) {
            true => Ok(()),
            false => Err(at.refusal(snapshot)),
        }
    }

    /// Returns whether a snapshot that does not answer may do so soon: another server has
    /// begun it.
    fn may_come(&self, error: &snapshot::Error) -> bool {
        use snapshot::Error::{NotFound, NotSynced};
        self.registry.is_shared() && matches!(error, NotFound(_) | NotSynced(_))
    }
}
