//! The budget of a decision. On a thread that serves connections, every piece of
//! work is taken from the budget before it begins. Aside, a decision checks now
//! and then whether its caller still waits, and takes what it gathers in memory
//! from the account.

use std::cell::Cell;

use crate::account::Charge;
use crate::limits::Exceeded;

/// The reason why a decision was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// The decision costs more than was allowed, or its caller is gone.
    Long,
    /// There is no memory for the data that the decision gathers.
    Full(Exceeded),
}

/// A unit of work, some 5 ns: checking a requirement of a node, or adding up a count.
pub type Units = u64;

/// The most that a decision may cost on a thread that serves other calls: about 2 ms.
const AT_ONCE: Units = 400_000;

/// The amount of work between two checks whether to continue: about 1 ms.
const SLICE: Units = 200_000;

/// The rest of the cost that a decision may have.
pub struct Budget<'a> {
    left: Cell<Units>,
    /// The units spent since the last check whether to continue.
    unlooked: Cell<Units>,
    is_given_up: Option<&'a (dyn Fn() -> bool + 'a)>,
    /// The charge for the memory that the decision gathers; `None` where it gathers little.
    gathered: Option<Charge>,
    delay: Cell<Option<Delay>>,
}

impl<'a> Budget<'a> {
    /// The budget of a decision on a thread that serves other calls.
    pub fn at_once() -> Self {
        Self::of(AT_ONCE)
    }

    /// A budget of this many units.
    pub fn of(units: Units) -> Self {
        Self {
            left: Cell::new(units),
            unlooked: Cell::new(0),
            is_given_up: None,
            gathered: None,
            delay: Cell::new(None),
        }
    }

    /// A budget that lasts until `is_given_up` returns true, and that charges the memory that the
    /// decision gathers.
    pub fn until(is_given_up: &'a (dyn Fn() -> bool + 'a), gathered: Charge) -> Self {
        Self {
            gathered: Some(gathered),
            ..Self::lasting(is_given_up)
        }
    }

    /// A budget that lasts until `is_given_up` returns true, for a decision that gathers no memory.
    pub fn lasting(is_given_up: &'a (dyn Fn() -> bool + 'a)) -> Self {
        Self {
            is_given_up: Some(is_given_up),
            ..Self::of(Units::MAX)
        }
    }

    /// Takes the cost of a piece of work. The work may begin if this returns
    /// `true`. A decision aside may begin anything, and asks [`Self::goes_on`].
    pub fn affords(&self, units: impl TryInto<Units>) -> bool {
        if self.is_given_up.is_none() && self.delay.get().is_none() {
            let units = units.try_into().unwrap_or(Units::MAX);
            match self.left.get().checked_sub(units) {
                Some(left) => self.left.set(left),
                None => self.give_up(Delay::Long),
            }
        }
        self.delay.get().is_none()
    }

    /// Returns whether to continue a piece of work. `units` is the cost of its next
    /// part.
    pub fn goes_on(&self, units: impl TryInto<Units>) -> bool {
        if let Some(is_given_up) = self.is_given_up {
            let units = units.try_into().unwrap_or(Units::MAX);
            let unlooked = self.unlooked.get().saturating_add(units);
            self.unlooked.set(unlooked % SLICE);
            if unlooked >= SLICE && is_given_up() {
                self.give_up(Delay::Long);
            }
        }
        self.delay.get().is_none()
    }

    /// Calls [`Self::affords`] and [`Self::goes_on`], for work that is done in one go.
    pub fn takes(&self, units: usize) -> bool {
        self.affords(units) && self.goes_on(units)
    }

    /// Charges this many bytes that are held until the decision ends. They may
    /// be gathered if this returns `true`.
    pub fn holds(&self, bytes: usize) -> bool {
        let charged = self.gathered.as_ref().map(|charge| charge.grow(bytes));
        if let Some(Err(exhausted)) = charged {
            self.give_up(Delay::Full(exhausted.into()));
        }
        self.delay.get().is_none()
    }

    /// Records that something was left out, so the decision is void.
    pub fn give_up(&self, delay: Delay) {
        if self.delay.get().is_none() {
            self.delay.set(Some(delay));
        }
    }

    /// The reason why something was left out, if it was.
    pub fn delay(&self) -> Option<Delay> {
        self.delay.get()
    }
}
