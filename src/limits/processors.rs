//! How many processors there are.

use std::sync::LazyLock;
use std::thread;

static PROCESSORS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// How many processors this process may use, at least 1. It is found out once:
/// the answer is in files of the control group, and reading them costs a
/// thousand times as much as most of what asks.
pub fn processors() -> usize {
    *PROCESSORS
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use crate::limits::Limits;

    /// How often this thread has read from files.
    fn reads() -> u64 {
        let io = fs::read_to_string("/proc/thread-self/io").expect("the kernel counts");
        let mut lines = io.lines();
        let reads = lines.find_map(|line| line.strip_prefix("syscr: "));
        reads
            .and_then(|reads| reads.parse().ok())
            .expect("a number")
    }

    #[test]
    fn limits_are_made_without_reading_files() {
        const TIMES: u64 = 1_000;
        let before = reads();
        for _ in 0..TIMES {
            std::hint::black_box(Limits::default());
        }
        assert!(reads() - before < TIMES);
    }
}
