//! A right that one server of a fleet has at a time, for as long as it renews it.
//!
//! No clocks are compared. Whoever waits measures by its own clock how long the
//! lease was not renewed; the holder measures by its own how long ago it asked for
//! the last renewal, and gives up earlier than others take over.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::interface::{Error, Log};
use crate::backoff::Backoff;

/// The times after which a lease is renewed, given up and taken.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The time after which the holder renews it, and others look at it.
    pub renew: Duration,
    /// The time after a renewal at which the holder gives up.
    pub holds: Duration,
    /// The time for which others see it unchanged before they take it. Longer than `holds`.
    pub expires: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(1),
            holds: Duration::from_secs(5),
            expires: Duration::from_secs(7),
        }
    }
}

/// A lease that this server wants.
pub struct Lease {
    log: Arc<dyn Log>,
    key: String,
    /// Identifies this server: no other has this value.
    own: Bytes,
    pace: Pace,
    /// Returns true if this server can do what the lease is for.
    is_able: Box<dyn Fn() -> bool + Send + Sync>,
    known: Mutex<Known>,
}

/// The last state of a lease that a server has seen.
#[derive(Default)]
struct Known {
    /// The end of this server's tenure, if it has the lease.
    until: Option<Instant>,
    /// The server that held the lease when it was last read; none if empty.
    holder: Bytes,
    /// The number of times that this server tried to take it.
    taken: u64,
}

/// A lease that this server has.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    revision: u64,
    until: Instant,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lease = f.debug_struct("Lease");
        lease.field("key", &self.key).finish_non_exhaustive()
    }
}

impl Known {
    /// Notes that this server no longer has it.
    fn end(&mut self) {
        self.until = None;
        self.holder = Bytes::new();
    }
}

impl Lease {
    /// The lease that a key stands for. `holder` names this server and no other.
    pub fn new(log: Arc<dyn Log>, key: &str, holder: &str, pace: Pace) -> Self {
        Self {
            log,
            key: key.to_owned(),
            own: Bytes::copy_from_slice(holder.as_bytes()),
            pace,
            is_able: Box::new(|| true),
            known: Mutex::default(),
        }
    }

    /// The same lease, which this server takes and keeps only while it is able to use it.
    #[must_use]
    pub fn while_able(self, is_able: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_able: Box::new(is_able),
            ..self
        }
    }

    /// Returns whether this server has it now, by its own clock. Where it does not, others
    /// may.
    pub fn is_held(&self) -> bool {
        self.tenure().is_some()
    }

    /// A number of the time since it was taken, which no other such time has; `None`
    /// when this server does not have it.
    pub fn tenure(&self) -> Option<u64> {
        let known = self.known.lock();
        let until = known.until.filter(|until| Instant::now() < *until);
        until.map(|_| known.taken)
    }

    /// The server that has it, as far as is known; `None` when it is free.
    pub fn holder(&self) -> Option<String> {
        let holder = self.known.lock().holder.clone();
        (!holder.is_empty()).then(|| String::from_utf8_lossy(&holder).into_owned())
    }

    /// Does `work` whenever this server has the lease. When it has lost it, the work
    /// is dropped, and begins anew once it has it again.
    pub async fn while_held<F>(&self, mut work: impl FnMut() -> F) -> Infallible
    where
        F: Future<Output = Infallible>,
    {
        loop {
            let held = self.acquire().await;
            tokio::select! {
                never = work() => match never {},
                () = self.lost(held) => {}
            }
        }
    }

    /// Gives the lease up, so that others need not wait for its end. It is not held
    /// from the call on, whatever becomes of that.
    pub async fn release(&self) {
        self.known.lock().end();
        let keys = self.log.keys();
        if let Ok(Some((holder, revision))) = keys.get(&self.key).await
            && holder == self.own
        {
            // It expires otherwise.
            let _ = keys.set_if(&self.key, Some(revision), Bytes::new()).await;
        }
    }

    /// Waits until the lease is free, and takes it. Whoever has it calls
    /// [`Self::lost`], which keeps it.
    pub async fn acquire(&self) -> Held {
        let mut seen: Option<(Option<u64>, Instant)> = None;
        loop {
            if let Ok(found) = self.log.keys().get(&self.key).await {
                let revision = found.as_ref().map(|(_, revision)| *revision);
                let since = match seen {
                    Some((same, since)) if same == revision => since,
                    _ => Instant::now(),
                };
                seen = Some((revision, since));
                let holder = found.map(|(holder, _)| holder).unwrap_or_default();
                let is_free = holder.is_empty();
                {
                    let mut known = self.known.lock();
                    known.holder = holder;
                    // Before it is taken: nobody sees an old number with a new right.
                    known.taken += 1;
                }
                if (self.is_able)()
                    && (is_free || since.elapsed() >= self.pace.expires)
                    && let Some(held) = self.set(revision).await
                {
                    info!(lease = self.key, "this server has the lease");
                    return held;
                }
            }
            sleep(self.pace.renew).await;
        }
    }

    /// Renews the lease until it is lost.
    pub async fn lost(&self, mut held: Held) {
        loop {
            sleep(self.pace.renew).await;
            if !(self.is_able)() {
                break;
            }
            match timeout_at(held.until, self.renew(held.revision)).await {
                Ok(Some(renewed)) => held = renewed,
                // Others may have it, or take it soon.
                Ok(None) | Err(_) => break,
            }
        }
        self.known.lock().end();
        warn!(lease = self.key, "this server has lost the lease");
    }

    /// Renews the lease, however often it has to try; nothing if somebody else
    /// has it.
    async fn renew(&self, revision: u64) -> Option<Held> {
        let mut revision = revision;
        let mut pauses = Backoff::new(self.pace.renew / 8, self.pace.renew);
        loop {
            if let Some(renewed) = self.set(Some(revision)).await {
                return Some(renewed);
            }
            // A try of which no answer came may have done it.
            match self.log.keys().get(&self.key).await {
                Ok(Some((holder, found))) if holder == self.own => revision = found,
                Ok(_) => return None,
                Err(_) => {}
            }
            sleep(pauses.after_failure()).await;
        }
    }

    /// Sets the key to this server, if its revision is this one.
    async fn set(&self, revision: Option<u64>) -> Option<Held> {
        let until = Instant::now() + self.pace.holds;
        let keys = self.log.keys();
        match keys.set_if(&self.key, revision, self.own.clone()).await {
            Ok(revision) => {
                let mut known = self.known.lock();
                known.until = Some(until);
                known.holder = self.own.clone();
                Some(Held { revision, until })
            }
            Err(Error::Conflict) => None,
            Err(error) => {
                warn!(lease = self.key, %error, "the lease was not renewed");
                None
            }
        }
    }
}
