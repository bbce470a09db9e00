//! Where long work runs: on threads beside those that serve, so that health
//! checks and small calls never wait for it. Each kind of work has a limit on
//! how much of it runs at once.

use std::sync::Arc;

use tokio::runtime::{Handle, Id};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::background::Background;
use super::error::Error;
use super::opening::Asker;
use super::slots::{CallSlots, Seats};
use crate::limits::{Limit, Limits};
use crate::tasks::{self, Task};

/// A request with more bytes is decoded beside the threads that serve.
pub const LARGE_REQUEST: usize = 32 << 10;

/// A batch with at least this many changes is applied beside the threads that
/// serve.
pub const LARGE_BATCH: usize = 256;

/// How many changes run at once. They take turns on their snapshots and wait
/// for a disk, so most of them wait.
const WRITES: usize = 64;

/// How many small reads of snapshots run beside the threads that serve, and how
/// many small decisions wait for a lock there.
const LOOKS: usize = 16;

/// How many copies of snapshots are made at once.
const COPIES: usize = 8;

/// How many exports run at once; more wait.
const EXPORTS: usize = 4;

/// By how much the priority of long decisions and of exports is lower.
const NICENESS: i32 = 10;

/// The lanes of a service.
#[derive(Clone)]
pub struct Lanes {
    deciding: Seats,
    /// A slot for each decision that runs or waits.
    decisions: CallSlots,
    writes: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    held: Arc<Semaphore>,
    copies: Arc<Semaphore>,
    /// Held by each export: it keeps a copy until its client has read it.
    pub(super) exporting: Arc<Semaphore>,
    /// Where decisions run.
    aside: Arc<Background>,
    /// Where exports are written.
    exports: Arc<Background>,
    /// Changes and copies that are running now. They may hold locks for long, so
    /// small calls run in a lane too then, and do not wait on a thread that serves.
    running: TaskTracker,
    /// Where changes run, and the runtime whose threads they must not run on.
    apart: Option<(Handle, Id)>,
}

impl Lanes {
    /// Lanes for as many decisions as may run and wait.
    pub fn new(limits: &Limits) -> Self {
        let running = limits.max_running_decisions;
        Self {
            deciding: Seats::new(running),
            decisions: CallSlots::and_more(Limit::WaitingDecisions, limits, running),
            writes: Arc::new(Semaphore::new(WRITES)),
            looks: Arc::new(Semaphore::new(LOOKS)),
            held: Arc::new(Semaphore::new(LOOKS)),
            copies: Arc::new(Semaphore::new(COPIES)),
            exporting: Arc::new(Semaphore::new(EXPORTS)),
            aside: Arc::new(Background::for_work("decide", running, NICENESS)),
            exports: Arc::new(Background::for_work("export", EXPORTS, NICENESS)),
            running: TaskTracker::new(),
            apart: None,
        }
    }

    /// The same lanes, with changes that are called for in `background`, whose
    /// threads have a lower priority, running on another runtime: a change may
    /// hold locks that somebody waits for.
    #[must_use]
    pub fn with_changes_on(self, runtime: Handle, background: Id) -> Self {
        let apart = Some((runtime, background));
        Self { apart, ..self }
    }

    fn is_in_background(&self) -> bool {
        let is_here = |id: Id| Handle::try_current().is_ok_and(|here| here.id() == id);
        self.apart.as_ref().is_some_and(|(_, id)| is_here(*id))
    }

    /// Runs a decision, which can ask whether its deadline has passed or its
    /// caller is gone. A caller's decisions wait for one another rather than for
    /// those of others. A decision over the limit, or over its caller's share of
    /// it, is refused at once. A decision whose deadline passes while it waits
    /// never runs.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide<T: Send + 'static>(
        &self,
        by: &Asker,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (place, deadline) = (self.decisions.take(&by.who)?, by.deadline);
        // A cancelled call drops its guard.
        let gone = CancellationToken::new();
        let _guard = gone.clone().drop_guard();
        let seat = until(deadline, place.seat(&self.deciding)).await??;
        let done = self.aside.run(move || {
            let _held = (seat, place);
            let is_late = || deadline.is_some_and(|at| Instant::now() > at);
            work(&|| gone.is_cancelled() || is_late())
        });
        until(deadline, done).await?
    }

    /// Runs a change to a snapshot. It is never refused for load, because a
    /// refused feed would have to begin again. Only work in this lane may wait
    /// for a disk, so a call that writes nothing never does. It runs
    /// at the priority of the threads that serve.
    ///
    /// # Errors
    /// [`Error::Deadline`]: it did not run in time, or it runs on and nobody
    /// waits for it.
    pub async fn change<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.run(&self.writes, deadline, Box::new(work)).await
    }

    /// Runs a small read of snapshots: in place if no long work is running.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn look<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if !self.running.is_empty() {
            return self.run(&self.looks, deadline, Box::new(work)).await;
        }
        Ok(work())
    }

    /// Runs a small decision that waits for a lock. It is never refused for
    /// load.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn wait<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.in_slot(&self.held, deadline, Box::new(work)).await
    }

    /// Runs the copying of a snapshot, which waits for the batch under way.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn copy<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.run(&self.copies, deadline, Box::new(work)).await
    }

    /// Starts to write an export, which keeps its slot until it ends. It reads a
    /// copy, so it holds no lock and its priority may be low.
    pub fn export<T: Send + 'static>(
        &self,
        slot: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        tasks::spawn_blocking_on(self.exports.handle(), holding(slot, Box::new(work)))
    }

    /// As [`Self::change`], but in place if the change is small and no long
    /// work is running.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn change_soon<T: Send + 'static>(
        &self,
        is_large: bool,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if is_large || !self.running.is_empty() || self.is_in_background() {
            return self.change(deadline, work).await;
        }
        Ok(work())
    }

    /// Runs what holds no lock that others wait for, such as checks, or what adds to a
    /// state that nobody reads: at the priority of where it is called for. In place if
    /// it is small.
    ///
    /// # Errors
    /// Those of [`Self::change`].
    pub async fn unlocked<T: Send + 'static>(
        &self,
        is_large: bool,
        deadline: Option<Instant>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if !is_large {
            return Ok(work());
        }
        let slot = slot(&self.writes, deadline).await?;
        let work = holding(slot, Box::new(work));
        done(deadline, tasks::spawn_blocking(work)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        slots: &Arc<Semaphore>,
        deadline: Option<Instant>,
        work: BoxedWork<T>,
    ) -> Result<T, Error> {
        let work = holding(self.running.token(), work);
        self.in_slot(slots, deadline, Box::new(work)).await
    }

    /// Runs `work` on a thread that may wait, once there is a slot for it.
    async fn in_slot<T: Send + 'static>(
        &self,
        slots: &Arc<Semaphore>,
        deadline: Option<Instant>,
        work: BoxedWork<T>,
    ) -> Result<T, Error> {
        let work = holding(slot(slots, deadline).await?, work);
        match &self.apart {
            // A thread has the priority of the one that starts it, so those of
            // the other runtime have to.
            Some((runtime, _)) if self.is_in_background() => {
                let start = async { tasks::spawn_blocking(work).await };
                let started = tasks::spawn_on(runtime, start);
                let ended = done(deadline, started).await?;
                ended.map_err(|_| Error::Internal)
            }
            _ => done(deadline, tasks::spawn_blocking(work)).await,
        }
    }
}

/// Work to run elsewhere. What is done for it is compiled once for each type of result.
type BoxedWork<T> = Box<dyn FnOnce() -> T + Send>;

/// `work` that has a slot, or counts as running, until it is done.
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

/// Waits for one of some slots, until the deadline.
///
/// # Errors
/// [`Error::Deadline`].
pub async fn slot(
    slots: &Arc<Semaphore>,
    deadline: Option<Instant>,
) -> Result<OwnedSemaphorePermit, Error> {
    let slot = Arc::clone(slots).acquire_owned();
    until(deadline, slot).await?.map_err(|_| Error::Internal)
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

    /// The lowest priority.
    const LOWEST: i32 = 19;

    #[test]
    fn what_holds_locks_runs_at_the_priority_of_those_that_serve() {
        let background = Background::for_tasks("background", 1, LOWEST).expect("it starts");
        let serving = tokio::runtime::Runtime::new().expect("it starts");
        let lanes = Lanes::new(&Limits::default());
        let lanes = lanes.with_changes_on(serving.handle().clone(), background.handle().id());
        let priority = || getpriority_process(None).expect("this thread has one");
        let usual = priority();
        let of_runs = background
            .handle()
            .block_on(background.handle().spawn(async move {
                let small = lanes.change_soon(false, None, priority).await?;
                let large = lanes.change_soon(true, None, priority).await?;
                let staged = lanes.unlocked(true, None, priority).await?;
                let export = lanes.export(slot(&lanes.exporting, None).await?, priority);
                let exported = export.await.map_err(|_| Error::Internal)?;
                Ok::<_, Error>([small, large, staged, exported])
            }));
        let of_runs = of_runs.expect("no panic").expect("no deadline");
        let lower = (usual + NICENESS).min(LOWEST);
        assert_eq!(of_runs, [usual, usual, LOWEST, lower]);
    }
}
