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
use super::request_context::{AboutRevision, or_patience};
use super::service::Service;
use crate::matching::{Path, Violations};
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
    /// Checks what a request says about its snapshot.
    pub fn of(request: &impl AboutRevision, limits: &Limits, faults: &mut Violations) -> Self {
        let (revision, epoch) = request.revision();
        let name = request::snapshot_name(request.snapshot(), Path::root("snapshot"), faults);
        request::check_not_negative(revision, Path::root("minRevision"), faults);
        request::check_length(epoch, Path::root("epoch"), limits, faults);
        Self {
            name,
            revision,
            epoch: epoch.to_owned(),
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

    /// Checks that a snapshot has reached the revision, and that its feed has read far enough.
    ///
    /// # Errors
    /// What it lacks, and the time in which that may come; `None` if it may take as long as it likes.
    fn check(&self, snapshot: &Snapshot) -> Result<(), (Error, Option<Duration>)> {
        let name = || snapshot.name().to_owned();
        // The epoch comes first, because revisions of two epochs cannot be compared.
        if !self.epoch.is_empty() && snapshot.epoch() != self.epoch {
            let error = snapshot::Error::EpochMismatch {
                snapshot: name(),
                expected: self.epoch.clone(),
                actual: snapshot.epoch().to_owned(),
            };
            return Err((Error::Snapshot(error), None));
        }
        let actual = snapshot.revision();
        if actual < self.revision {
            let error = Error::MinRevision {
                snapshot: name(),
                wanted: self.revision,
                actual,
            };
            return Err((error, None));
        }
        if self.read.is_empty() {
            return Ok(());
        }
        let read = snapshot.state().resource_versions().check(&self.read);
        read.map_err(|behind| {
            let lag = match behind.may_catch_up() {
                true => FEED_LAG,
                false => Duration::ZERO,
            };
            let snapshot = name();
            (Error::FeedBehind { snapshot, behind }, Some(lag))
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
            let Err((refusal, lag)) = asked.check(&snapshot) else {
                return Ok(snapshot);
            };
            // If servers share a log, another server may have begun the epoch.
            if matches!(refusal, Error::Snapshot(_)) && !self.registry.is_shared() {
                return Err(refusal);
            }
            if lag.is_none() {
                begun = Instant::now();
            }
            let latest = lag.and_then(|lag| begun.checked_add(lag));
            let latest = latest.map_or(deadline, |at| deadline.min(at));
            tokio::select! {
                () = moved => {}
                () = self.draining.cancelled() => return Err(Error::Draining),
                () = tokio::time::sleep_until(latest) => return Err(refusal),
            }
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
