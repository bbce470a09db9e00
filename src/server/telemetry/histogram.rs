//! Histograms of durations, as plain atomics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in nanoseconds: 1, 2.5 and 5 of each power of ten, from 1 µs, the time of the
/// smallest decision, to 10 s.
const BOUNDS: [u64; 22] = {
    let mut bounds = [0; 22];
    let mut power = 1_000;
    let mut i = 0;
    while i < bounds.len() {
        bounds[i] = match i % 3 {
            0 => power,
            1 => power / 2 * 5,
            _ => power * 5,
        };
        if i % 3 == 2 {
            power *= 10;
        }
        i += 1;
    }
    bounds
};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// A histogram of durations. One thread raises it, others read it.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The counts, by bucket; the last has no upper bound.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < nanoseconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// The sum of several histograms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    counts: [u64; BOUNDS.len() + 1],
    nanoseconds: u64,
}

impl Totals {
    /// Adds the present counts of a histogram.
    pub(super) fn add(&mut self, histogram: &Histogram) {
        for (total, count) in self.counts.iter_mut().zip(&histogram.counts) {
            *total += count.load(Ordering::Relaxed);
        }
        self.nanoseconds += histogram.nanoseconds.load(Ordering::Relaxed);
    }

    /// Returns the number of durations.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub(super) fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / SECOND
    }

    /// Upper bounds in seconds, each with the number of durations between the previous bound and
    /// it.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().map(|bound| *bound as f64 / SECOND);
        let bounds = bounds.chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}
