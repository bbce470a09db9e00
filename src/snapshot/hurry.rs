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
pub struct Hurry(Cell<bool>);

impl Hurry {
    /// Nodes up to which a decision is over at once.
    pub const MAX_NODES: usize = 100_000;

    /// Label sets up to which a count is over at once.
    pub const MAX_LABEL_SETS: usize = 20_000;

    /// Notes that something was left out that would have taken too long: what
    /// is decided is worth nothing.
    pub fn give_up(&self) {
        self.0.set(true);
    }

    /// Whether something was left out.
    pub fn gave_up(&self) -> bool {
        self.0.get()
    }
}
