//! What was taken out under a lock, until somebody drops it who has none.
//!
//! Dropping a large selector or partition takes milliseconds. Whoever takes it
//! out holds a lock that others wait for, or runs on a thread that serves
//! connections. So it is put here. Writers, long decisions and the sweep drop
//! it, once they have released their locks.

use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::account::{Account, Gauge, Part};

/// Things to drop. They stay on the account.
#[derive(Debug)]
pub struct Discarded {
    account: Arc<Account>,
    things: Mutex<Vec<(Box<dyn Any + Send + Sync>, Gauge)>>,
}

impl Discarded {
    /// Nothing, on an account.
    pub fn on(account: &Arc<Account>) -> Self {
        Self {
            account: Arc::clone(account),
            things: Mutex::default(),
        }
    }

    /// Adds something that takes so many bytes.
    pub fn add(&self, gone: impl Any + Send + Sync, bytes: usize) {
        let gauge = self.account.gauge(Part::Views);
        gauge.set(bytes);
        self.things.lock().push((Box::new(gone), gauge));
    }

    /// Drops all of it. Call it with no lock held.
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
