//! Threads beside those that serve, for decisions that take long. They run when
//! nobody else wants the processor: their priority is lower.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::Error;

/// How much lower their priority is, as of `nice(1)`.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

type BoxedWork = Box<dyn FnOnce() + Send>;

/// The threads, started with the first work.
pub struct AsideThreads {
    threads: usize,
    queue: OnceLock<mpsc::Sender<BoxedWork>>,
}

impl AsideThreads {
    /// So many threads. What they are given beyond that waits.
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            queue: OnceLock::new(),
        }
    }

    /// Runs `work` on one of them.
    ///
    /// # Errors
    /// [`Error::Internal`] when it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (done, end) = oneshot::channel();
        let work = move || {
            // Who panics drops `done`.
            if let Ok(value) = catch_unwind(AssertUnwindSafe(work)) {
                let _ = done.send(value);
            }
        };
        let queue = self.queue.get_or_init(|| start(self.threads));
        queue.send(Box::new(work)).map_err(|_| Error::Internal)?;
        end.await.map_err(|_| Error::Internal)
    }
}

/// Starts the threads; they end with the queue.
fn start(threads: usize) -> mpsc::Sender<BoxedWork> {
    let (queue, waiting) = mpsc::channel::<BoxedWork>();
    let waiting = Arc::new(Mutex::new(waiting));
    for index in 0..threads.max(1) {
        let waiting = Arc::clone(&waiting);
        let name = format!("aside-{index}");
        let run = move || {
            lower_priority();
            loop {
                let work = waiting.lock().recv();
                let Ok(work) = work else { return };
                work();
            }
        };
        if let Err(error) = thread::Builder::new().name(name).spawn(run) {
            tracing::warn!(%error, "no thread for decisions that take long");
        }
    }
    queue
}

/// Lowers the priority of this thread; where that is not possible, it is as it
/// was.
fn lower_priority() {
    // Elsewhere it would be that of the process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}
