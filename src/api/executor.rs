//! Threads and limits for long work. It runs beside the threads that serve, so that health checks
//! and small calls never wait for it. Each kind of work has a limit on how much of it runs at once.

use std::sync::Arc;

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::Background;
use super::error::Error;
use super::request_context::RequestContext;
use super::slots::{CallSlots, FairLimiter, WorkPlace};
use crate::limits::{Limit, Limits};
use crate::tasks::{self, Task};

/// A request with more bytes is decoded beside the threads that serve. So many bytes are decoded and
/// validated in some 100 µs. One call may wait that long for another.
pub const LARGE_REQUEST: usize = 32 << 10;

/// A batch with at least this many changes is applied beside the threads that
/// serve.
pub const LARGE_BATCH: usize = 256;

/// The number of changes of snapshots that run at once. They take turns on their snapshots and wait
/// for a disk, so most of them wait.
const WRITES: usize = 64;

/// The number of exports that run at once; further ones wait.
const EXPORTS: usize = 4;

/// The amount by which the priority of long decisions and of exports is lower.
const NICENESS: i32 = 10;

/// Runs the long work of a service.
#[derive(Clone)]
pub struct Executor {
    deciding: FairLimiter,
    /// A slot for each decision that runs or waits.
    decisions: CallSlots,
    writes: FairLimiter,
    /// Held by each export, because it keeps a copy until its client has read it.
    pub(super) exporting: FairLimiter,
    /// The threads of decisions and exports.
    aside: Arc<Background>,
    /// Changes that are running. They may have the turn of a snapshot for long, so meanwhile small
    /// changes run on other threads, too, and do not wait on a thread that serves.
    running: TaskTracker,
    /// The runtime of changes, and the id of the runtime whose threads must not run them.
    apart: Option<(Handle, Id)>,
}

impl Executor {
    /// An executor for as many decisions as may run and wait.
    pub fn new(limits: &Limits) -> Self {
        let running = limits.max_running_decisions;
        let threads = running.saturating_add(EXPORTS);
        Self {
            deciding: FairLimiter::new(running),
            decisions: CallSlots::and_more(Limit::WaitingDecisions, limits, running),
            writes: FairLimiter::new(WRITES),
            exporting: FairLimiter::new(EXPORTS),
            aside: Arc::new(Background::for_work("aside", threads, NICENESS)),
            running: TaskTracker::new(),
            apart: None,
        }
    }

    /// The same executor, with changes moved to another runtime if they are called for in
    /// `background`. The threads of `background` have a lower priority, and other changes wait for
    /// the turn that a change has.
    #[must_use]
    pub fn with_changes_on(self, runtime: Handle, background: Id) -> Self {
        let apart = Some((runtime, background));
        Self { apart, ..self }
    }

    fn is_in_background(&self) -> bool {
        let is_here = |id: Id| Handle::try_current().is_ok_and(|here| here.id() == id);
        self.apart.as_ref().is_some_and(|(_, id)| is_here(*id))
    }

    /// Runs a decision. The decision can ask whether its deadline has passed or its caller is gone.
    /// The decisions of a caller wait for one another rather than for those of other callers. A
    /// decision over the limit, or over its caller's share of it, is refused at once. A decision
    /// whose deadline passes while it waits never runs.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide<T: Send + 'static>(
        &self,
        by: &RequestContext,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (slot, deadline) = (self.decisions.take(&by.who)?, by.deadline);
        // A cancelled call drops its guard, which cancels this token.
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let place = self.deciding.take_by(by).await?;
        let done = self.aside.run(move || {
            let _held = (place, slot);
            let is_late = || deadline.is_some_and(|at| Instant::now() > at);
            work(&|| gone.is_cancelled() || is_late())
        });
        until(deadline, done).await?
    }

    /// Runs a change to a snapshot, which waits for the one under way. This work is never refused for load, because a refused feed would have to begin again.
    /// Only this work may wait for a disk, so a call that writes nothing never does. It runs at the
    /// priority of the threads that serve.
    ///
    /// # Errors
    /// [`Error::Deadline`]: the change did not run in time, or it continues without its caller.
    pub async fn change<T: Send + 'static>(
        &self,
        by: &RequestContext,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let work = holding(self.running.token(), Box::new(work));
        self.waiting(&self.writes, by, Box::new(work)).await
    }

    /// Starts to write an export, which keeps its place until it ends. Nobody waits for it, so its
    /// priority may be low.
    pub fn export<T: Send + 'static>(
        &self,
        place: WorkPlace,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        tasks::spawn_blocking_on(self.aside.handle(), holding(place, Box::new(work)))
    }

    /// As [`Self::change`], but in place if the change is small and no long
    /// work is running.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn change_soon<T: Send + 'static>(
        &self,
        is_large: bool,
        by: &RequestContext,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if is_large || !self.running.is_empty() || self.is_in_background() {
            return self.change(by, work).await;
        }
        Ok(work())
    }

    /// Runs work that no other call waits for: checks, or changes of a state that is not published. It runs at the priority of the calling thread, and in place if it is
    /// small.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn unlocked<T: Send + 'static>(
        &self,
        is_large: bool,
        by: &RequestContext,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if !is_large {
            return Ok(work());
        }
        let place = self.writes.take_by(by).await?;
        let work = holding(place, Box::new(work));
        done(by.deadline, tasks::spawn_blocking(work)).await
    }

    /// Runs `work` on a blocking thread, once there is a place for it.
    async fn waiting<T: Send + 'static>(
        &self,
        places: &FairLimiter,
        by: &RequestContext,
        work: BoxedWork<T>,
    ) -> Result<T, Error> {
        let work = holding(places.take_by(by).await?, work);
        match &self.apart {
            // A thread inherits the priority of the thread that starts it, so a thread of the other
            // runtime has to start the thread for this work.
            Some((runtime, _)) if self.is_in_background() => {
                let start = async { tasks::spawn_blocking(work).await };
                let started = tasks::spawn_on(runtime, start);
                let ended = done(by.deadline, started).await?;
                ended.map_err(|_| Error::Internal)
            }
            _ => done(by.deadline, tasks::spawn_blocking(work)).await,
        }
    }
}

impl FairLimiter {
    /// A place for the caller of a request, until its deadline.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub(super) async fn take_by(&self, by: &RequestContext) -> Result<WorkPlace, Error> {
        until(by.deadline, self.take(&by.who)).await
    }
}

/// Work to run on another thread. Boxed, so that the code around it is compiled once for each type
/// of result.
type BoxedWork<T> = Box<dyn FnOnce() -> T + Send>;

/// Wraps `work` so that it holds its slot, or counts as running, until it is done.
fn holding<H, T>(held: H, work: BoxedWork<T>) -> impl FnOnce() -> T {
    move || {
        let _held = held;
        work()
    }
}

/// Waits for a task until the deadline.
async fn done<T: 'static>(deadline: Option<Instant>, task: Task<T>) -> Result<T, Error> {
    until(deadline, task).await?.map_err(|_| Error::Internal)
}

/// Waits for `future` until the deadline, if there is one.
///
/// # Errors
/// [`Error::Deadline`].
pub async fn until<T>(
    deadline: Option<Instant>,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future)
            .await
            .map_err(|_| Error::Deadline),
        None => Ok(future.await),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    const LOWEST: i32 = 19;

    #[test]
    fn what_has_the_turn_runs_at_the_priority_of_those_that_serve() {
        let background = Background::for_tasks("background", 1, LOWEST).expect("it starts");
        let serving = tokio::runtime::Runtime::new().expect("it starts");
        let executor = Executor::new(&Limits::default());
        let executor = executor.with_changes_on(serving.handle().clone(), background.handle().id());
        let priority = || getpriority_process(None).expect("this thread has one");
        let usual = priority();
        let of_runs = background
            .handle()
            .block_on(background.handle().spawn(async move {
                let by = RequestContext::default();
                let small = executor.change_soon(false, &by, priority).await?;
                let large = executor.change_soon(true, &by, priority).await?;
                let staged = executor.unlocked(true, &by, priority).await?;
                let export = executor.export(executor.exporting.take_by(&by).await?, priority);
                let exported = export.await.map_err(|_| Error::Internal)?;
                Ok::<_, Error>([small, large, staged, exported])
            }));
        let of_runs = of_runs.expect("no panic").expect("no deadline");
        let lower = (usual + NICENESS).min(LOWEST);
        assert_eq!(of_runs, [usual, usual, LOWEST, lower]);
    }
}
