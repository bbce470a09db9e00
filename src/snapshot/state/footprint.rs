//! What a state takes in memory, updated as changes happen. So it is known
//! without looking at the objects, and is on the account of the process.

use std::sync::Arc;

use parking_lot::Mutex;

use super::memory::MemoryUse;
use crate::account::{Account, Gauge, Part};

/// The objects of a state on the account. Views and partitions are kept by
/// `counts::upkeep`.
#[derive(Debug)]
pub struct Footprint {
    gauge: Gauge,
    memory: Mutex<MemoryUse>,
}

impl Footprint {
    /// For an empty state that takes this many bytes itself.
    pub fn new(account: &Arc<Account>, part: Part, own_bytes: usize) -> Self {
        let gauge = account.gauge(part);
        gauge.set(own_bytes);
        let memory = MemoryUse {
            namespaces: own_bytes,
            ..MemoryUse::default()
        };
        Self {
            gauge,
            memory: Mutex::new(memory),
        }
    }

    /// The account that it is on.
    pub fn account(&self) -> &Arc<Account> {
        self.gauge.account()
    }

    /// Moves the objects to another part of the account.
    pub fn move_to(&mut self, part: Part) {
        self.gauge.move_to(part);
    }

    /// Notes what the nodes take now. Call it with them locked.
    pub fn note_nodes(&self, bytes: usize) {
        let mut memory = self.memory.lock();
        self.gauge.change(memory.nodes, bytes);
        memory.nodes = bytes;
    }

    /// Notes that some namespaces that took `before` take `after` now.
    pub fn change(&self, before: MemoryUse, after: MemoryUse) {
        self.gauge.change(before.total(), after.total());
        let mut memory = self.memory.lock();
        *memory += after;
        *memory -= before;
    }

    /// What they take, without views and partitions.
    pub fn memory(&self) -> MemoryUse {
        *self.memory.lock()
    }
}
