//! Slots for calls of one kind, shared among callers.
//!
//! A caller may hold no more slots than are left free, which is half of them
//! when it is alone. So one caller never takes all, and later callers find
//! some. The calls with a slot may have to wait for one of fewer seats; they are
//! shared as well.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::Error;
use crate::access::CallerIdentity;
use crate::limits::{Exceeded, Limit, Limits};

/// What identifies a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// Its token or certificate, if an access rule is about it.
    Known(CallerIdentity),
    /// Its address.
    Somewhere(IpAddr),
    /// Nothing, as in this process. Such callers are not told apart.
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
            // A machine usually has 64 bits of such addresses to itself.
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
    /// Why there is no other one.
    over: Exceeded,
    /// How many there are.
    count: usize,
    held: Mutex<HeldSlot>,
}

#[derive(Default)]
struct HeldSlot {
    all: usize,
    by_caller: HashMap<CallerKey, CallerSlots>,
}

/// What one caller holds.
#[derive(Default)]
struct CallerSlots {
    count: usize,
    /// For the seats that it may have; made for the first call that needs one.
    seats: Option<Arc<Semaphore>>,
}

impl CallSlots {
    /// As many as a limit says, all free.
    pub fn new(limit: Limit, limits: &Limits) -> Self {
        Self::and_more(limit, limits, 0)
    }

    /// As many as a limit says and so many more, all free.
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

    /// Returns how many are held.
    pub fn held(&self) -> usize {
        self.0.held.lock().all
    }

    /// A slot, until it is dropped.
    ///
    /// # Errors
    /// [`Error::OverLimit`] when none is free, or the caller holds more
    /// than are.
    pub fn take(&self, who: &CallerKey) -> Result<CallSlot, Error> {
        let mut held = self.0.held.lock();
        let free = self.0.count.saturating_sub(held.all);
        let own = held.by_caller.get(who).map_or(0, |own| own.count);
        // Whoever is nowhere may be many.
        let takes_too_many = own > free && *who != CallerKey::Nobody;
        if free == 0 || takes_too_many {
            return Err(self.0.over.into());
        }
        held.all = held.all.saturating_add(1);
        let own = held.by_caller.entry(who.clone()).or_default();
        own.count = own.count.saturating_add(1);
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

impl CallSlot {
    /// A seat, once there is one that the caller may have.
    ///
    /// # Errors
    /// [`Error::Internal`] when it cannot be waited for.
    pub async fn seat(&self, seats: &Seats) -> Result<Seat, Error> {
        let own = self.own(seats).acquire_owned().await;
        let own = own.map_err(|_| Error::Internal)?;
        let seat = Arc::clone(&seats.all).acquire_owned().await;
        let seat = seat.map_err(|_| Error::Internal)?;
        Ok((seat, own))
    }

    /// For as many seats as the caller may have.
    fn own(&self, seats: &Seats) -> Arc<Semaphore> {
        let share = match self.who {
            CallerKey::Nobody => seats.count,
            _ => seats.count.div_ceil(2),
        };
        let mut held = self.slots.held.lock();
        let own = held.by_caller.entry(self.who.clone()).or_default();
        let seats = own
            .seats
            .get_or_insert_with(|| Semaphore::new(share).into());
        Arc::clone(seats)
    }
}

/// Seats for work that runs. A caller has at most half of them, and queues for
/// those with one call at a time for each. So of what one caller asks a thousand
/// times, no more than that is ever before another's question.
#[derive(Clone)]
pub struct Seats {
    count: usize,
    all: Arc<Semaphore>,
}

impl Seats {
    /// So many, all free.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            all: Arc::new(Semaphore::new(count)),
        }
    }
}

/// A seat that is held, of all and of the caller's own.
pub type Seat = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held.lock();
        held.all = held.all.saturating_sub(1);
        if let Some(own) = held.by_caller.get_mut(&self.who) {
            own.count = own.count.saturating_sub(1);
            if own.count == 0 {
                held.by_caller.remove(&self.who);
            }
        }
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
                max_feeds: count,
                ..Limits::default()
            };
            let slots = CallSlots::new(Limit::Feeds, &limits);
            let mut held = Vec::new();
            for (number, share) in shares.iter().enumerate() {
                let who = caller(u8::try_from(number).expect("few callers"));
                let own: Vec<_> = std::iter::from_fn(|| slots.take(&who).ok()).collect();
                assert_eq!(own.len(), *share, "caller {number} of {count} slots");
                held.push(own);
            }
            let all: usize = shares.iter().sum();
            assert_eq!(slots.held(), all);
            held.remove(0);
            assert_eq!(slots.held(), all - shares[0]);
            slots
                .take(&caller(0))
                .map(drop)
                .expect("there is room again");
            drop(held);
            assert_eq!(slots.held(), 0);
            assert!(slots.0.held.lock().by_caller.is_empty());
        }
    }

    /// Returns how many of the calls of callers sit, when each caller has so many calls.
    async fn seated(seats: usize, calls: &[(CallerKey, usize)]) -> Vec<usize> {
        let slots = CallSlots::new(Limit::Feeds, &Limits::default());
        let (seats, sat) = (Seats::new(seats), Arc::new(Mutex::new(Vec::new())));
        for (number, (who, count)) in calls.iter().enumerate() {
            for _ in 0..*count {
                let slot = slots.take(who).expect("there is room");
                let (seats, sat) = (seats.clone(), Arc::clone(&sat));
                tokio::spawn(async move {
                    let _seat = slot.seat(&seats).await;
                    sat.lock().push(number);
                    std::future::pending::<()>().await;
                });
            }
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let sat = sat.lock();
        let of = |number| sat.iter().filter(|sitting| **sitting == number).count();
        (0..calls.len()).map(of).collect()
    }

    #[tokio::test]
    async fn a_caller_leaves_half_of_the_seats() {
        for (seats, calls, expected) in [
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
            assert_eq!(seated(seats, calls).await, expected, "{seats} {calls:?}");
        }
    }

    #[tokio::test]
    async fn callers_wait_for_seats_in_turn() {
        let slots = CallSlots::new(Limit::Feeds, &Limits::default());
        let seats = Seats::new(1);
        let (first, second) = (caller(1), caller(2));
        let slot = slots.take(&first).expect("there is room");
        let seat = slot.seat(&seats).await.expect("it is free");
        let (ran, mut order) = tokio::sync::mpsc::unbounded_channel();
        for who in [&first, &first, &first, &second, &second] {
            let slot = slots.take(who).expect("there is room");
            let (seats, ran, who) = (seats.clone(), ran.clone(), who.clone());
            tokio::spawn(async move {
                let _seat = slot.seat(&seats).await.expect("in its turn");
                ran.send(who).expect("somebody looks");
            });
            // It waits.
            tokio::task::yield_now().await;
        }
        drop((ran, seat));
        let mut seen = Vec::new();
        while let Some(who) = order.recv().await {
            seen.push(who);
        }
        assert_eq!(
            seen,
            [second.clone(), first.clone(), second, first.clone(), first]
        );
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
