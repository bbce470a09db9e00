//! The replica itself, how it waits for calls to the log, and what it counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::DashMap;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::aside::{OpenAsides, SeenParts};
use super::track::Condition;
use super::track::{Reading, Track};
use crate::backoff::Backoff;
use crate::{Error, Log, Place, Wait, visible};
use evenkeel_core::snapshot::clock::Clock;
use evenkeel_core::snapshot::{self, JournalError, Now, Registry};

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

/// The number of attempts at a call whose error may be temporary, and the pauses before them: some
/// seconds in all, as long as an election of the broker takes.
const TRIES: u32 = 10;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_280);

/// Returns the error for callers that want to change a snapshot, while something cannot be reached.
pub fn unreachable(why: impl ToString) -> JournalError {
    JournalError::Unreachable(why.to_string())
}

/// Converts the errors of calls that change nothing of a snapshot. For a record that got no answer,
/// its sender finds out whether it landed.
impl From<Error> for JournalError {
    fn from(error: Error) -> Self {
        match error {
            Error::Full(why) => Self::LogFull(visible::brief(&why).into_owned()),
            error => unreachable(error),
        }
    }
}

/// Waits for calls to the log, on threads that may wait.
#[derive(Clone)]
pub struct Waiting {
    runtime: Option<Handle>,
    pause: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl Waiting {
    /// Waits on this runtime.
    pub fn on(runtime: Handle) -> Self {
        Self::pausing(runtime, std::thread::sleep)
    }

    /// Waits on this runtime, and lets time pass in another way.
    pub fn pausing(runtime: Handle, pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self {
            runtime: Some(runtime),
            pause: Arc::new(pause),
        }
    }

    /// Waits for a log that answers at once, and lets time pass in another way.
    pub fn at_once(pause: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self {
            runtime: None,
            pause: Arc::new(pause),
        }
    }

    /// Waits for a call.
    pub fn until<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(call),
            None => call.now_or_never().expect("this log answers at once"),
        }
    }

    /// Waits for a call that changes nothing, for this long at most.
    pub fn within<T>(
        &self,
        span: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.until(async {
            match self.runtime {
                Some(_) => timeout(span, call).await.unwrap_or_else(|elapsed| {
                    let why = format!("no answer within {span:?}: {elapsed}");
                    Err(Error::Unreachable(why))
                }),
                None => call.await,
            }
        })
    }

    /// Lets time pass.
    pub fn pause(&self, span: Duration) {
        (self.pause)(span);
    }

    /// Waits for a call that may be repeated, and repeats it while that may help.
    pub fn insist<'a, T>(&self, mut call: impl FnMut() -> Wait<'a, T>) -> Result<T, Error> {
        let mut pauses = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        for _ in 0..TRIES {
            match self.until(call()) {
                Err(Error::Unreachable(_) | Error::UnknownFate(_) | Error::NotFound(_)) => {
                    self.pause(pauses.after_failure());
                }
                done => return done,
            }
        }
        self.until(call())
    }
}

/// The events since the start, of all snapshots.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records that were appended.
    pub appended: AtomicU64,
    /// Records of others that were applied.
    pub followed: AtomicU64,
    /// Appends that lost against those of others.
    pub conflicts: AtomicU64,
    /// Appends that got no answer.
    pub unknown_fates: AtomicU64,
    /// Messages that no reader applies.
    pub voids: AtomicU64,
    /// The number of times that a message that was there did not come in time.
    pub stalls: AtomicU64,
    /// The number of times that a snapshot was given up because of the content of its log.
    pub quarantines: AtomicU64,
    /// Snapshots that were read anew, from a checkpoint or from the beginning.
    pub bootstraps: AtomicU64,
    /// Checkpoints that were written.
    pub checkpoints: AtomicU64,
}

/// The progress of a replica in the log of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// Name of the snapshot.
    pub snapshot: String,
    /// The sequence of the last message that was applied.
    pub applied: u64,
    /// The sequence that the last checkpoint covers; 0 when none is known.
    pub checkpoint: u64,
    /// The reason why the log is followed no longer, if there is one.
    pub trouble: Option<String>,
}

/// Counts one more.
pub fn note(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
