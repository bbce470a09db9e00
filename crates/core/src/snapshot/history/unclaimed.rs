//! Reservations whose caller was never told of them: they are released as soon as possible.

use uuid::Uuid;

use crate::snapshot::objects::reservation::Serial;

/// The reservations whose caller was never told of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Unclaimed {
    /// The reservations that may or may not have been made.
    doubtful: Vec<DoubtfulEntry>,
    /// The reservations that are made.
    pub made: Vec<Serial>,
}

/// Reservations whose entry may still be recorded.
#[derive(Debug, Clone)]
struct DoubtfulEntry {
    /// The number of the entry. Once another entry has it, this one is never recorded.
    sequence: u64,
    /// The mark by which the journal recognises it.
    mark: Uuid,
    serials: Vec<Serial>,
}

impl Unclaimed {
    /// Records the reservations of an entry that may or may not be recorded.
    pub fn doubt(&mut self, sequence: u64, mark: Uuid, serials: Vec<Serial>) {
        self.doubtful.push(DoubtfulEntry {
            sequence,
            mark,
            serials,
        });
    }

    /// Learns which entry has a number. Returns whether that entry made reservations whose caller
    /// was never told.
    pub fn settle(&mut self, sequence: u64, mark: Uuid) -> bool {
        let before = self.made.len();
        self.doubtful.retain_mut(|doubt| {
            if doubt.mark == mark {
                self.made.append(&mut doubt.serials);
            }
            doubt.sequence > sequence
        });
        self.made.len() > before
    }
}
