//! One account of everything that clients can make grow in memory, with one
//! limit for the process.
//!
//! Code that holds something for a client holds a [`Charge`] for it. The other
//! limits are for one thing each; this one is for all of them together.

pub mod heap;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{Exceeded, Limit};

/// What a charge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Objects of the states that answer, with their label sets and owners.
    Objects,
    /// Objects of states that are built aside, and copies that are written out.
    Staged,
    /// Views and partitions, with their keys, and compiled questions.
    Views,
    /// Requests that arrive or are being decided.
    Requests,
    /// Answers that their clients have not read.
    Answers,
    /// Connections and open streams.
    Streams,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Objects,
        Self::Staged,
        Self::Views,
        Self::Requests,
        Self::Answers,
        Self::Streams,
    ];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Staged => "staged",
            Self::Views => "views",
            Self::Requests => "requests",
            Self::Answers => "answers",
            Self::Streams => "streams",
        }
    }
}

/// More than the process may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process has {used} of {limit} bytes in use, and {wanted} more are wanted")]
pub struct Exhausted {
    /// The limit, in bytes.
    pub limit: usize,
    /// What was in use.
    pub used: usize,
    /// What was asked for.
    pub wanted: usize,
}

impl From<Exhausted> for Exceeded {
    fn from(exhausted: Exhausted) -> Self {
        Self {
            limit: Limit::MemoryBytes,
            most: exhausted.limit,
            actual: Some(exhausted.used.saturating_add(exhausted.wanted)),
        }
    }
}

/// The account of a process.
#[derive(Debug)]
pub struct Account {
    limit: usize,
    total: AtomicUsize,
    parts: [AtomicUsize; Part::ALL.len()],
    refused: AtomicUsize,
}

impl Account {
    /// An empty one with a limit in bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            total: AtomicUsize::new(0),
            parts: Default::default(),
            refused: AtomicUsize::new(0),
        })
    }

    /// An account without a limit, for a process that serves nobody else.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// Returns what all parts take, in bytes.
    pub fn used(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns what one part takes, in bytes.
    pub fn used_by(&self, part: Part) -> usize {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Returns how often something was refused because the limit was reached.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// An empty charge for a part.
    pub fn open(self: &Arc<Self>, part: Part) -> Charge {
        Charge {
            account: Arc::clone(self),
            part,
            bytes: 0,
        }
    }

    /// An empty gauge for a part.
    pub fn gauge(self: &Arc<Self>, part: Part) -> Gauge {
        Gauge {
            account: Arc::clone(self),
            part,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns whether this many more bytes of a part would be allowed now.
    pub fn has_room(&self, part: Part, bytes: usize) -> bool {
        let sum = self.used().checked_add(bytes);
        bytes == 0 || sum.is_some_and(|sum| sum <= self.limit - self.reserve(part))
    }

    /// Returns what a part must leave free, so that stored objects never crowd out
    /// requests, and views never crowd out objects.
    fn reserve(&self, part: Part) -> usize {
        match part {
            Part::Views => self.limit / 8,
            Part::Objects | Part::Staged => self.limit / 16,
            Part::Requests | Part::Answers | Part::Streams => 0,
        }
    }

    /// A charge of this many bytes.
    ///
    /// # Errors
    /// [`Exhausted`] when the limit does not allow it. Then nothing is charged.
    pub fn charge(self: &Arc<Self>, part: Part, bytes: usize) -> Result<Charge, Exhausted> {
        let mut charge = self.open(part);
        charge.grow(bytes)?;
        Ok(charge)
    }

    fn add(&self, part: Part, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, part: Part, bytes: usize) {
        self.total.fetch_sub(bytes, Ordering::Relaxed);
        self.parts[part as usize].fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What something takes, on the account until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    part: Part,
    bytes: usize,
}

impl Charge {
    /// Returns how many bytes it is of.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges this many more bytes.
    ///
    /// # Errors
    /// [`Exhausted`] when the limit does not allow it. Then nothing is charged.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        // What takes nothing is never too much.
        if bytes == 0 {
            return Ok(());
        }
        // Charged first and looked at then, so that no two callers take the
        // same room.
        self.account.add(self.part, bytes);
        let used = self.account.used();
        let reserve = self.account.reserve(self.part);
        if used <= self.account.limit - reserve {
            self.bytes += bytes;
            return Ok(());
        }
        self.account.subtract(self.part, bytes);
        self.account.refused.fetch_add(1, Ordering::Relaxed);
        Err(Exhausted {
            limit: self.account.limit,
            used: used.saturating_sub(bytes),
            wanted: bytes.saturating_add(reserve),
        })
    }

    /// Sets it to the current size of something that exists already, whatever
    /// the limit.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.account.add(self.part, more),
            None => self.account.subtract(self.part, self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

/// The size of something that many threads change, on the account until this is
/// dropped. What it counts exists already, so it ignores the limit.
#[derive(Debug)]
pub struct Gauge {
    account: Arc<Account>,
    part: Part,
    bytes: AtomicUsize,
}

impl Gauge {
    /// Returns how many bytes it says.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The account that it is on.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Notes that something that took `before` takes `after` now.
    pub fn change(&self, before: usize, after: usize) {
        // Sums wrap around as they do for the account: what some add and others
        // take away may be noted in any order.
        let more = after.wrapping_sub(before);
        if more != 0 {
            self.bytes.fetch_add(more, Ordering::Relaxed);
            self.account.add(self.part, more);
        }
    }

    /// Notes that it takes so much now. Only one caller may change it.
    pub fn set(&self, bytes: usize) {
        self.change(self.bytes(), bytes);
    }

    /// Moves the size to another part of the account.
    pub fn move_to(&mut self, part: Part) {
        let bytes = self.bytes();
        self.account.subtract(self.part, bytes);
        self.account.add(part, bytes);
        self.part = part;
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.account.subtract(self.part, self.bytes());
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.subtract(self.part, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_end_with_what_they_are_for() {
        let account = Account::new(100);
        let mut a = account.charge(Part::Views, 60).expect("60 of 100");
        let refused = account.charge(Part::Requests, 41).expect_err("41 of 40");
        assert_eq!((refused.used, refused.wanted), (60, 41));
        assert_eq!((account.used(), account.refused()), (60, 1));
        a.set(10);
        let b = account.charge(Part::Requests, 90).expect("90 of 90");
        assert_eq!(account.used_by(Part::Views), 10);
        assert_eq!(account.used_by(Part::Requests), 90);
        let mut gauge = account.gauge(Part::Staged);
        gauge.change(0, 20);
        gauge.change(20, 15);
        let over = account.charge(Part::Requests, 1);
        assert_eq!(over.expect_err("115 of 100").used, 115);
        account
            .charge(Part::Requests, 0)
            .expect("nothing is never too much");
        gauge.move_to(Part::Objects);
        assert_eq!(account.used_by(Part::Staged), 0);
        assert_eq!(account.used_by(Part::Objects), 15);
        drop((a, b, gauge));
        assert_eq!(account.used(), 0);
    }
}
