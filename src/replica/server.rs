//! The replica itself.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use super::clocks::ClockWatch;
use super::condition::Condition;
use super::counts::{Counts, Lag};
use super::directory::Local;
use super::parts::{OpenAsides, SeenParts};
use super::track::Track;
use super::waiting::Waiting;
use crate::log::{Error, Log};
use crate::snapshot::{self, Clock, Now, Registry};
use crate::store::Store;

/// The time, by the clock of the log, between the records after which servers compare what they
/// hold.
const COMPARES_EVERY: Duration = Duration::from_secs(900);

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
    /// The parts of blobs that there were when it was last looked what nobody needs.
    pub(super) seen_parts: Mutex<HashMap<String, SeenParts>>,
    pub(super) counts: Counts,
    /// The state directory that it keeps besides the log, if it does.
    pub(super) local: Option<Local>,
    /// The time between the records after which servers compare what they hold.
    pub(super) compares_every: Duration,
    pub(super) clocks: ClockWatch,
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
            local: None,
            compares_every: COMPARES_EVERY,
            clocks: ClockWatch::default(),
        }
    }

    /// The same replica, which keeps what it reads in a state directory as well.
    #[must_use]
    pub fn with_local(mut self, store: Arc<Store>) -> Self {
        self.local = Some(Local {
            store,
            behind: Mutex::default(),
            found: Mutex::default(),
        });
        self
    }

    /// The same replica, which compares what it holds with other servers more often, or
    /// less. All have to agree on how often.
    #[must_use]
    pub fn comparing_every(mut self, every: Duration) -> Self {
        self.compares_every = every;
        self
    }

    /// Says whose journal it is.
    pub fn serve(&self, registry: &Arc<Registry>) {
        self.registry.get_or_init(|| Arc::downgrade(registry));
    }

    /// Returns what it has done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how far it has come in each log, in any order.
    pub fn lags(&self) -> Vec<Lag> {
        let clock = self.clocks.trouble();
        let lag = |track: &Track| Lag {
            snapshot: track.name.clone(),
            applied: track.applied.load(Ordering::Relaxed),
            checkpoint: track.checkpoint.load(Ordering::Relaxed),
            // Whoever holds it follows, or heals.
            trouble: track
                .reading
                .try_lock()
                .and_then(|r| r.condition.trouble())
                .or_else(|| clock.clone()),
        };
        self.tracks.iter().map(|track| lag(&track)).collect()
    }

    /// Finds out which copies of the logs of these snapshots, and of the blobs and keys beside
    /// them, lack something. From then on, servers decide that lack nothing.
    ///
    /// # Errors
    /// It cannot be found out now.
    pub fn inspect(&self, names: &[String]) -> Result<(), Error> {
        let logs = names.iter().map(|name| Some(&**name));
        for of in std::iter::once(None).chain(logs) {
            match self.waiting.until(self.log.inspect(of, false)) {
                // It was removed.
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the faults of logs and their copies, in words for people.
    pub fn troubles(&self) -> Vec<String> {
        let troubles = self.lags().into_iter().filter_map(|lag| {
            let trouble = lag.trouble?;
            Some(format!("log of snapshot {}: {trouble}", lag.snapshot))
        });
        troubles.chain(self.log.troubles()).collect()
    }

    /// Looks for snapshots that other servers created; all names that have a log, or
    /// had one of which something was read.
    ///
    /// # Errors
    /// The log cannot be reached.
    pub fn discover(&self) -> Result<Vec<String>, Error> {
        let mut names = self.waiting.until(self.log.names())?;
        for name in &names {
            self.track(name);
        }
        // Who follows them finds out what became of their logs.
        let is_read = |track: &Track| track.applied.load(Ordering::Relaxed) > 0;
        let read = self.tracks.iter().filter(|track| is_read(track));
        names.extend(read.map(|track| track.name.clone()));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Has a snapshot apply what others have appended, or be read anew where that
    /// is needed; with `all` everything that was acknowledged before. Takes the
    /// turn of the snapshot.
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
        // What was read from a checkpoint on was read to the end.
        let all = all && !self.begin(&registry, &track).map_err(not_stored)?;
        self.heal(&registry, &track).map_err(not_stored)?;
        let followed = registry.catch_up(name, all);
        match self.heal(&registry, &track).map_err(not_stored)? {
            true => registry.catch_up(name, all),
            false => followed,
        }
    }

    /// Waits until a snapshot has something to [follow](Self::follow), for so long
    /// at most; whether it has. Takes no turn.
    pub fn wait(&self, name: &str, within: Duration) -> bool {
        let track = self.track(name);
        let (follower, applied) = {
            let reading = track.reading.lock();
            let is_due = reading.condition != Condition::Following || !reading.ready.is_empty();
            if is_due || reading.proved != self.log.connection() {
                return true;
            }
            (Arc::clone(&reading.follower), reading.place.sequence)
        };
        let next = self.waiting.until(follower.next(applied, within));
        match next {
            Ok(message) => message.is_some(),
            // What is wrong is found out with the turn.
            Err(Error::Trimmed(_) | Error::Shorter(_)) => true,
            // It has not begun, or is gone.
            Err(Error::NotFound(_)) => applied > 0,
            Err(_) => false,
        }
    }

    /// The log of a snapshot.
    pub(super) fn track(&self, name: &str) -> Arc<Track> {
        if let Some(track) = self.tracks.get(name) {
            return Arc::clone(&track);
        }
        let track = || Arc::new(Track::new(name, &*self.log));
        Arc::clone(&self.tracks.entry(name.to_owned()).or_insert_with(track))
    }

    pub(super) fn registry(&self) -> Option<Arc<Registry>> {
        self.registry.get().and_then(Weak::upgrade)
    }
}
