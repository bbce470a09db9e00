//! Calls of `SpreadService`: their number, their codes and their durations.
//!
//! Each serving thread has its own counters, so that threads share no cache line. A scrape adds
//! them up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::encoding::DescriptorEncoder;
use tonic::Code;

use super::family::{Family, plain, read, seconds};
use crate::api::{Decision, STREAMED_METHODS};
use crate::server::telemetry::counts::Refusals;
use crate::server::telemetry::histogram::{Histogram, Totals};

const CALLS: Family = plain("calls", "Calls that ended, by method and gRPC status code");
const DURATION: Family = seconds(
    "call_duration",
    "From the arrival of a call to the end of its answer; a stream's until it ends",
);
const WAIT: Family = seconds(
    "call_wait",
    "From the arrival of a call to the start of its decision: reading it, a busy thread, min_revision",
);
const DECISION: Family = seconds("decision_duration", "Deciding alone");
const NODES: Family = plain(
    "decision_nodes",
    "Nodes judged by decisions, of Place: replicas asked for",
);
const DOMAINS: Family = plain(
    "decision_domains",
    "Domains looked at by decisions, summed over constraints",
);

/// The names of gRPC's codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// A method of the service, by number; one past the last is "other".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method(usize);

/// The counts of all threads.
#[derive(Debug)]
pub struct Calls {
    /// The names of the methods, by number.
    methods: Vec<String>,
    threads: Mutex<Vec<Arc<Thread>>>,
    /// The refusals, by limit.
    pub refusals: Arc<Refusals>,
}

/// The counts of one thread, by method.
#[derive(Debug)]
struct Thread(Box<[MethodCounts]>);

#[derive(Debug, Default)]
struct MethodCounts {
    codes: [AtomicU64; CODES.len()],
    duration: Histogram,
    wait: Histogram,
    decision: Histogram,
    nodes: AtomicU64,
    domains: AtomicU64,
}

/// Records the calls of one thread.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The counts of all threads.
    pub calls: Arc<Calls>,
    thread: Arc<Thread>,
}

impl Calls {
    /// The counts of a service with these methods, and of the questions of streams.
    pub fn new(mut methods: Vec<String>) -> Arc<Self> {
        methods.extend(STREAMED_METHODS.map(str::to_owned));
        Arc::new(Self {
            methods,
            threads: Mutex::default(),
            refusals: Arc::default(),
        })
    }

    /// A recorder for one more thread.
    pub fn recorder(self: &Arc<Self>) -> Recorder {
        let counts = (0..=self.methods.len()).map(|_| MethodCounts::default());
        let thread = Arc::new(Thread(counts.collect()));
        self.threads.lock().push(Arc::clone(&thread));
        Recorder {
            calls: Arc::clone(self),
            thread,
        }
    }

    /// The method of a path, such as `/evenkeel.v1.SpreadService/Filter`.
    pub fn method(&self, path: &str) -> Method {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = self.methods.iter().position(|method| method == name);
        Method(number.unwrap_or(self.methods.len()))
    }

    /// The name of a method.
    pub fn name(&self, method: Method) -> &str {
        self.methods.get(method.0).map_or("other", String::as_str)
    }

    /// Methods, each with a sum over all threads.
    fn sums<T: Default>(&self, add: impl Fn(&mut T, &MethodCounts)) -> Vec<([(&str, &str); 1], T)> {
        let threads = self.threads.lock();
        let sum = |number| {
            let mut sum = T::default();
            for thread in threads.iter() {
                add(&mut sum, &thread.0[number]);
            }
            ([("method", self.name(Method(number)))], sum)
        };
        (0..=self.methods.len()).map(sum).collect()
    }

    /// The histograms of the methods that have any.
    fn histograms(
        &self,
        of: impl Fn(&MethodCounts) -> &Histogram,
    ) -> impl Iterator<Item = ([(&str, &str); 1], Totals)> {
        let all = self.sums(|totals: &mut Totals, counts| totals.add(of(counts)));
        all.into_iter().filter(|(_, totals)| totals.count() > 0)
    }

    /// The counters of the methods that have any.
    fn counters(
        &self,
        of: impl Fn(&MethodCounts) -> &AtomicU64,
    ) -> impl Iterator<Item = ([(&str, &str); 1], u64)> {
        let all = self.sums(|sum, counts| *sum += read(of(counts)));
        all.into_iter().filter(|(_, sum)| *sum > 0)
    }

    /// Writes the metrics of calls.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let by_code = self.sums(|sums: &mut [u64; CODES.len()], counts| {
            for (sum, count) in sums.iter_mut().zip(&counts.codes) {
                *sum += read(count);
            }
        });
        let by_code = by_code.iter().flat_map(|([method], sums)| {
            let all = CODES.iter().zip(sums);
            // OK exists from the start, so that rates start at 0.
            let told =
                all.filter(|(code, sum)| **sum > 0 || (**code == "OK" && method.1 != "other"));
            told.map(|(code, sum)| ([*method, ("code", *code)], *sum))
        });
        CALLS.counters(encoder, by_code)?;
        DURATION.histograms(encoder, self.histograms(|counts| &counts.duration))?;
        WAIT.histograms(encoder, self.histograms(|counts| &counts.wait))?;
        DECISION.histograms(encoder, self.histograms(|counts| &counts.decision))?;
        NODES.counters(encoder, self.counters(|counts| &counts.nodes))?;
        DOMAINS.counters(encoder, self.counters(|counts| &counts.domains))
    }
}

impl Recorder {
    /// Records a call that ended.
    pub fn ended(&self, method: Method, arrived: Instant, code: Code, decision: Option<&Decision>) {
        let counts = &self.thread.0[method.0];
        counts.codes[code as usize].fetch_add(1, Ordering::Relaxed);
        counts.duration.observe(arrived.elapsed());
        if let Some(decision) = decision {
            let waited = decision.started.checked_duration_since(arrived);
            counts.wait.observe(waited.unwrap_or(Duration::ZERO));
            counts.decision.observe(decision.took);
            let add = |count: &AtomicU64, more: i64| {
                count.fetch_add(u64::try_from(more).unwrap_or(0), Ordering::Relaxed);
            };
            add(&counts.nodes, decision.size.nodes);
            add(&counts.domains, decision.size.domains);
        }
    }
}
