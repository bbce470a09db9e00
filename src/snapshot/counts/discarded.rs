//! Values that were removed under a lock, until a thread without the lock drops them.
//!
//! Dropping a large selector or partition takes milliseconds. The thread that removes it holds a
//! lock that other threads wait for, or serves connections. So that thread puts it here. Writers,
//! long decisions and the sweep drop it, once they have released their locks.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Account, Charge, Part};

/// Values to drop. They stay on the account.
#[derive(Debug)]
pub struct Discarded {
    account: Arc<Account>,
    things: Mutex<Vec<(Box<dyn Any + Send + Sync>, Charge)>>,
}

impl Discarded {
    /// An empty collection, on an account.
    pub fn on(account: &Arc<Account>) -> Self {
        Self {
            account: Arc::clone(account),
            things: Mutex::default(),
        }
    }

    /// Adds a value of this many bytes.
    pub fn add(&self, gone: impl Any + Send + Sync, bytes: usize) {
        let charge = self.account.open(Part::Views);
        charge.set(bytes);
        self.things.lock().push((Box::new(gone), charge));
    }

    /// Drops all values. Call it with no lock held.
    pub fn drop_all(&self) {
        let things = std::mem::take(&mut *self.things.lock());
        drop(things);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_is_there_until_it_is_dropped() {
        let account = Account::new(1_000);
        let discarded = Discarded::on(&account);
        let things = [Arc::new("a view"), Arc::new("a partition")];
        discarded.add(Arc::clone(&things[0]), 100);
        discarded.add(Arc::clone(&things[1]), 20);
        assert_eq!(account.used_by(Part::Views), 120);
        assert!(things.iter().all(|thing| Arc::strong_count(thing) == 2));
        discarded.drop_all();
        assert_eq!(account.used_by(Part::Views), 0);
        assert!(things.iter().all(|thing| Arc::strong_count(thing) == 1));
    }
}
