//! Everybody else: clients that ask small things at a steady rate, and note how
//! long they wait.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::request::{channel_from, client_on, outcome, small};

/// Where they ask from: all of 127.0.0.0/8 is this machine. The attackers ask
/// from the first address of it, so they are other callers than these.
const OWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The interval between two calls of each client.
const EVERY: Duration = Duration::from_millis(10);

/// The longest that one waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// The times that calls took; failed ones took as long as anybody waits.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    sorted: Vec<Duration>,
    failures: BTreeMap<String, usize>,
}

impl Waits {
    /// The wait that so many in a hundred do not exceed, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let index = (self.sorted.len() * percent).div_ceil(100).max(1) - 1;
        let wait = self.sorted.get(index).copied().unwrap_or(PATIENCE);
        wait.as_secs_f64() * 1_000.0
    }

    /// Why calls failed, and how many did so.
    pub fn failures(&self) -> &BTreeMap<String, usize> {
        &self.failures
    }

    /// The longest wait, in milliseconds.
    pub fn longest(&self) -> f64 {
        self.percentile(100)
    }
}

/// Clients on a thread of their own, so that attackers in this process do not
/// keep them from asking.
pub struct Bystanders {
    stop: CancellationToken,
    thread: thread::JoinHandle<(Waits, Waits)>,
}

impl Bystanders {
    /// Begins to ask a server.
    pub fn start(address: &str) -> Self {
        let stop = CancellationToken::new();
        let (stopped, address) = (stop.clone(), address.to_owned());
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            runtime.block_on(async {
                let health = HealthClient::new(channel_from(OWN_ADDRESS, &address));
                let healthy = ask(&stopped, || {
                    let mut health = health.clone();
                    async move { health.check(HealthCheckRequest::default()).await.map(drop) }
                });
                let asking = client_on(channel_from(OWN_ADDRESS, &address));
                let filtered = ask(&stopped, || {
                    let mut asking = asking.clone();
                    async move { asking.filter(small()).await.map(drop) }
                });
                tokio::join!(healthy, filtered)
            })
        });
        Self { stop, thread }
    }

    /// Returns what health and Filter took until now.
    pub fn stop(self) -> (Waits, Waits) {
        self.stop.cancel();
        self.thread.join().expect("they do not panic")
    }
}

/// Asks at a steady rate, whether answers come or not, so that one late answer
/// does not keep the next question from being late as well.
async fn ask<F: Future<Output = Result<(), Status>> + Send + 'static>(
    stop: &CancellationToken,
    call: impl Fn() -> F,
) -> Waits {
    let waits = Arc::new(Mutex::new(Waits::default()));
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    // At least once, however soon it is told to stop.
    loop {
        let due: Instant = ticks.tick().await;
        let (call, waits) = (call(), Arc::clone(&waits));
        calls.spawn(async move {
            let answer = timeout(PATIENCE, call).await;
            let mut waits = waits.lock().expect("no holder panics");
            let why = match answer {
                Ok(Ok(())) => return waits.sorted.push(due.elapsed()),
                Ok(Err(status)) => outcome(&status),
                Err(_) => "no answer".to_owned(),
            };
            waits.sorted.push(PATIENCE);
            *waits.failures.entry(why).or_default() += 1;
        });
        while calls.try_join_next().is_some() {}
        if stop.is_cancelled() {
            break;
        }
    }
    while calls.join_next().await.is_some() {}
    let mut waits = std::mem::take(&mut *waits.lock().expect("no holder panics"));
    waits.sorted.sort_unstable();
    waits
}
