//! Threads and limits for long work. It runs beside the threads that serve, so that health checks
//! and small calls never wait for it. Each kind of work has a limit on how much of it runs at once.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::background::Background;
use super::error::Error;
use super::request_context::RequestContext;
use super::slots::{CallSlots, FairLimiter, WorkPlace};
use crate::limits::{Limit, Limits};
use crate::tasks;

/// A request with more bytes is decoded beside the threads that serve. So many bytes are decoded and
/// validated in some 100 µs. One call may wait that long for another.
pub const LARGE_REQUEST: usize = 32 << 10;

/// The number of changes of snapshots that run at once. They take turns on their snapshots and wait
/// for a disk, so most of them wait.
const WRITES: usize = 64;

/// The amount by which the priority of long decisions is lower.
const NICENESS: i32 = 10;

/// Runs the long work of a service.
#[derive(Clone)]
pub struct Executor {
    deciding: FairLimiter,
    /// A slot for each decision that runs or waits.
    decisions: CallSlots,
    writes: FairLimiter,
    /// The threads of decisions.
    threads: Arc<Background>,
}

impl Executor {
    /// An executor for as many decisions as may run and wait.
    pub fn new(limits: &Limits) -> Self {
        let running = limits.max_running_decisions;
        Self {
            deciding: FairLimiter::new(running),
            decisions: CallSlots::and_more(Limit::WaitingDecisions, limits, running),
            writes: FairLimiter::new(WRITES),
            threads: Arc::new(Background::for_work("decide", running, NICENESS)),
        }
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
        let slot = self.decisions.take(&by.who)?;
        let (_guard, is_given_up) = by.watched();
        let place = self.deciding.take_by(by).await?;
        let done = self.threads.run(move || {
            let _held = (place, slot);
            work(&is_given_up)
        });
        until(by.deadline, done).await?
    }

    /// Runs a change to a snapshot, which waits for the one under way and for a disk, on a blocking
    /// thread. This work is never refused for load, because a refused feed would have to begin again.
    ///
    /// # Errors
    /// [`Error::Deadline`]: the change did not run in time, or it continues without its caller.
    pub async fn change<T: Send + 'static>(
        &self,
        by: &RequestContext,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.writes.take_by(by).await?;
        let done = tasks::spawn_blocking(move || {
            let _held = place;
            work()
        });
        until(by.deadline, done).await?.map_err(|_| Error::Internal)
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
