//! A lease: a right that one server of a fleet has at a time, for as long as it renews it.
//!
//! The clocks of two servers are never compared. A waiting server measures by its own clock how
//! long the lease was not renewed. The holder measures by its own clock how long ago it asked for
//! the last renewal, and gives up before others take over.

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
    /// The time between two renewals by the holder, and between two looks by the others.
    pub renew: Duration,
    /// The time after the last renewal at which the holder gives up the lease.
    pub holds: Duration,
    /// The time for which others see the lease unchanged before they take it. Longer than `holds`.
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
    known: Mutex<Known>,
}

/// The last state of a lease that a server has seen.
#[derive(Default)]
struct Known {
    /// The end of this server's tenure, if it has the lease.
    until: Option<Instant>,
    /// The server that held the lease when it was last read; none if empty.
    holder: Bytes,
    /// A number that grows with each look at the lease before this server takes it.
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
    /// Notes that this server no longer has the lease.
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
            known: Mutex::default(),
        }
    }

    /// Returns whether this server has the lease now, by its own clock. If not, another server may
    /// have it.
    pub fn is_held(&self) -> bool {
        self.tenure().is_some()
    }

    /// The number of this server's present tenure, which none of its other tenures has; `None` when
    /// it does not have the lease.
    pub fn tenure(&self) -> Option<u64> {
        let known = self.known.lock();
        let until = known.until.filter(|until| Instant::now() < *until);
        until.map(|_| known.taken)
    }

    /// The server that has the lease, as far as is known; `None` when the lease is free.
    pub fn holder(&self) -> Option<String> {
        let holder = self.known.lock().holder.clone();
        (!holder.is_empty()).then(|| String::from_utf8_lossy(&holder).into_owned())
    }

    /// Does `work` whenever this server has the lease. When the server loses the lease, the work is
    /// dropped. It begins anew once the server has the lease again.
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

    /// Gives up the lease, so that others need not wait until it expires. This server does not hold
    /// it from the call on, even if the call fails.
    pub async fn release(&self) {
        self.known.lock().end();
        let keys = self.log.keys();
        if let Ok(Some((holder, revision))) = keys.get(&self.key).await
            && holder == self.own
        {
            // If this fails, the lease expires.
            let _ = keys.set_if(&self.key, Some(revision), Bytes::new()).await;
        }
    }

    /// Waits until the lease is free, and takes it. The new holder calls [`Self::lost`], which
    /// renews it.
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
                    // The number grows before the lease is taken: nobody sees an old number with a
                    // new tenure.
                    known.taken += 1;
                }
                if (is_free || since.elapsed() >= self.pace.expires)
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
            match timeout_at(held.until, self.renew(held.revision)).await {
                Ok(Some(renewed)) => held = renewed,
                // Another server may have the lease, or take it soon.
                Ok(None) | Err(_) => break,
            }
        }
        self.known.lock().end();
        warn!(lease = self.key, "this server has lost the lease");
    }

    /// Renews the lease, however often it has to try; returns `None` if another server has it.
    async fn renew(&self, revision: u64) -> Option<Held> {
        let mut revision = revision;
        let mut pauses = Backoff::new(self.pace.renew / 8, self.pace.renew);
        loop {
            if let Some(renewed) = self.set(Some(revision)).await {
                return Some(renewed);
            }
            // An attempt without an answer may have renewed the lease.
            match self.log.keys().get(&self.key).await {
                Ok(Some((holder, found))) if holder == self.own => revision = found,
                Ok(_) => return None,
                Err(_) => {}
            }
            sleep(pauses.after_failure()).await;
        }
    }

    /// Writes this server into the key, if the key's revision is `revision`.
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
