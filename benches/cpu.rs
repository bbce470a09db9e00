//! The CPU time of the calling thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that the thread has used so far.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("a clock is not negative")
}
