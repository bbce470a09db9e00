//! Starts tasks, and blocking work, on a runtime of tokio.
//!
//! The runtime's code for a task is compiled again for each type of future: for each kind of
//! runtime, and for small futures and large ones. Here that type is erased first, so it is compiled
//! once for each type of result.

use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio_util::task::AbortOnDropHandle;

/// A started task, or blocking work, that returns a `T`. It continues when this handle is dropped.
pub type Task<T> = JoinHandle<T>;

/// A task that ends when this handle is dropped. Blocking work that has begun continues.
pub type OwnedTask<T> = AbortOnDropHandle<T>;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

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
    let task: Boxed<T> = Box::pin(task);
    runtime.spawn(task)
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
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    runtime.spawn_blocking(work)
}
