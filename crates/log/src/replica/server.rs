//! The replica itself.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::time::sleep;

use super::condition::Condition;
use super::counts::{Counts, Lag};
use super::parts::{OpenAsides, SeenParts};
use super::track::{Reading, Track};
use super::waiting::Waiting;
use crate::{Bounds, Error, Log, Place};
use evenkeel_core::snapshot::{self, Clock, Now, Registry};

/// The time for which a full log is told after it has refused a record.
const FULL: Duration = Duration::from_secs(300);

/// The pause before another look at a log that somebody else reads at the moment.
const BUSY: Duration = Duration::from_millis(5);

/// One of several servers that share a log.
pub struct Replica {
    pub(super) log: Arc<dyn Log>,
    pub(super) waiting: Waiting,
    pub(super) clock: Clock,
    /// The name of this server in records.
    pub(super) writer: String,
    pub(super) registry: OnceLock<Weak<Registry>>,
    tracks: DashMap<String, Arc<Track>>,
    pub(super) asides: OpenAsides,
    /// The parts that the last search for orphans found.
    pub(super) seen_parts: Mutex<HashMap<String, SeenParts>>,
    pub(super) counts: Counts,
}

impl Replica {
    /// A replica of this name. It has to be given the registry whose journal it is:
    /// [`Self::serve`].
    pub fn new(
        log: Arc<dyn Log>,
        writer: String,
        waiting: Waiting,
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Self {
        Self {
            log,
            waiting,
            clock: Arc::new(clock),
            writer,
            registry: OnceLock::new(),
            tracks: DashMap::new(),
            asides: OpenAsides::default(),
            seen_parts: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Sets the registry whose journal the replica is.
    pub fn serve(&self, registry: &Arc<Registry>) {
        self.registry.get_or_init(|| Arc::downgrade(registry));
    }

    /// Returns the counts of its work.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns its progress in each log, in any order.
    pub fn lags(&self) -> Vec<Lag> {
        let lag = |track: &Track| Lag {
            snapshot: track.name.clone(),
            applied: track.applied.load(Ordering::Relaxed),
            checkpoint: track.checkpoint.load(Ordering::Relaxed),
            // A holder of the lock follows the log, or heals it.
            trouble: track
                .reading
                .try_lock()
                .and_then(|r| r.condition.trouble())
                .or_else(|| self.fullness(track)),
        };
        self.tracks.iter().map(|track| lag(&track)).collect()
    }

    /// The reason why a log took no record lately, if it is full.
    fn fullness(&self, track: &Track) -> Option<String> {
        let full = track.full.lock();
        let (at, why) = full.as_ref()?;
        let is_late = (self.clock)().steady.since(*at) < FULL;
        is_late.then(|| format!("it takes no changes: {why}"))
    }

    /// Returns the faults of logs, in words for people.
    pub fn troubles(&self) -> Vec<String> {
        let troubles = self.lags().into_iter().filter_map(|lag| {
            let trouble = lag.trouble?;
            Some(format!("log of snapshot {}: {trouble}", lag.snapshot))
        });
        troubles.chain(self.log.troubles()).collect()
    }

    /// Looks for snapshots that other servers created. Returns all names that have a log, or had a
    /// log of which something was read.
    ///
    /// # Errors
    /// The log cannot be reached.
    pub fn discover(&self) -> Result<Vec<String>, Error> {
        let mut names = self.waiting.until(self.log.names())?;
        for name in &names {
            self.track(name);
        }
        // The follower of each finds out what became of its log.
        let is_read = |track: &Track| track.applied.load(Ordering::Relaxed) > 0;
        let read = self.tracks.iter().filter(|track| is_read(track));
        names.extend(read.map(|track| track.name.clone()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Makes a snapshot apply the records of other servers, or reads it anew if needed; with `all`,
    /// it applies everything that was acknowledged before. Takes the turn of the snapshot.
    ///
    /// # Errors
    /// [`snapshot::Error::NotStored`]: the log cannot be followed now. The same
    /// may be tried again.
    pub fn follow(&self, name: &str, all: bool) -> Result<(), snapshot::Error> {
        let Some(registry) = self.registry() else {
            return Ok(());
        };
        let track = self.track(name);
        let not_stored = snapshot::Error::NotStored;
        // A snapshot that began with a checkpoint was read to the end.
        let all = all && !self.begin(&registry, &track).map_err(not_stored)?;
        self.heal(&registry, &track).map_err(not_stored)?;
        let followed = registry.catch_up(name, all);
        match self.heal(&registry, &track).map_err(not_stored)? {
            true => registry.catch_up(name, all),
            false => followed,
        }
    }

    /// Waits until a snapshot has something to [follow](Self::follow), for so long at most. Returns
    /// whether it has. Takes no turn, and no thread.
    pub async fn wait(&self, name: &str, within: Duration) -> bool {
        let track = self.track(name);
        let (follower, applied) = loop {
            let Some(reading) = track.reading.try_lock() else {
                // A holder of the lock follows the log, or heals it.
                sleep(BUSY).await;
                continue;
            };
            let is_due = reading.condition != Condition::Following || !reading.ready.is_empty();
            if is_due || reading.proved != self.log.connection() {
                return true;
            }
            break (Arc::clone(&reading.follower), reading.place.sequence);
        };
        match follower.next(applied, within).await {
            Ok(message) => message.is_some(),
            // `follow` finds out the fault, with the turn.
            Err(Error::Trimmed(_) | Error::Shorter(_)) => true,
            // The log has not begun, or is gone.
            Err(Error::NotFound(_)) => applied > 0,
            Err(_) => false,
        }
    }

    /// Learns where logs end. A log that is said to go on is followed again if nothing came of it
    /// since the last time: a consumer that is stuck is as silent as a log to which nothing is
    /// added. Returns how far the logs were read that are said to go on; `late` is what the last
    /// call returned.
    pub fn note_ends(
        &self,
        ends: &HashMap<String, Bounds>,
        late: &HashMap<String, u64>,
    ) -> HashMap<String, u64> {
        let mut later = HashMap::new();
        for (name, bounds) in ends {
            let track = self.track(name);
            let applied = track.applied.load(Ordering::Relaxed);
            if bounds.last <= applied {
                continue;
            }
            if late.get(name) == Some(&applied)
                && let Some(mut reading) = track.reading.try_lock()
            {
                reading.follower = self.log.follow(name, reading.place.sequence);
            }
            later.insert(name.clone(), applied);
        }
        later
    }

    /// The log of a snapshot.
    pub(super) fn track(&self, name: &str) -> Arc<Track> {
        if let Some(track) = self.tracks.get(name) {
            return Arc::clone(&track);
        }
        let track = || {
            let reading = Reading::from(Place::START, &*self.log, name);
            Arc::new(Track::new(name, reading))
        };
        Arc::clone(&self.tracks.entry(name.to_owned()).or_insert_with(track))
    }

    pub(super) fn registry(&self) -> Option<Arc<Registry>> {
        self.registry.get().and_then(Weak::upgrade)
    }
}
