//! A snapshot whole, of one moment, as a journal can make it anew.

use super::journal::{Standing, Whole};
use super::named::Snapshot;
use super::turn::WriteTurn;

impl Snapshot {
    /// A copy of everything, with what `mark` makes of the place in the journal
    /// that it is of; `None` where `mark` wants none, and when it is deleted.
    pub fn whole<M>(&self, mark: impl FnOnce(Standing<'_>) -> Option<M>) -> Option<(Whole, M)> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        let mark = mark(turn.standing())?;
        Some((turn.whole(), mark))
    }

    /// Does something with a copy of everything, and with how far it has come. Nothing
    /// changes meanwhile. `None` when it is deleted.
    pub fn with_whole<T>(&self, act: impl FnOnce(Standing<'_>, Whole) -> T) -> Option<T> {
        let turn = WriteTurn::take_unless_deleted(self)?;
        Some(act(turn.standing(), turn.whole()))
    }
}
