//! Threads and limits for long work, and places for calls, which callers share. Long work runs beside
//! the threads that serve, so that health checks and small calls never wait for it. Each kind of work
//! has a limit on how much of it runs at once.
//!
//! [`CallSlots`] refuses calls over a limit: a caller may hold no more slots than are left free,
//! which is half of them when it is alone. A [`FairLimiter`] lets work over its limit wait: a
//! caller runs at most half of the work that may run at once.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::error::Error;
use super::request_context::RequestContext;
use crate::access::CallerIdentity;
use crate::limits::{Exceeded, Limit, Limits, processors};
use crate::tasks::{self, OwnedTask, Task};

/// A request with more bytes is decoded beside the threads that serve. So many bytes are decoded and
/// validated in some 100 µs. One call may wait that long for another.
pub const LARGE_REQUEST: usize = 32 << 10;

/// The number of changes of snapshots that run at once. They take turns on their snapshots and wait
/// for a disk, so most of them wait.
const WRITES: usize = 64;

/// The amount by which the priority of long decisions is lower.
const NICENESS: i32 = 10;

/// The number of callers from which on a limiter forgets those that are gone.
const MANY_CALLERS: usize = 256;

/// Runs the long work of a service.
#[derive(Clone)]
pub struct Executor {
    deciding: FairLimiter,
    /// A slot for each decision that runs or waits.
    decisions: CallSlots,
    writes: FairLimiter,
    /// The threads of decisions.
    threads: Arc<DecisionThreads>,
}

impl Executor {
    /// An executor for as many decisions as may run and wait.
    pub fn new(limits: &Limits) -> Self {
        let running = limits.max_running_decisions;
        Self {
            deciding: FairLimiter::new(running),
            decisions: CallSlots::new(Limit::WaitingDecisions, limits, running),
            writes: FairLimiter::new(WRITES),
            threads: Arc::new(DecisionThreads::new(running)),
        }
    }

    /// Runs a decision. The decision can ask whether its deadline has passed or its caller is gone.
    /// The decisions of a caller wait for one another rather than for those of other callers. A
    /// decision over the limit, or over its caller's share of it, is refused at once. A decision
    /// whose deadline passes while it waits never runs.
    ///
    /// # Errors
    /// [`Error::OverLimit`], [`Error::Deadline`].
    pub async fn decide<T: Send + 'static>(
        &self,
        by: &RequestContext,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slot = self.decisions.take(&by.who)?;
        let (_guard, is_given_up) = by.watched();
        let place = self.deciding.take_by(by).await?;
        let done = self.threads.run(move || {
            let _held = (place, slot);
            work(&is_given_up)
        });
        until(by.deadline, done).await?
    }

    /// Runs a change to a snapshot, which waits for the one under way and for a disk, on a blocking
    /// thread. This work is never refused for load, because a refused feed would have to begin again.
    ///
    /// # Errors
    /// [`Error::Deadline`]: the change did not run in time, or it continues without its caller.
    pub async fn change<T: Send + 'static>(
        &self,
        by: &RequestContext,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.writes.take_by(by).await?;
        let done = tasks::spawn_blocking(move || {
            let _held = place;
            work()
        });
        until(by.deadline, done).await?.map_err(|_| Error::Internal)
    }
}

/// Runs feeds, exports, and what takes long to decode, beside the threads that serve.
#[derive(Clone)]
pub struct Beside {
    /// The runtime; `None` where it is that of the caller.
    runtime: Option<Handle>,
    decoding: FairLimiter,
}

impl Beside {
    /// Work on a runtime of its own, or on that where each work begins. Half as many as there are
    /// processors decode at once, which leaves the other processors to the serving threads.
    pub fn new(runtime: Option<Handle>) -> Self {
        Self {
            runtime,
            decoding: FairLimiter::new((processors() / 2).max(1)),
        }
    }

    /// Runs work until it has ended.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        match &self.runtime {
            Some(runtime) => tasks::spawn_on(runtime, work),
            None => tasks::spawn(work),
        }
    }

    /// Runs the work of a caller. The part of the work before its first wait runs in the caller's
    /// turn; callers take turns. The work ends with this future.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn run<F>(&self, who: CallerKey, work: F) -> Result<F::Output, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let decoding = self.decoding.clone();
        let run = async move {
            let mut work = pin!(work);
            let place = decoding.take(&who).await;
            let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(place);
            match begun {
                Poll::Ready(done) => done,
                Poll::Pending => work.await,
            }
        };
        let done = OwnedTask::new(self.spawn(run)).await;
        done.map_err(|_| Error::Internal)
    }
}

/// Threads of a lower priority for decisions, each started when needed. Further decisions wait.
struct DecisionThreads(Option<Runtime>);

impl DecisionThreads {
    fn new(threads: usize) -> Self {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(threads.max(1))
            .thread_name("decide")
            .on_thread_start(lower_priority(NICENESS))
            .build();
        let runtime =
            runtime.expect("without I/O and timers a runtime needs nothing of the system");
        Self(Some(runtime))
    }

    /// Runs `work` on one of the threads.
    ///
    /// # Errors
    /// [`Error::Internal`] when it panics.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        let done = tasks::spawn_blocking_on(runtime.handle(), work).await;
        done.map_err(|_| Error::Internal)
    }
}

impl Drop for DecisionThreads {
    fn drop(&mut self) {
        // The thread that drops this must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns a function that gives the thread on which it runs a priority that is lower by `niceness`,
/// as in `nice(1)`, than that of this thread: a thread that starts another one may already have a
/// lower priority. Only Linux has priorities of single threads. The system replaces a priority below
/// its lowest by the lowest.
pub fn lower_priority(niceness: i32) -> impl Fn() + Send + Sync + 'static {
    #[cfg(target_os = "linux")]
    let priority = rustix::process::getpriority_process(None).unwrap_or(0);
    move || {
        #[cfg(target_os = "linux")]
        let _ = rustix::process::setpriority_process(None, priority.saturating_add(niceness));
        #[cfg(not(target_os = "linux"))]
        let _ = niceness;
    }
}

/// The identity of a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// A caller with a token or certificate that an access rule names.
    Known(CallerIdentity),
    /// A caller that is known only by its address.
    Somewhere(IpAddr),
    /// A caller without an identity or address, as in this process. Such callers are not told
    /// apart.
    #[default]
    Nobody,
}

impl CallerKey {
    /// The caller of this identity at an address.
    pub fn new(identity: Option<&CallerIdentity>, address: Option<IpAddr>) -> Self {
        match (identity, address) {
            (Some(known @ (CallerIdentity::Token(_) | CallerIdentity::Certificate(_))), _) => {
                Self::Known(known.clone())
            }
            // One machine usually has a whole IPv6 network with a prefix of 64 bits.
            (_, Some(IpAddr::V6(address))) if address.to_ipv4_mapped().is_none() => {
                let net = address.to_bits() >> 64 << 64;
                Self::Somewhere(Ipv6Addr::from_bits(net).into())
            }
            (_, Some(address)) => Self::Somewhere(address.to_canonical()),
            (_, None) => Self::Nobody,
        }
    }
}

/// The slots of one limit.
#[derive(Clone)]
pub struct CallSlots {
    /// The error when no slot is free.
    over: Exceeded,
    places: FairLimiter,
}

impl CallSlots {
    /// As many slots as a limit allows, and `more`, all free.
    pub fn new(limit: Limit, limits: &Limits, more: usize) -> Self {
        let most = limits.get(limit);
        let count = most.saturating_add(more).min(Semaphore::MAX_PERMITS);
        Self {
            over: Exceeded {
                limit,
                most,
                actual: None,
            },
            places: FairLimiter::with_shares(count, count),
        }
    }

    /// Takes a slot, until the slot is dropped.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when no slot is free, or the caller holds more slots than are free.
    pub fn take(&self, who: &CallerKey) -> Result<WorkPlace, Error> {
        let own = self.places.own(who);
        let free = self.places.all.available_permits();
        let held = self.places.count.saturating_sub(own.available_permits());
        // Callers without an identity may be many, so they have no common share.
        let takes_too_many = held > free && *who != CallerKey::Nobody;
        if takes_too_many {
            return Err(self.over.into());
        }
        let all = Arc::clone(&self.places.all).try_acquire_owned();
        match (all, own.try_acquire_owned()) {
            (Ok(all), Ok(own)) => Ok((all, own)),
            _ => Err(self.over.into()),
        }
    }
}

/// A limit on how much work of a kind runs at once. A caller runs at most half of that work. A
/// caller queues with only one piece of work for each place that it may have, so a thousand
/// requests of one caller do not all come before the next request of another.
#[derive(Clone)]
pub struct FairLimiter {
    count: usize,
    /// The places that a caller may have.
    share: usize,
    all: Arc<Semaphore>,
    /// The places of callers that have some or wait for some, and of some that are gone.
    own: Arc<Mutex<HashMap<CallerKey, Arc<Semaphore>>>>,
}

/// A place of a [`FairLimiter`]: one of all places, and one of the caller's own.
pub type WorkPlace = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl FairLimiter {
    /// `count` places, all free.
    pub fn new(count: usize) -> Self {
        Self::with_shares(count, count.div_ceil(2))
    }

    fn with_shares(count: usize, share: usize) -> Self {
        Self {
            count,
            share,
            all: Arc::new(Semaphore::new(count)),
            own: Arc::default(),
        }
    }

    /// Returns a place, once there is one that the caller may have.
    pub async fn take(&self, who: &CallerKey) -> WorkPlace {
        const OPEN: &str = "no limiter is ever closed";
        let own = self.own(who).acquire_owned().await.expect(OPEN);
        let all = Arc::clone(&self.all).acquire_owned().await.expect(OPEN);
        (all, own)
    }

    /// A place for the caller of a request, until its deadline.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub(super) async fn take_by(&self, by: &RequestContext) -> Result<WorkPlace, Error> {
        until(by.deadline, self.take(&by.who)).await
    }

    /// The places that a caller may have.
    fn own(&self, who: &CallerKey) -> Arc<Semaphore> {
        let mut callers = self.own.lock();
        if let Some(own) = callers.get(who) {
            return Arc::clone(own);
        }
        if callers.len() >= MANY_CALLERS {
            callers.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let share = match who {
            CallerKey::Nobody => self.count,
            _ => self.share,
        };
        let own = Arc::new(Semaphore::new(share));
        callers.insert(who.clone(), Arc::clone(&own));
        own
    }
}

/// Waits for `future` until the deadline, if there is one.
///
/// # Errors
/// [`Error::Deadline`].
pub async fn until<T>(
    deadline: Option<Instant>,
    future: impl Future<Output = T>,
) -> Result<T, Error> {
    match deadline {
        Some(deadline) => timeout_at(deadline, future)
            .await
            .map_err(|_| Error::Deadline),
        None => Ok(future.await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::CertificateName;

    fn caller(last: u8) -> CallerKey {
        CallerKey::new(None, Some(IpAddr::from([10, 0, 0, last])))
    }

    #[test]
    fn a_caller_leaves_as_many_slots_as_it_has() {
        for (count, shares) in [
            (1, &[1][..]),
            (2, &[2]),
            (8, &[5, 2, 1]),
            (1_024, &[513, 256, 128, 64]),
        ] {
            let limits = Limits {
                max_streams: count,
                ..Limits::default()
            };
            let slots = CallSlots::new(Limit::Streams, &limits, 0);
            let mut held = Vec::new();
            for (number, share) in shares.iter().enumerate() {
                let who = caller(u8::try_from(number).expect("few callers"));
                let own: Vec<_> = std::iter::from_fn(|| slots.take(&who).ok()).collect();
                assert_eq!(own.len(), *share, "caller {number} of {count} slots");
                held.push(own);
            }
            let all: usize = shares.iter().sum();
            let held_in_all = || count - slots.places.all.available_permits();
            assert_eq!(held_in_all(), all);
            held.remove(0);
            assert_eq!(held_in_all(), all - shares[0]);
            slots
                .take(&caller(0))
                .map(drop)
                .expect("there is room again");
            drop(held);
            assert_eq!(held_in_all(), 0);
        }
    }

    /// Returns how many pieces of work of each caller run, when each caller asks for this many.
    async fn running(places: usize, work: &[(CallerKey, usize)]) -> Vec<usize> {
        let (limiter, ran) = (FairLimiter::new(places), Arc::new(Mutex::new(Vec::new())));
        for (number, (who, count)) in work.iter().enumerate() {
            for _ in 0..*count {
                let (limiter, ran, who) = (limiter.clone(), Arc::clone(&ran), who.clone());
                tokio::spawn(async move {
                    let _place = limiter.take(&who).await;
                    ran.lock().push(number);
                    std::future::pending::<()>().await;
                });
            }
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let ran = ran.lock();
        let of = |number| ran.iter().filter(|running| **running == number).count();
        (0..work.len()).map(of).collect()
    }

    #[tokio::test]
    async fn a_caller_leaves_half_of_the_places() {
        for (places, work, expected) in [
            (1, &[(caller(1), 9)][..], &[1][..]),
            (2, &[(caller(1), 9)], &[1]),
            (2, &[(caller(1), 9), (caller(2), 9)], &[1, 1]),
            (5, &[(caller(1), 9), (caller(2), 1)], &[3, 1]),
            (
                4,
                &[(caller(1), 9), (caller(2), 9), (caller(3), 9)],
                &[2, 2, 0],
            ),
            (4, &[(CallerKey::Nobody, 9)], &[4]),
        ] {
            assert_eq!(running(places, work).await, expected, "{places} {work:?}");
        }
    }

    #[tokio::test]
    async fn callers_wait_in_turn() {
        let limiter = FairLimiter::new(1);
        let (first, second) = (caller(1), caller(2));
        let place = limiter.take(&first).await;
        let (ran, mut order) = tokio::sync::mpsc::unbounded_channel();
        for (who, gives_up) in [
            (&first, false),
            (&first, true),
            (&first, false),
            (&second, false),
            (&second, false),
        ] {
            let (limiter, ran, who) = (limiter.clone(), ran.clone(), who.clone());
            let waiting = tokio::spawn(async move {
                let _place = limiter.take(&who).await;
                ran.send(who).expect("somebody looks");
            });
            // The work joins the queue.
            tokio::task::yield_now().await;
            if gives_up {
                waiting.abort();
            }
        }
        drop((ran, place));
        let mut seen = Vec::new();
        while let Some(who) = order.recv().await {
            seen.push(who);
        }
        assert_eq!(seen, [second.clone(), first.clone(), second, first]);
        // Callers that are gone are forgotten when many others come.
        for number in 0..3 * MANY_CALLERS {
            let address = u32::try_from(number).expect("few callers").to_be_bytes();
            let who = CallerKey::new(None, Some(IpAddr::from(address)));
            drop(limiter.take(&who).await);
        }
        assert!(limiter.own.lock().len() <= MANY_CALLERS);
    }

    #[test]
    fn callers_are_told_apart() {
        let address = |text: &str| CallerKey::new(None, Some(text.parse().expect("an address")));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        let certificate = CallerIdentity::Certificate([CertificateName::Dns("a".into())].into());
        let here = |identity| CallerKey::new(Some(identity), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(here(&CallerIdentity::Nobody), address("10.0.0.1"));
        assert_eq!(here(&certificate), CallerKey::Known(certificate.clone()));
    }
}
