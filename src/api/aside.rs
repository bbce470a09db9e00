//! What may take long, on a thread of its own: other calls do not wait for it.

use super::error::Error;

/// Changes from which on a batch is applied beside the reactor.
pub const LARGE_BATCH: usize = 256;

/// Runs what may take long on a thread of its own, and the rest in place.
///
/// # Errors
/// When it panicked.
pub async fn run_aside<T: Send + 'static>(
    is_large: bool,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if !is_large {
        return Ok(run());
    }
    tokio::task::spawn_blocking(run)
        .await
        .map_err(|_| Error::Internal)
}
