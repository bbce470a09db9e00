//! Starts tasks, and blocking work, on a runtime of tokio.
//!
//! The runtime's code for a task is compiled again for each type of future and of result: for each
//! kind of runtime, and for small futures and large ones. Here both types are erased first, so it
//! is compiled once.

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};

/// Starts a task on the runtime that this is called on.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Task<T> {
    spawn_on(&Handle::current(), task)
}

/// Starts a task on another runtime.
pub fn spawn_on<T: Send + 'static>(
    runtime: &Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let task: Boxed<Erased> = Box::pin(async move { Box::new(task.await) as Erased });
    Task::new(runtime.spawn(task))
}

/// Starts a task of a set.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn_in<T: Send + 'static>(
    set: &mut JoinSet<T>,
    task: impl Future<Output = T> + Send + 'static,
) -> AbortHandle {
    let task: Boxed<T> = Box::pin(task);
    set.spawn(task)
}

/// Runs work on a blocking thread of the runtime that this is called on.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Task<T> {
    spawn_blocking_on(&Handle::current(), work)
}

/// Runs work on a blocking thread of another runtime.
pub fn spawn_blocking_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl FnOnce() -> T + Send + 'static,
) -> Task<T> {
    let work: Box<dyn FnOnce() -> Erased + Send> = Box::new(move || Box::new(work()));
    Task::new(runtime.spawn_blocking(work))
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

type Erased = Box<dyn Any + Send>;

/// A started task, or blocking work, that returns a `T`. It continues when this handle is dropped.
#[derive(Debug)]
pub struct Task<T> {
    running: JoinHandle<Erased>,
    result: PhantomData<fn() -> T>,
}

impl<T> Task<T> {
    fn new(running: JoinHandle<Erased>) -> Self {
        let result = PhantomData;
        Self { running, result }
    }

    /// Returns the task in a form that ends it when it is dropped. Blocking work that has begun
    /// continues.
    pub fn owned(self) -> OwnedTask<T> {
        OwnedTask(self)
    }

    /// Returns a handle that ends the task early. Blocking work that has begun continues.
    pub fn abort_handle(&self) -> AbortHandle {
        self.running.abort_handle()
    }
}

impl<T: 'static> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let done = ready!(Pin::new(&mut self.running).poll(context));
        Poll::Ready(done.map(|result| {
            let result = result.downcast();
            *result.expect("it was started with this type of result")
        }))
    }
}

/// A task that ends when this handle is dropped.
#[derive(Debug)]
pub struct OwnedTask<T>(Task<T>);

impl<T> Drop for OwnedTask<T> {
    fn drop(&mut self) {
        self.0.running.abort();
    }
}

impl<T: 'static> Future for OwnedTask<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn results_come_back_with_their_types() {
        let task = spawn(async { vec![1, 2] }).await;
        let work = spawn_blocking(|| "done").await;
        assert_eq!((task.ok(), work.ok()), (Some(vec![1, 2]), Some("done")));
        let panicked = spawn_blocking(|| panic!("on purpose")).await;
        assert!(panicked.is_err_and(|error: JoinError| error.is_panic()));
    }

    #[tokio::test]
    async fn only_an_owned_task_ends_when_it_is_dropped() {
        let begin = || {
            let (held, ended) = oneshot::channel::<()>();
            let (go, gone) = oneshot::channel::<()>();
            let task = spawn(async move {
                let _ = gone.await;
                let _ = held.send(());
            });
            (task, go, ended)
        };
        let (task, go, ended) = begin();
        drop(task);
        let _ = go.send(());
        assert!(ended.await.is_ok(), "it runs on");
        let (task, _go, ended) = begin();
        drop(task.owned());
        assert!(ended.await.is_err(), "it has ended");
    }
}
