//! Between decisions and the writer: the bounded queue of records, and their
//! counters.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use super::record::DecisionRecord;

/// Records that wait for the writer, at most.
pub(super) const MAX_WAITING: usize = 16_384;

/// Bytes that waiting records may take.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What decisions and the writer share.
#[derive(Debug)]
pub(super) struct LogQueue {
    pub(super) queue: SyncSender<QueuedRecord>,
    pub(super) sample: f64,
    /// Tells the ids of this process from those of others.
    pub(super) prefix: String,
    pub(super) next: AtomicU64,
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) closed: AtomicBool,
    pub(super) counts: LogCounters,
}

/// What has been done so far.
#[derive(Debug, Default)]
pub(super) struct LogCounters {
    pub(super) logged: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// What a log has done since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogCounts {
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
        if !fits
            || self
                .queue
                .try_send(QueuedRecord { decided, bytes })
                .is_err()
        {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a record of this many bytes no longer waits.
    pub(super) fn taken(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl LogCounters {
    /// What they are now.
    pub(super) fn read(&self) -> LogCounts {
        let Self {
            logged,
            dropped,
            write_errors,
            bytes,
        } = self;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LogCounts {
            logged: read(logged),
            dropped: read(dropped),
            write_errors: read(write_errors),
            bytes: read(bytes),
        }
    }
}
