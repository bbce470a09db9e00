//! Read your writes: a call that names a revision, or resource versions of the source cluster,
//! waits until the snapshot has reached them. A snapshot that this server does not know is looked up
//! in the log: another server may have just created it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::Error;
use super::request;
use super::request_context::or_patience;
use super::service::Service;
use crate::matching::{Path, Violations};
use crate::snapshot::resource_versions::FeedBehind;
use crate::snapshot::{self, Limits, Registry, ResourceVersions, Snapshot};
use crate::tasks;

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
        let deadline = or_patience(deadline);
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

/// The time for which the result of a lookup stays valid.
const VALID: Duration = Duration::from_secs(1);

/// The number of names that are looked up in that time: callers may ask for any.
const MOST_NAMES: usize = 1_000;

/// The last lookup of a name. It is locked during the lookup, so that all callers wait for it.
type Lookup = Arc<tokio::sync::Mutex<Option<Instant>>>;

/// The names that were looked up lately.
#[derive(Default)]
pub struct Lookups(Mutex<HashMap<String, Lookup>>);

impl Lookups {
    /// The last lookup of a name; `None` if too many names are looked up.
    fn of(&self, name: &str) -> Option<Lookup> {
        let mut all = self.0.lock();
        if all.len() >= MOST_NAMES {
            let is_valid = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < VALID);
            all.retain(|_, lookup| lookup.try_lock().map_or(true, |at| is_valid(&at)));
        }
        if all.len() >= MOST_NAMES && !all.contains_key(name) {
            return None;
        }
        Some(Arc::clone(all.entry(name.to_owned()).or_default()))
    }

    /// If a registry does not know a snapshot, and shares a log with others, asks the log for it: at
    /// most once a second.
    pub async fn look_up(&self, registry: &Arc<Registry>, name: &str) {
        let is_unknown = || matches!(registry.get(name), Err(snapshot::Error::NotFound(_)));
        if !registry.is_shared() || !is_unknown() {
            return;
        }
        let Some(lookup) = self.of(name) else {
            return;
        };
        let mut last = lookup.lock().await;
        if last.is_some_and(|at| at.elapsed() < VALID) {
            return;
        }
        let (registry, name) = (Arc::clone(registry), name.to_owned());
        // A snapshot that cannot be read now is still unknown.
        let _ = tasks::spawn_blocking(move || registry.look_up(&name)).await;
        *last = Some(Instant::now());
    }
}
