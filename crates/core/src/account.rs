//! The memory of the process, with one limit.
//!
//! What is in use is asked of the allocator, so nothing counts its own bytes. Only requests that
//! are under way are counted, because what they will take is known before the allocator sees it.
//! The other limits are for one kind of data each; this one is for everything together.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{Exceeded, Limit};

/// The purpose of memory. What matters less leaves a share of the limit to what matters more, so
/// that views never crowd out objects, and objects never crowd out requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Cached counts, which can be made again.
    Cache,
    /// Objects, reservations and states that are built.
    Objects,
    /// Requests, answers and what a decision gathers.
    Work,
}

/// The most bytes of a request that is small, however much memory there is.
const MOST_SMALL_BYTES: usize = 1 << 20;

/// The age of a figure that is asked of an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It may be a millisecond old, and costs next to nothing.
    Recent,
    /// It is that of this moment.
    Current,
}

/// Returns the bytes that the allocator of the process has given out.
type InUse = Box<dyn Fn(Freshness) -> usize + Send + Sync>;

/// The memory of a process and its limit.
pub struct Account {
    limit: usize,
    in_use: Option<InUse>,
    /// The bytes of requests.
    requests: AtomicUsize,
    /// The bytes of small requests, which are also among those of all.
    small: AtomicUsize,
    refused: AtomicUsize,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("limit", &self.limit)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl Account {
    /// An account with a limit in bytes, of a process whose allocator is unknown: it limits only
    /// what is under way.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self::with(limit, None))
    }

    /// An account with a limit in bytes. `in_use` returns the bytes that the allocator has given
    /// out. It is asked for a recent figure often, and for the current one where that is too much.
    pub fn measured(
        limit: usize,
        in_use: impl Fn(Freshness) -> usize + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::with(limit, Some(Box::new(in_use))))
    }

    fn with(limit: usize, in_use: Option<InUse>) -> Self {
        Self {
            limit,
            in_use,
            requests: AtomicUsize::new(0),
            small: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// An account without a limit, for a process without other clients.
    pub fn unlimited() -> Arc<Self> {
        Self::new(usize::MAX)
    }

    /// Returns the bytes that the allocator has given out; `None` if it is unknown.
    pub fn allocated(&self) -> Option<usize> {
        self.figure(Freshness::Current)
    }

    fn figure(&self, freshness: Freshness) -> Option<usize> {
        self.in_use.as_ref().map(|in_use| in_use(freshness))
    }

    /// Returns the bytes in use, with those that requests will take. Their bytes may be among both:
    /// nobody knows how far the allocator has given them out.
    pub fn used(&self) -> usize {
        self.used_at(Freshness::Current)
    }

    fn used_at(&self, freshness: Freshness) -> usize {
        let allocated = self.figure(freshness).unwrap_or(0);
        allocated.saturating_add(self.requests())
    }

    /// Returns the bytes that requests under way take.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the number of refusals because the limit was reached.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// An empty charge for a request.
    pub fn open(self: &Arc<Self>) -> Charge {
        Charge {
            account: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns whether there is room for this many more bytes at present.
    pub fn has_room(&self, purpose: Purpose, bytes: usize) -> bool {
        self.room(purpose, bytes).is_ok()
    }

    /// Checks that there is room for this many more bytes, which nobody counts.
    ///
    /// # Errors
    /// [`Exceeded`] when the limit does not allow it.
    pub fn check(&self, purpose: Purpose, bytes: usize) -> Result<(), Exceeded> {
        let room = self.room(purpose, bytes);
        room.inspect_err(|_| self.note_refusal())
    }

    fn room(&self, purpose: Purpose, bytes: usize) -> Result<(), Exceeded> {
        if self.limit == usize::MAX {
            return Ok(());
        }
        let wanted = bytes.saturating_add(self.reserve(purpose));
        let mut actual = 0;
        // A recent figure may contain what is free by now.
        for freshness in [Freshness::Recent, Freshness::Current] {
            actual = self.used_at(freshness).saturating_add(wanted);
            if actual <= self.limit {
                return Ok(());
            }
        }
        Err(Exceeded {
            limit: Limit::MemoryBytes,
            most: self.limit,
            actual: Some(actual),
        })
    }

    /// Returns the bytes that a purpose must leave free.
    fn reserve(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Cache => self.limit / 8,
            Purpose::Objects => self.limit / 16,
            Purpose::Work => 0,
        }
    }

    /// A charge of this many bytes.
    ///
    /// # Errors
    /// [`Exceeded`] when the limit does not allow it. Then nothing is charged.
    pub fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Exceeded> {
        let charge = self.open();
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Returns whether a charge of so many bytes has room whatever the rest takes: small questions are
    /// answered even if stored objects or large requests take all memory, as long as they take little
    /// together.
    fn is_little(&self, bytes: usize) -> bool {
        let together = self.small.load(Ordering::Relaxed);
        bytes <= self.small_bytes() && together <= self.reserve(Purpose::Objects)
    }

    /// The most bytes of a small request.
    fn small_bytes(&self) -> usize {
        MOST_SMALL_BYTES.min(self.reserve(Purpose::Objects))
    }

    fn note_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a charge with its present bytes instead of the former.
    fn recount(&self, from: usize, to: usize) {
        let change = |counted: &AtomicUsize, from: usize, to: usize| {
            counted.fetch_add(to, Ordering::Relaxed);
            counted.fetch_sub(from, Ordering::Relaxed);
        };
        change(&self.requests, from, to);
        let small = |bytes: usize| match bytes <= self.small_bytes() {
            true => bytes,
            false => 0,
        };
        change(&self.small, small(from), small(to));
    }
}

/// Bytes that stay on the account until this charge is dropped. Many threads may change it.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Returns the charged bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Charges this many more bytes.
    ///
    /// # Errors
    /// [`Exceeded`] when the limit does not allow it. Then nothing is charged.
    pub fn grow(&self, bytes: usize) -> Result<(), Exceeded> {
        // Zero bytes are never too many.
        if bytes == 0 {
            return Ok(());
        }
        // Charges before it checks, so that two callers never take the same room.
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let now = before + bytes;
        self.account.recount(before, now);
        if self.account.is_little(now) {
            return Ok(());
        }
        self.account.check(Purpose::Work, 0).inspect_err(|_| {
            let now = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.account.recount(now, now - bytes);
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.recount(self.bytes(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_end_with_what_they_are_for() {
        let account = Account::new(100);
        let a = account.charge(60).expect("60 of 100");
        let refused = account.charge(41).expect_err("41 of 40");
        assert_eq!((refused.most, refused.actual), (100, Some(101)));
        assert_eq!((account.used(), account.refused()), (60, 1));
        drop(a);
        let a = account.charge(10).expect("10 of 100");
        let b = account.charge(90).expect("90 of 90");
        assert_eq!(account.requests(), 100);
        account.charge(7).expect_err("107 of 100");
        account.charge(0).expect("nothing is never too much");
        drop((a, b));
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn what_the_allocator_gave_out_is_in_use_whoever_has_it() {
        let figure = Arc::new(AtomicUsize::new(100));
        let told = Arc::clone(&figure);
        let account = Account::measured(160, move |_| told.load(Ordering::Relaxed));
        assert_eq!((account.used(), account.allocated()), (100, Some(100)));
        assert!(account.has_room(Purpose::Cache, 40));
        assert!(!account.has_room(Purpose::Cache, 41), "an eighth is left");
        assert!(account.has_room(Purpose::Objects, 50));
        assert!(!account.has_room(Purpose::Objects, 51), "a 16th is left");
        account.check(Purpose::Work, 60).expect("60 of 60");
        account.check(Purpose::Work, 61).expect_err("61 of 60");
        let request = account.charge(60).expect("60 of 60");
        account.charge(11).expect_err("none is left");
        drop(request);
        figure.store(1_000, Ordering::Relaxed);
        assert!(!account.has_room(Purpose::Work, 0));
        account.charge(11).expect_err("it is much");
    }

    #[test]
    fn a_little_is_taken_in_whatever_the_rest_takes() {
        let account = Account::measured(160, |_| 1_000);
        let _little = account.charge(10).expect("a 16th");
        let refused = account.charge(1).expect_err("more");
        assert_eq!(refused.actual, Some(1_011));
        account
            .check(Purpose::Objects, 0)
            .expect_err("objects are no work");
    }

    #[test]
    fn large_requests_take_no_room_of_small_ones() {
        let account = Account::new(160);
        let large = account.charge(9).expect("there is room");
        large.grow(151).expect("160 of 160");
        large.grow(1).expect_err("161 of 160");
        let small = account.charge(5).expect("a 32nd");
        let _small = account.charge(5).expect("a 16th");
        account.charge(1).expect_err("more");
        drop(small);
        drop(large);
        assert_eq!(account.used(), 5);
    }
}
