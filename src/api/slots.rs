//! Places for calls and for work, shared among callers.
//!
//! [`CallSlots`] refuses calls over a limit: a caller may hold no more slots than are left free,
//! which is half of them when it is alone. A [`FairLimiter`] lets work over its limit wait: a
//! caller runs at most half of the work that may run at once.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Error;
use crate::access::CallerIdentity;
use crate::limits::{Exceeded, Limit, Limits};

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
pub struct CallSlots(Arc<LimitSlots>);

struct LimitSlots {
    /// The error when no slot is free.
    over: Exceeded,
    /// The number of slots.
    count: usize,
    held: Mutex<HeldSlots>,
}

#[derive(Default)]
struct HeldSlots {
    all: usize,
    by_caller: HashMap<CallerKey, usize>,
}

impl CallSlots {
    /// As many slots as a limit allows, all free.
    pub fn new(limit: Limit, limits: &Limits) -> Self {
        Self::and_more(limit, limits, 0)
    }

    /// As many slots as a limit allows, and `more`, all free.
    pub fn and_more(limit: Limit, limits: &Limits, more: usize) -> Self {
        let most = limits.get(limit);
        Self(Arc::new(LimitSlots {
            over: Exceeded {
                limit,
                most,
                actual: None,
            },
            count: most.saturating_add(more),
            held: Mutex::default(),
        }))
    }

    /// Takes a slot, until the slot is dropped.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when no slot is free, or the caller holds more slots than are free.
    pub fn take(&self, who: &CallerKey) -> Result<CallSlot, Error> {
        let mut held = self.0.held.lock();
        let free = self.0.count.saturating_sub(held.all);
        let own = held.by_caller.get(who).copied().unwrap_or_default();
        // Callers without an identity may be many, so they have no common share.
        let takes_too_many = own > free && *who != CallerKey::Nobody;
        if free == 0 || takes_too_many {
            return Err(self.0.over.into());
        }
        held.all = held.all.saturating_add(1);
        let own = held.by_caller.entry(who.clone()).or_default();
        *own = own.saturating_add(1);
        Ok(CallSlot {
            slots: Arc::clone(&self.0),
            who: who.clone(),
        })
    }
}

/// A slot that is held.
pub struct CallSlot {
    slots: Arc<LimitSlots>,
    who: CallerKey,
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held.lock();
        held.all = held.all.saturating_sub(1);
        if let Some(own) = held.by_caller.get_mut(&self.who) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                held.by_caller.remove(&self.who);
            }
        }
    }
}

/// A limit on how much work of a kind runs at once. A caller runs at most half of that work. A
/// caller queues with only one piece of work for each place that it may have, so a thousand
/// requests of one caller do not all come before the next request of another.
#[derive(Clone)]
pub struct FairLimiter {
    count: usize,
    all: Arc<Semaphore>,
    /// The places of each caller that has some or waits for some.
    own: Arc<Mutex<HashMap<CallerKey, Weak<Semaphore>>>>,
}

/// A place of a [`FairLimiter`]: one of all places, and one of the caller's own.
pub type WorkPlace = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl FairLimiter {
    /// `count` places, all free.
    pub fn new(count: usize) -> Self {
        Self {
            count,
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

    /// The places that a caller may have.
    fn own(&self, who: &CallerKey) -> Arc<Semaphore> {
        let mut callers = self.own.lock();
        if let Some(own) = callers.get(who).and_then(Weak::upgrade) {
            return own;
        }
        callers.retain(|_, own| own.strong_count() > 0);
        let share = match who {
            CallerKey::Nobody => self.count,
            _ => self.count.div_ceil(2),
        };
        let own = Arc::new(Semaphore::new(share));
        callers.insert(who.clone(), Arc::downgrade(&own));
        own
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
            let slots = CallSlots::new(Limit::Streams, &limits);
            let mut held = Vec::new();
            for (number, share) in shares.iter().enumerate() {
                let who = caller(u8::try_from(number).expect("few callers"));
                let own: Vec<_> = std::iter::from_fn(|| slots.take(&who).ok()).collect();
                assert_eq!(own.len(), *share, "caller {number} of {count} slots");
                held.push(own);
            }
            let all: usize = shares.iter().sum();
            let held_in_all = || slots.0.held.lock().all;
            assert_eq!(held_in_all(), all);
            held.remove(0);
            assert_eq!(held_in_all(), all - shares[0]);
            slots
                .take(&caller(0))
                .map(drop)
                .expect("there is room again");
            drop(held);
            assert_eq!(held_in_all(), 0);
            assert!(slots.0.held.lock().by_caller.is_empty());
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
        // A caller that is gone is forgotten when another one comes.
        drop(limiter.take(&caller(3)).await);
        assert_eq!(limiter.own.lock().len(), 1);
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
