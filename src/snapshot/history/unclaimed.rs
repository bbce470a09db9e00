//! Reservations that nobody was told of: they are released as soon as that is
//! possible.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::book::Reservations;
use crate::snapshot::objects::reservation::Serial;

/// The reservations that nobody was told of.
#[derive(Debug, Default)]
pub(super) struct Unclaimed(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    /// Those of which it is not known whether they are made.
    doubtful: Vec<DoubtfulEntry>,
    /// Those that are made.
    made: Vec<Serial>,
}

/// Reservations whose entry may be recorded yet.
#[derive(Debug)]
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
    pub fn doubt(&self, sequence: u64, mark: Uuid, serials: Vec<Serial>) {
        self.0.lock().doubtful.push(DoubtfulEntry {
            sequence,
            mark,
            serials,
        });
    }

    /// Notes which entry has a number; whether it made reservations that nobody was
    /// told of.
    pub fn settle(&self, sequence: u64, mark: Uuid) -> bool {
        let mut lists = self.0.lock();
        let Lists { doubtful, made } = &mut *lists;
        let before = made.len();
        doubtful.retain_mut(|doubt| {
            if doubt.mark == mark {
                made.append(&mut doubt.serials);
            }
            doubt.sequence > sequence
        });
        made.len() > before
    }

    /// Those that are made.
    pub fn made(&self) -> Vec<Serial> {
        self.0.lock().made.clone()
    }

    /// Whether there are any to release.
    pub fn is_due(&self) -> bool {
        !self.0.lock().made.is_empty()
    }

    /// Adds some that are made.
    pub fn add(&self, serials: impl Iterator<Item = Serial>) {
        self.0.lock().made.extend(serials);
    }

    /// Forgets those that are over. The book is read where none can be added that it
    /// does not have yet.
    pub fn forget_ended(&self, book: impl FnOnce() -> Arc<Reservations>) {
        let mut lists = self.0.lock();
        if !lists.made.is_empty() {
            let book = book();
            lists.made.retain(|serial| book.holds(*serial));
        }
    }
}
