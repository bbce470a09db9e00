//! Separate threads for long work. Their priority is lower than that of the
//! serving threads.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

use super::error::Error;
use crate::tasks;

/// Threads of a lower priority. Dropping this ends them, without waiting for them.
#[derive(Debug)]
pub struct Background(Option<Runtime>);

impl Background {
    /// `threads` threads for tasks that wait now and then. Their priority is lower by `niceness`,
    /// as in `nice(1)`.
    ///
    /// # Errors
    /// When the threads cannot be started.
    pub fn for_tasks(name: &str, threads: usize, niceness: i32) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).enable_all();
        Self::build(&mut builder, name, niceness)
    }

    /// Up to this many threads for work that does not wait, each started when
    /// needed. Further work waits.
    pub fn for_work(name: &str, threads: usize, niceness: i32) -> Self {
        let mut builder = Builder::new_current_thread();
        builder.max_blocking_threads(threads.max(1));
        let built = Self::build(&mut builder, name, niceness);
        built.expect("without I/O and timers a runtime needs nothing of the system")
    }

    fn build(builder: &mut Builder, name: &str, niceness: i32) -> io::Result<Self> {
        // Starts from the priority of the thread that builds the runtime. A thread that starts
        // another one may already have a lower priority.
        let priority = priority_here().saturating_add(niceness);
        let runtime = builder
            .thread_name(name)
            .on_thread_start(move || set_priority(priority))
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Returns the handle by which tasks are started.
    pub fn handle(&self) -> &Handle {
        let runtime = self.0.as_ref();
        runtime.expect("it is there until the drop").handle()
    }

    /// Runs `work` on one of the threads.
    ///
    /// # Errors
    /// [`Error::Internal`] when it panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let done = tasks::spawn_blocking_on(self.handle(), work).await;
        done.map_err(|_| Error::Internal)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The thread that drops this must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The priority of this thread, as in `nice(1)`: a server may be started with a low one. Only Linux
/// has priorities of single threads.
fn priority_here() -> i32 {
    #[cfg(target_os = "linux")]
    return rustix::process::getpriority_process(None).unwrap_or(0);
    #[cfg(not(target_os = "linux"))]
    0
}

/// Sets the priority of this thread alone. The system replaces a priority below its lowest by the
/// lowest.
fn set_priority(priority: i32) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, priority);
    #[cfg(not(target_os = "linux"))]
    let _ = priority;
}
