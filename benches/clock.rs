//! A clock that takes median times of closures, in CPU time of the thread, so that other work of
//! the machine does not count.

use std::hint::black_box;
use std::time::Duration;

use criterion::Criterion;

use super::cpu::thread_time;

/// The number of samples of a median.
const SAMPLES: usize = 15;
/// Work that takes longer than this is timed a few times by hand: criterion would
/// repeat it for minutes.
const SLOW: Duration = Duration::from_millis(5);
/// The number of times that such work is repeated, and the time in which that must fit.
const SLOW_SAMPLES: usize = 5;
const SLOW_TOTAL: Duration = Duration::from_secs(2);

/// Takes median times of closures.
pub struct Clock(Criterion);

impl Default for Clock {
    /// A clock that measures each closure for about 0.1 s.
    fn default() -> Self {
        let criterion = Criterion::default()
            .sample_size(SAMPLES)
            .warm_up_time(Duration::from_millis(25))
            .measurement_time(Duration::from_millis(60))
            .nresamples(1_001)
            .without_plots();
        Self(criterion)
    }
}

impl Clock {
    /// The median time of `run`, in nanoseconds. Its result is dropped while
    /// the clock runs, as it is in a server.
    pub fn median_ns<T>(&mut self, id: &str, mut run: impl FnMut() -> T) -> f64 {
        let first = timed(1, &mut run);
        let mut samples = Vec::new();
        if first > SLOW {
            let fitting = SLOW_TOTAL.as_nanos() / first.as_nanos();
            let again = usize::try_from(fitting).map_or(SLOW_SAMPLES, |n| n.min(SLOW_SAMPLES));
            samples.push(first.as_nanos() as f64);
            samples.extend((0..again).map(|_| timed(1, &mut run).as_nanos() as f64));
        } else {
            self.0.bench_function(id, |bencher| {
                bencher.iter_custom(|runs| {
                    let elapsed = timed(runs, &mut run);
                    samples.push(elapsed.as_nanos() as f64 / runs as f64);
                    elapsed
                });
            });
            // Earlier samples were the warm-up.
            samples.drain(..samples.len().saturating_sub(SAMPLES));
        }
        samples.sort_unstable_by(f64::total_cmp);
        samples[samples.len() / 2]
    }
}

fn timed<T>(runs: u64, run: &mut impl FnMut() -> T) -> Duration {
    let start = thread_time();
    for _ in 0..runs {
        drop(black_box(run()));
    }
    thread_time() - start
}
