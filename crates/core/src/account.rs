//! One account of all memory that clients can make grow, with one limit for the process.
//!
//! Code that keeps data for a client holds a [`Charge`] for it. The other limits are for one kind
//! of data each; this one is for all of them together.

pub mod heap;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{Exceeded, Limit};

/// The purpose of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Objects of published states, with their label sets and owners.
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
    /// All parts.
    pub const ALL: [Self; 6] = [
        Self::Objects,
        Self::Staged,
        Self::Views,
        Self::Requests,
        Self::Answers,
        Self::Streams,
    ];

    /// The part's name in metrics.
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

/// The error that the process may not take more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process has {used} of {limit} bytes in use, and {wanted} more are wanted")]
pub struct Exhausted {
    /// The limit, in bytes.
    pub limit: usize,
    /// The bytes that were in use.
    pub used: usize,
    /// The bytes that were asked for.
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
    /// An empty account with a limit in bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            total: AtomicUsize::new(0),
            parts: Default::default(),
            refused: AtomicUsize::new(0),
        })
    }

    /// An account without a limit, for a process without other clients.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// Returns the bytes of all parts.
    pub fn used(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the bytes of one part.
    pub fn used_by(&self, part: Part) -> usize {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of refusals because the limit was reached.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// An empty charge for a part.
    pub fn open(self: &Arc<Self>, part: Part) -> Charge {
        Charge {
            account: Arc::clone(self),
            part,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns whether this many more bytes of a part would be allowed at present.
    pub fn has_room(&self, part: Part, bytes: usize) -> bool {
        let sum = self.used().checked_add(bytes);
        bytes == 0 || sum.is_some_and(|sum| sum <= self.limit - self.reserve(part))
    }

    /// Returns the bytes that a part must leave free, so that stored objects never crowd out
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
        let charge = self.open(part);
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

/// Bytes that stay on the account until this charge is dropped. Many threads may change it.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    part: Part,
    bytes: AtomicUsize,
}

impl Charge {
    /// Returns the charged bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the account that this is charged to.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Charges this many more bytes.
    ///
    /// # Errors
    /// [`Exhausted`] when the limit does not allow it. Then nothing is charged.
    pub fn grow(&self, bytes: usize) -> Result<(), Exhausted> {
        // Zero bytes are never too many.
        if bytes == 0 {
            return Ok(());
        }
        // Charges before it checks, so that two callers never take the same room.
        self.account.add(self.part, bytes);
        let used = self.account.used();
        let reserve = self.account.reserve(self.part);
        if used <= self.account.limit - reserve {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
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

    /// Records that existing data grew or shrank from `before` to `after`, whatever the limit.
    pub fn change(&self, before: usize, after: usize) {
        // Additions and subtractions of several callers may be recorded in any order, so this sum
        // wraps around, as the account's sums do.
        let more = after.wrapping_sub(before);
        if more != 0 {
            self.bytes.fetch_add(more, Ordering::Relaxed);
            self.account.add(self.part, more);
        }
    }

    /// Sets the charge to the size of existing data, whatever the limit. No other caller may change
    /// the charge at the same time.
    pub fn set(&self, bytes: usize) {
        self.change(self.bytes(), bytes);
    }

    /// Moves the charge to another part of the account.
    pub fn move_to(&mut self, part: Part) {
        let bytes = self.bytes();
        self.account.subtract(self.part, bytes);
        self.account.add(part, bytes);
        self.part = part;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.subtract(self.part, self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_end_with_what_they_are_for() {
        let account = Account::new(100);
        let a = account.charge(Part::Views, 60).expect("60 of 100");
        let refused = account.charge(Part::Requests, 41).expect_err("41 of 40");
        assert_eq!((refused.used, refused.wanted), (60, 41));
        assert_eq!((account.used(), account.refused()), (60, 1));
        a.set(10);
        let b = account.charge(Part::Requests, 90).expect("90 of 90");
        assert_eq!(account.used_by(Part::Views), 10);
        assert_eq!(account.used_by(Part::Requests), 90);
        let mut staged = account.open(Part::Staged);
        staged.change(0, 20);
        staged.change(20, 15);
        let over = account.charge(Part::Requests, 1);
        assert_eq!(over.expect_err("115 of 100").used, 115);
        account
            .charge(Part::Requests, 0)
            .expect("nothing is never too much");
        staged.move_to(Part::Objects);
        assert_eq!(account.used_by(Part::Staged), 0);
        assert_eq!(account.used_by(Part::Objects), 15);
        drop((a, b, staged));
        assert_eq!(account.used(), 0);
    }
}
