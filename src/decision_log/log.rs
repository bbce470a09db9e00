//! The decision log as its callers use it: they begin a record, and finish it with the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use super::brief::Brief;
use super::files::FileSettings;
use super::record::{DecisionRecord, LoggedRequest};
use super::writer::{LogCounts, LogQueue, MAX_WAITING, Writer};

/// Settings: the share of decisions that are logged, and the files.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The files.
    pub files: FileSettings,
    /// The share of the decisions that are logged: 0 to 1.
    pub sample: f64,
}

/// Takes the records of decisions.
#[derive(Debug, Clone)]
pub struct DecisionLog(Arc<LogQueue>);

/// A decision that is to be logged and is not made yet.
#[derive(Debug)]
pub struct Pending {
    log: DecisionLog,
    request: LoggedRequest,
    began: Instant,
}

impl DecisionLog {
    /// Starts a log and the thread that writes it, which runs until [`Writer::close`].
    ///
    /// # Errors
    /// When the thread cannot be started. A file that cannot be opened is no error: the writer
    /// tries again.
    pub fn start(settings: Settings) -> std::io::Result<(Self, Writer)> {
        let (queue, receiver) = sync_channel(MAX_WAITING);
        let prefix = Uuid::new_v4().simple().to_string();
        let log = Self(Arc::new(LogQueue {
            queue,
            sample: settings.sample,
            prefix: prefix[..12].to_owned(),
            next: AtomicU64::new(1),
            waiting_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            counts: LogCounts::default(),
        }));
        let writer = Writer::start(Arc::clone(&log.0), receiver, settings.files)?;
        Ok((log, writer))
    }

    /// Begins to record a decision if it is in the sample. It calls `request` only then.
    pub fn begin(&self, request: impl FnOnce() -> Option<LoggedRequest>) -> Option<Pending> {
        let sampled = self.0.sample >= 1.0 || fastrand::f64() < self.0.sample;
        if !sampled {
            return None;
        }
        Some(Pending {
            log: self.clone(),
            began: Instant::now(),
            request: request()?,
        })
    }

    /// Returns the counts of the log's work.
    pub fn counts(&self) -> &LogCounts {
        &self.0.counts
    }
}

impl Pending {
    /// Hands the record over, and returns its id for the response. A dropped record has an id, too.
    /// `took` is the time of deciding, if it was measured; otherwise the time since
    /// [`DecisionLog::begin`] counts.
    pub fn finish(
        self,
        epoch: String,
        revision: i64,
        took: Option<Duration>,
        brief: Brief,
    ) -> String {
        let log = &*self.log.0;
        let number = log.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number:x}", log.prefix);
        let decided = DecisionRecord {
            id: id.clone(),
            time: SystemTime::now(),
            took: took.unwrap_or_else(|| self.began.elapsed()),
            epoch,
            revision,
            request: self.request,
            answer: brief,
        };
        log.hand_over(decided);
        id
    }
}
