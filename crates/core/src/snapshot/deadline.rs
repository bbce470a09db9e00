//! The deadline of a decision, and the one iterator over what a client can make long. The iterator
//! looks at the deadline and at the caller every now and then, and ends with [`Stopped`].

use std::cell::Cell;

use crate::account::{Account, Purpose};
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

/// The bytes of an answer that take as long to write as an item to look at.
const ITEM_BYTES: usize = 256;

/// The deadline of a decision, with the presence of its caller and the memory that it gathers.
pub struct Deadline<'a> {
    /// The items that are looked at before the next look.
    left: Cell<usize>,
    /// Returns whether the decision is given up. `None` where it was made as it arrived.
    is_given_up: Option<&'a (dyn Fn() -> bool + 'a)>,
    /// The account that says whether there is memory; `None` where the decision gathers little.
    account: Option<&'a Account>,
}

impl<'a> Deadline<'a> {
    /// The deadline of a decision that is made where it arrived. It ends such a decision that turns
    /// out to be large.
    pub fn at_once() -> Self {
        Self {
            left: Cell::new(AT_ONCE),
            is_given_up: None,
            account: None,
        }
    }

    /// A deadline that has passed once `is_given_up` returns true, or when there is no memory for
    /// what the decision gathers.
    pub fn until(is_given_up: &'a (dyn Fn() -> bool + 'a), account: &'a Account) -> Self {
        Self {
            account: Some(account),
            ..Self::lasting(is_given_up)
        }
    }

    /// A deadline that has passed once `is_given_up` returns true, of a decision that gathers no
    /// memory.
    pub fn lasting(is_given_up: &'a (dyn Fn() -> bool + 'a)) -> Self {
        Self {
            left: Cell::new(BETWEEN_LOOKS),
            is_given_up: Some(is_given_up),
            account: None,
        }
    }

    /// A deadline that never passes.
    pub fn endless() -> Self {
        Self::lasting(&|| false)
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

    /// Counts an entry of an answer by its length, and checks that there is memory for this many bytes,
    /// which the answer needs so far.
    ///
    /// # Errors
    /// The decision ends here.
    pub fn entry(&self, length: usize, needed: usize) -> Result<(), Stopped> {
        self.step(length / ITEM_BYTES)?;
        self.holds(needed)
    }

    /// Checks that there is memory left. A decision that gathers things asks for each of them; one
    /// that gathers little is answered even if the stored objects take all memory.
    ///
    /// # Errors
    /// There is none.
    pub fn room(&self) -> Result<(), Stopped> {
        self.holds(0)
    }

    fn holds(&self, bytes: usize) -> Result<(), Stopped> {
        let room = self
            .account
            .map_or(Ok(()), |account| account.check(Purpose::Work, bytes));
        room.map_err(Stopped::Full)
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
