//! The bounded queue of records, and the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::warn;

use super::files::{FileSettings, RotatedFiles};
use super::record::{DecisionRecord, Line};

/// The most records that wait for the writer.
pub(super) const MAX_WAITING: usize = 16_384;

/// The most bytes of waiting records.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The number of bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 64 << 10;

/// The pause of the writer when no record waits. Decisions do not wake the writer: a wake-up would
/// cost a decision more than its record does.
const REST: Duration = Duration::from_millis(50);

/// The pause after a failed attempt to write.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The shortest time between two warnings that the log is incomplete.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The queue that decisions and the writer share.
#[derive(Debug)]
pub(super) struct LogQueue {
    pub(super) queue: SyncSender<QueuedRecord>,
    pub(super) sample: f64,
    /// Distinguishes the ids of this process from those of others.
    pub(super) prefix: String,
    pub(super) next: AtomicU64,
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) closed: AtomicBool,
    pub(super) counts: LogCounts,
}

/// The work of a log since the process started.
#[derive(Debug, Default)]
pub struct LogCounts {
    /// Decisions written to the file.
    pub logged: AtomicU64,
    /// Decisions that should have been logged and were not: the queue was full, or the file could
    /// not be written until the end.
    pub dropped: AtomicU64,
    /// Failed attempts to open, write or rotate a file. Each is repeated.
    pub write_errors: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
}

/// A record on its way to the writer.
#[derive(Debug)]
pub(super) struct QueuedRecord {
    pub(super) decided: DecisionRecord,
    pub(super) bytes: usize,
}

impl LogQueue {
    /// Puts a record into the queue, or drops and counts it.
    pub(super) fn hand_over(&self, decided: DecisionRecord) {
        let bytes = decided.request.memory_bytes() + size_of::<QueuedRecord>();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = waiting + bytes <= MAX_WAITING_BYTES && !self.closed.load(Ordering::Relaxed);
        let queued = QueuedRecord { decided, bytes };
        if !fits || self.queue.try_send(queued).is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The thread that writes the log.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<LogQueue>,
    thread: JoinHandle<()>,
}

impl Writer {
    pub(super) fn start(
        shared: Arc<LogQueue>,
        queue: Receiver<QueuedRecord>,
        files: FileSettings,
    ) -> std::io::Result<Self> {
        let path = files.path.display().to_string();
        let work = WriterLoop {
            shared: Arc::clone(&shared),
            queue,
            files: RotatedFiles::new(files),
            path,
            lines: Vec::new(),
            whole: 0,
            failing: false,
            warned: None,
            told: 0,
        };
        let thread = thread::Builder::new().name("decision-log".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Self { shared, thread })
    }

    /// Writes the waiting records and ends the thread. Later decisions are not logged. Records that
    /// cannot be written at once are dropped.
    pub fn close(self) {
        self.shared.closed.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            warn!("the decision log ended badly");
        }
    }
}

struct WriterLoop {
    shared: Arc<LogQueue>,
    queue: Receiver<QueuedRecord>,
    files: RotatedFiles,
    path: String,
    /// The lines that are gathered and not yet written.
    lines: Vec<u8>,
    /// The number of these lines.
    whole: u64,
    /// True if the last attempt to write failed.
    failing: bool,
    /// The time of the last warning that the log cannot be written, or is incomplete.
    warned: Option<Instant>,
    /// The number of dropped records that the last warning told.
    told: u64,
}

impl WriterLoop {
    fn run(mut self) {
        loop {
            // Records that were handed over before the close are still read below.
            let closed = self.shared.closed.load(Ordering::Acquire);
            let mut rests = false;
            while !rests && self.lines.len() < GATHERED_BYTES {
                match self.queue.try_recv() {
                    Ok(waiting) => self.gather(waiting),
                    Err(_) => rests = true,
                }
            }
            let written = self.write();
            self.tell();
            match (written, closed) {
                (true, true) if rests => return,
                (true, _) if rests => thread::park_timeout(REST),
                (true, _) => {}
                (false, false) => thread::park_timeout(RETRY_AFTER),
                (false, true) => return self.give_up(),
            }
        }
    }

    fn gather(&mut self, waiting: QueuedRecord) {
        let waiting_bytes = &self.shared.waiting_bytes;
        waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        let line = Line::from(waiting.decided);
        let before = self.lines.len();
        if serde_json::to_writer(&mut self.lines, &line).is_ok() {
            self.lines.push(b'\n');
            self.whole += 1;
        } else {
            // JSON cannot express a time in the record; requests are checked for that earlier.
            self.lines.truncate(before);
            self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the gathered records. Returns whether all were written.
    fn write(&mut self) -> bool {
        if self.lines.is_empty() {
            return true;
        }
        let counts = &self.shared.counts;
        let before = self.lines.len();
        let result = self.files.write(&mut self.lines);
        let bytes = before - self.lines.len();
        counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let left = self.lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        counts
            .logged
            .fetch_add(self.whole - left, Ordering::Relaxed);
        self.whole = left;
        let was_failing = std::mem::replace(&mut self.failing, result.is_err());
        let dropped = self.dropped();
        match &result {
            Ok(()) if was_failing => {
                self.told = dropped;
                self.warned = Some(Instant::now());
                warn!(file = %self.path, dropped, "the decision log is written again");
            }
            Ok(()) => {}
            // While the log cannot be written, dropped records are reported only here.
            Err(error) => {
                let counts = &self.shared.counts;
                counts.write_errors.fetch_add(1, Ordering::Relaxed);
                if self.may_warn() {
                    self.told = dropped;
                    warn!(file = %self.path, %error, dropped, "cannot write the decision log, trying again");
                }
            }
        }
        result.is_ok()
    }

    fn dropped(&self) -> u64 {
        self.shared.counts.dropped.load(Ordering::Relaxed)
    }

    /// Warns how many decisions are missing, once in a while.
    fn tell(&mut self) {
        let dropped = self.dropped();
        if dropped > self.told && self.may_warn() {
            self.told = dropped;
            warn!(file = %self.path, dropped, "the decision log is incomplete");
        }
    }

    fn may_warn(&mut self) -> bool {
        let now = Instant::now();
        let may = self.warned.is_none_or(|at| now - at >= WARN_EVERY);
        if may {
            self.warned = Some(now);
        }
        may
    }

    /// Counts the records that will not be written any more.
    fn give_up(mut self) {
        let waiting = self.queue.try_iter().count() as u64;
        let dropped = waiting + self.whole;
        self.shared
            .counts
            .dropped
            .fetch_add(dropped, Ordering::Relaxed);
        self.warned = None;
        self.tell();
    }
}
