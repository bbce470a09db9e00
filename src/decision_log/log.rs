//! The decision log: decisions begin a record and finish it with the answer. The record goes through
//! a bounded queue to the thread that writes. The files are rotated by size: `FILE` is being written,
//! `FILE.1` is the previous one, and so on. (Crates that rotate files by size swallow errors of opening
//! them, or print errors that should be logged and counted.)

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tracing::warn;
use uuid::Uuid;

use super::record::{Brief, Line, LoggedRequest};

/// The most records that wait for the writer.
const MAX_WAITING: usize = 16_384;
/// The most bytes of waiting records.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The number of bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 64 << 10;

/// The pause of the writer when no record waits. Decisions do not wake the writer: a wake-up would
/// cost a decision more than its record does.
const REST: Duration = Duration::from_millis(50);

/// The pause after a failed attempt to write.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Settings: the share of decisions that are logged, and the files.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The share of the decisions that are logged: 0 to 1.
    pub sample: f64,
    /// The file that is written.
    pub path: PathBuf,
    /// A file with at least this many bytes is full.
    pub max_bytes: u64,
    /// The number of files, with the one that is written; at least 1.
    pub max_files: usize,
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

/// The queue that decisions and the writer share.
#[derive(Debug)]
struct LogQueue {
    queue: SyncSender<QueuedRecord>,
    sample: f64,
    /// Distinguishes the ids of this process from those of others.
    prefix: String,
    next: AtomicU64,
    waiting_bytes: AtomicUsize,
    closed: AtomicBool,
    counts: LogCounts,
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
struct QueuedRecord {
    line: Line,
    bytes: usize,
}

impl DecisionLog {
    /// Starts a log and the thread that writes it, which runs until [`Writer::close`].
    ///
    /// # Errors
    /// When the thread cannot be started. A file that cannot be opened is no error: the writer
    /// tries again.
    pub fn start(settings: Settings) -> std::io::Result<(Self, Writer)> {
        let (queue, records) = sync_channel(MAX_WAITING);
        let prefix = Uuid::new_v4().simple().to_string();
        let shared = Arc::new(LogQueue {
            queue,
            sample: settings.sample,
            prefix: prefix[..12].to_owned(),
            next: AtomicU64::new(1),
            waiting_bytes: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            counts: LogCounts::default(),
        });
        let work = WriterLoop {
            shared: Arc::clone(&shared),
            records,
            path: settings.path.display().to_string(),
            files: RotatedFiles {
                settings,
                open: None,
            },
            lines: Vec::new(),
            gathered: 0,
            is_failing: false,
        };
        let thread = thread::Builder::new().name("decision-log".to_owned());
        let thread = thread.spawn(move || work.run())?;
        let log = Self(Arc::clone(&shared));
        Ok((log, Writer { shared, thread }))
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
        let took = took.unwrap_or_else(|| self.began.elapsed());
        log.hand_over(Line {
            id: id.clone(),
            time: humantime::format_rfc3339_micros(SystemTime::now()).to_string(),
            snapshot: self.request.snapshot().to_owned(),
            epoch,
            revision,
            took_micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            request: self.request,
            answer: brief,
        });
        id
    }
}

impl LogQueue {
    /// Puts a record into the queue, or drops and counts it.
    fn hand_over(&self, line: Line) {
        let bytes = line.request.memory_bytes() + size_of::<QueuedRecord>();
        let waiting = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = waiting + bytes <= MAX_WAITING_BYTES && !self.closed.load(Ordering::Relaxed);
        let queued = QueuedRecord { line, bytes };
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
    records: Receiver<QueuedRecord>,
    files: RotatedFiles,
    path: String,
    /// The lines that are gathered and not yet written.
    lines: Vec<u8>,
    /// The number of these lines.
    gathered: u64,
    /// True if the last attempt to write failed.
    is_failing: bool,
}

impl WriterLoop {
    fn run(mut self) {
        loop {
            // Records that were handed over before the close are still read below.
            let closed = self.shared.closed.load(Ordering::Acquire);
            let mut rests = false;
            while !rests && self.lines.len() < GATHERED_BYTES {
                match self.records.try_recv() {
                    Ok(waiting) => self.gather(waiting),
                    Err(_) => rests = true,
                }
            }
            match (self.write(), closed) {
                (true, true) if rests => break,
                (true, _) if rests => thread::park_timeout(REST),
                (true, _) => {}
                (false, false) => thread::park_timeout(RETRY_AFTER),
                (false, true) => break,
            }
        }
        // What was not written until now is dropped.
        let waiting = self.records.try_iter().count() as u64 + self.gathered;
        let counts = &self.shared.counts;
        let dropped = waiting + counts.dropped.fetch_add(waiting, Ordering::Relaxed);
        if dropped > 0 {
            warn!(file = %self.path, dropped, "the decision log is incomplete");
        }
    }

    fn gather(&mut self, waiting: QueuedRecord) {
        let waiting_bytes = &self.shared.waiting_bytes;
        waiting_bytes.fetch_sub(waiting.bytes, Ordering::Relaxed);
        let before = self.lines.len();
        if serde_json::to_writer(&mut self.lines, &waiting.line).is_ok() {
            self.lines.push(b'\n');
            self.gathered += 1;
        } else {
            // JSON cannot express a time in the record; requests are checked for that earlier.
            self.lines.truncate(before);
            self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the gathered lines, and warns when that begins to fail and when it succeeds again.
    /// Returns whether it succeeded.
    fn write(&mut self) -> bool {
        if self.lines.is_empty() {
            return true;
        }
        let counts = &self.shared.counts;
        let dropped = counts.dropped.load(Ordering::Relaxed);
        if let Err(error) = self.files.write(&self.lines) {
            counts.write_errors.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut self.is_failing, true) {
                warn!(file = %self.path, %error, dropped, "cannot write the decision log, trying again");
            }
            return false;
        }
        if std::mem::take(&mut self.is_failing) {
            warn!(file = %self.path, dropped, "the decision log is written again");
        }
        let bytes = self.lines.len() as u64;
        counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        counts.logged.fetch_add(self.gathered, Ordering::Relaxed);
        self.lines.clear();
        self.gathered = 0;
        true
    }
}

/// The file that is being written.
#[derive(Debug)]
struct RotatedFiles {
    settings: Settings,
    /// The open file, and its size.
    open: Option<(File, u64)>,
}

impl RotatedFiles {
    /// Writes whole lines to one file. If that fails, what was written of them is removed, so that no
    /// reader sees half a line, or a line twice when they are written again.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        // After an error the file is opened again.
        let (mut file, size) = match self.open.take() {
            Some((file, size)) if size < self.settings.max_bytes => (file, size),
            Some(_) => self.next_file()?,
            None => match open(&self.settings.path)? {
                (_, size) if size >= self.settings.max_bytes => self.next_file()?,
                opened => opened,
            },
        };
        if let Err(error) = file.write_all(lines) {
            // If this fails, a part becomes a line of its own when the file is opened.
            let _ = file.set_len(size);
            return Err(error);
        }
        self.open = Some((file, size + lines.len() as u64));
        Ok(())
    }

    /// Renames every file to the next number, and opens a new one. The last file is overwritten, or
    /// deleted when it is the only one.
    fn next_file(&self) -> io::Result<(File, u64)> {
        let path = &self.settings.path;
        if self.settings.max_files <= 1 {
            fs::remove_file(path)?;
        }
        for number in (1..self.settings.max_files).rev() {
            let from = numbered(path, number - 1);
            match fs::rename(&from, numbered(path, number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        open(path)
    }
}

/// Opens a file to add lines to it. If its last line was cut off, for instance because its writer was
/// killed, that line gets an end first.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if ends_within_a_line(path) {
        file.write_all(b"\n")?;
    }
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Returns whether a file ends within a line. A file that cannot be read is taken to end with a
/// whole line.
fn ends_within_a_line(path: &Path) -> bool {
    let last = || {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() || file.metadata()?.len() == 0 {
            return Ok(b'\n');
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    last().is_ok_and(|last| last != b'\n')
}

/// `FILE.2` for 2, and `FILE` itself for 0.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}
