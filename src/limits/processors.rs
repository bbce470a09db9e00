//! How many processors there are.

use std::sync::LazyLock;
use std::thread;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Returns how many processors this process may use, at least 1. It is found out once:
/// the answer is in files of the control group, and reading them costs a
/// thousand times as much as most of what asks.
pub fn processors() -> usize {
    *PROCESSORS
}
