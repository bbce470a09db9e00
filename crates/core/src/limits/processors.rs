//! The number of processors.

use std::sync::LazyLock;
use std::thread;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns the number of processors for this process, at least 1. The number is read only once. It
/// comes from files of the control group, and reading those takes a thousand times as long as the
/// rest of what most callers do.
pub fn processors() -> usize {
    *PROCESSORS
}
