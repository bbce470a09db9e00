//! Reservations that nobody was told of: they are released as soon as that is
//! possible.

use uuid::Uuid;

use crate::snapshot::objects::reservation::Serial;

/// The reservations that nobody was told of.
#[derive(Debug, Clone, Default)]
pub(super) struct Unclaimed {
    /// Those of which it is not known whether they are made.
    doubtful: Vec<DoubtfulEntry>,
    /// Those that are made.
    pub made: Vec<Serial>,
}

/// Reservations whose entry may be recorded yet.
#[derive(Debug, Clone)]
struct DoubtfulEntry {
    /// The number of the entry. Once another one has it, it never is.
    sequence: u64,
    /// What the journal knows it by.
    mark: Uuid,
    serials: Vec<Serial>,
}

impl Unclaimed {
    /// Notes reservations that an entry would make, of which it is not known whether
    /// it is recorded.
    pub fn doubt(&mut self, sequence: u64, mark: Uuid, serials: Vec<Serial>) {
        self.doubtful.push(DoubtfulEntry {
            sequence,
            mark,
            serials,
        });
    }

    /// Notes which entry has a number; whether it made reservations that nobody was
    /// told of.
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
