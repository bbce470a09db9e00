//! The deadline of a decision, and the one iterator over what a client can make long. The iterator
//! looks at the deadline and at the caller every now and then, and ends with [`Stopped`].

use std::cell::Cell;

use crate::account::Charge;
use crate::limits::Exceeded;

/// The reason why a decision ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The decision is too large to be made where it arrived.
    #[error("the decision is too large to be made where it arrived")]
    Large,
    /// Its deadline has passed, or its caller is gone.
    #[error("nobody waits for the decision any more")]
    GivenUp,
    /// There is no memory for the data that the decision gathers.
    #[error("there is no memory for the decision: {0}")]
    Full(Exceeded),
}

/// The most items that a decision looks at where it arrived.
const AT_ONCE: usize = 400_000;

/// The number of items between two looks at the deadline and at the caller.
const BETWEEN_LOOKS: usize = 2_000;

/// The deadline of a decision, with the presence of its caller and the memory that it gathers.
pub struct Deadline<'a> {
    /// The items that are looked at before the next look.
    left: Cell<usize>,
    /// Returns whether the decision is given up. `None` where it was made as it arrived.
    is_given_up: Option<&'a (dyn Fn() -> bool + 'a)>,
    /// The charge for the memory that the decision gathers; `None` where it gathers little.
    gathered: Option<Charge>,
}

impl<'a> Deadline<'a> {
    /// The deadline of a decision that is made where it arrived. It ends such a decision that turns
    /// out to be large.
    pub fn at_once() -> Self {
        Self {
            left: Cell::new(AT_ONCE),
            is_given_up: None,
            gathered: None,
        }
    }

    /// A deadline that has passed once `is_given_up` returns true. The memory that the decision
    /// gathers is charged.
    pub fn until(is_given_up: &'a (dyn Fn() -> bool + 'a), gathered: Charge) -> Self {
        Self {
            gathered: Some(gathered),
            ..Self::lasting(is_given_up)
        }
    }

    /// A deadline that has passed once `is_given_up` returns true, of a decision that gathers no
    /// memory.
    pub fn lasting(is_given_up: &'a (dyn Fn() -> bool + 'a)) -> Self {
        Self {
            left: Cell::new(BETWEEN_LOOKS),
            is_given_up: Some(is_given_up),
            gathered: None,
        }
    }

    /// Goes through items that a client can make many.
    pub fn each<I: IntoIterator>(&self, items: I) -> Each<'_, I::IntoIter> {
        Each {
            deadline: self,
            items: items.into_iter(),
        }
    }

    /// Counts items that are looked at in one go.
    ///
    /// # Errors
    /// The decision ends here.
    #[inline]
    pub fn step(&self, items: usize) -> Result<(), Stopped> {
        match self.left.get().checked_sub(items) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => self.look(),
        }
    }

    /// Looks at the deadline and at the caller now, before a single piece of work that is long.
    ///
    /// # Errors
    /// The decision ends here.
    #[cold]
    pub fn look(&self) -> Result<(), Stopped> {
        match self.is_given_up {
            None => Err(Stopped::Large),
            Some(is_given_up) if is_given_up() => Err(Stopped::GivenUp),
            Some(_) => {
                self.left.set(BETWEEN_LOOKS);
                Ok(())
            }
        }
    }

    /// Charges this many bytes, which the decision is about to hold until it ends.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn holds(&self, bytes: usize) -> Result<(), Stopped> {
        let charged = self.gathered.as_ref().map(|charge| charge.grow(bytes));
        match charged {
            Some(Err(exhausted)) => Err(Stopped::Full(exhausted.into())),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Returns the bytes that the decision holds.
    pub(in crate::snapshot) fn held_bytes(&self) -> usize {
        self.gathered.as_ref().map_or(0, Charge::bytes)
    }

    /// Gives memory back: the decision holds only this many bytes any more.
    pub(in crate::snapshot) fn hold_only(&self, bytes: usize) {
        if let Some(charge) = &self.gathered {
            charge.set(bytes);
        }
    }
}

/// Items that are counted one by one; made by [`Deadline::each`].
pub struct Each<'d, I> {
    deadline: &'d Deadline<'d>,
    items: I,
}

impl<I: Iterator> Iterator for Each<'_, I> {
    type Item = Result<I::Item, Stopped>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.items.next()?;
        Some(self.deadline.step(1).map(|()| item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_is_noticed_within_a_few_thousand_items() {
        let looks = Cell::new(0);
        let is_given_up = || looks.replace(looks.get() + 1) >= 3;
        let deadline = Deadline::lasting(&is_given_up);
        let seen = deadline.each(0_u64..).take_while(Result::is_ok).count();
        assert_eq!(seen, 3 * (BETWEEN_LOOKS + 1) + BETWEEN_LOOKS);
        assert_eq!(deadline.step(BETWEEN_LOOKS + 1), Err(Stopped::GivenUp));
    }

    #[test]
    fn a_large_decision_is_not_made_where_it_arrived() {
        let deadline = Deadline::at_once();
        assert_eq!(deadline.step(AT_ONCE), Ok(()));
        assert_eq!(deadline.each([()]).next(), Some(Err(Stopped::Large)));
    }
}
