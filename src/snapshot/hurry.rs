//! Decisions that have to be over at once: whoever makes them holds up other
//! calls meanwhile.

use std::cell::Cell;

/// Why a decision was not over at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// Somebody changes what it reads, and will soon be done.
    Held,
    /// It takes long itself.
    Long,
}

/// What a decision in a hurry does not wait for.
#[derive(Debug, Default)]
pub struct Hurry(Cell<Option<Delay>>);

impl Hurry {
    /// Nodes up to which a decision is over at once.
    pub const MAX_NODES: usize = 100_000;

    /// Label sets up to which a count is over at once.
    pub const MAX_LABEL_SETS: usize = 20_000;

    /// Notes that something was left out: what is decided is worth nothing.
    pub fn give_up(&self, delay: Delay) {
        if self.0.get() != Some(Delay::Long) {
            self.0.set(Some(delay));
        }
    }

    /// Why something was left out, if it was.
    pub fn gave_up(&self) -> Option<Delay> {
        self.0.get()
    }
}
