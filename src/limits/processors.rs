//! The number of processors.

use std::sync::LazyLock;
use std::thread;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns the number of processors for this process, at least 1. It is read only once: it is in
/// files of the control group, and reading those costs a thousand times as much as most callers do.
pub fn processors() -> usize {
    *PROCESSORS
}
