//! The decision log: what was asked and what was answered, one JSON object a
//! line, for people to look at and for `evenkeel replay` to decide again
//! (`docs/decision-log.md`).
//!
//! A decision hands its record to a bounded queue and never waits: what does
//! not fit is dropped and counted. A thread of its own writes.

mod brief;
mod files;
mod record;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

pub use brief::{Brief, ConstraintBrief, Difference};
pub use files::FileSettings;
pub use record::{Decided, Line, LineError, Request};
pub use writer::Writer;

/// Records that wait for the writer, at most.
const MAX_WAITING: usize = 16_384;

/// Bytes that waiting records may take.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What is logged, and where.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The files.
    pub files: FileSettings,
    /// Which share of the decisions is logged: 0 to 1.
    pub sample: f64,
}

/// Takes the records of decisions.
#[derive(Debug, Clone)]
pub struct DecisionLog(Arc<Shared>);

/// What decisions and the writer share.
#[derive(Debug)]
struct Shared {
    queue: SyncSender<Waiting>,
    sample: f64,
    /// Tells the ids of this process from those of others.
    prefix: String,
    next: AtomicU64,
    waiting_bytes: AtomicUsize,
    closed: AtomicBool,
    counts: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    logged: AtomicU64,
    dropped: AtomicU64,
    write_errors: AtomicU64,
    bytes: AtomicU64,
}

/// What a log has done since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Decisions written to the file.
    pub logged: u64,
    /// Decisions that were to be logged and are not: the queue was full, or
    /// the file could not be written until the end.
    pub dropped: u64,
    /// Attempts to open, write or rotate a file that failed. Each is made
    /// again.
    pub write_errors: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A record on its way to the writer.
#[derive(Debug)]
struct Waiting {
    decided: Decided,
    bytes: usize,
}

/// A decision that is to be logged, not made yet.
#[derive(Debug)]
pub struct Pending {
    log: DecisionLog,
    request: Request,
    began: Instant,
}

impl DecisionLog {
    /// A log and the thread that writes it, which runs until it is closed.
    ///
    /// # Errors
    /// When the thread cannot be started. A file that cannot be opened is no
    /// error: that is tried again.
    pub fn start(settings: Settings) -> std::io::Result<(Self, Writer)> {
        let (queue, receiver): (_, Receiver<Waiting>) = sync_channel(MAX_WAITING);
        let prefix = Uuid::new_v4().simple().to_string();
        let log = Self(Arc::new(Shared {
            queue,
            sample: settings.sample,
            prefix: prefix[..12].to_owned(),
            next: AtomicU64::new(1),
            waiting_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            counts: Counters::default(),
        }));
        let writer = Writer::start(Arc::clone(&log.0), receiver, settings.files)?;
        Ok((log, writer))
    }

    /// Whether a decision that begins now is to be logged: if so, with its
    /// request.
    pub fn begin(&self, request: impl FnOnce() -> Request) -> Option<Pending> {
        let sampled = self.0.sample >= 1.0 || fastrand::f64() < self.0.sample;
        sampled.then(|| Pending {
            log: self.clone(),
            began: Instant::now(),
            request: request(),
        })
    }

    /// What it has done.
    pub fn counts(&self) -> Counts {
        let Counters {
            logged,
            dropped,
            write_errors,
            bytes,
        } = &self.0.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            logged: read(logged),
            dropped: read(dropped),
            write_errors: read(write_errors),
            bytes: read(bytes),
        }
    }
}

impl Pending {
    /// Hands the record over, and answers the id that it has, for the response
    /// to carry. A record that is dropped has an id all the same. `took` is
    /// what deciding took, if it was measured; else all since the beginning.
    pub fn finish(
        self,
        epoch: &str,
        revision: i64,
        took: Option<Duration>,
        brief: Brief,
    ) -> String {
        let log = &*self.log.0;
        let number = log.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number:x}", log.prefix);
        let decided = Decided {
            id: id.clone(),
            time: SystemTime::now(),
            took: took.unwrap_or_else(|| self.began.elapsed()),
            epoch: epoch.to_owned(),
            revision,
            request: self.request,
            answer: brief,
        };
        log.hand_over(decided);
        id
    }
}

impl Shared {
    fn hand_over(&self, decided: Decided) {
        let bytes = decided.request.memory_bytes() + size_of::<Waiting>();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = waiting + bytes <= MAX_WAITING_BYTES && !self.closed.load(Ordering::Relaxed);
        if !fits || self.queue.try_send(Waiting { decided, bytes }).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn taken(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// How long the writer rests when nothing waits. Decisions do not wake it:
/// that would cost each of them more than the record does.
const REST: Duration = Duration::from_millis(50);
