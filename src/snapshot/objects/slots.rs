//! The numbers of node names. Pods may name a node that does not exist yet, so
//! a number may be for a name without a node.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::account::heap;

/// The number of a node, whether it exists or is only named by pods. Reused
/// once nothing names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(NonZeroU32);

impl Slot {
    /// As an index into an array with one element per slot.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The slot of an index. It counts from 1 inside, so that an `Option` of it
    /// takes no more room.
    pub(in crate::snapshot) fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("fewer than 2^32 nodes"))
    }
}

/// The slots of all names in use.
#[derive(Debug, Default)]
pub(in crate::snapshot) struct Slots {
    entries: Vec<NamedSlot>,
    by_name: HashMap<Arc<str>, Slot>,
    free: Vec<Slot>,
    /// Slots that may have lost their last use while only a read lock was
    /// held; looked at by [`Self::settle`].
    idle: Mutex<Vec<Slot>>,
    /// What the names take.
    name_bytes: usize,
}

#[derive(Debug, Default)]
struct NamedSlot {
    /// Shared by copies.
    name: Arc<str>,
    /// Whether the slot is among those to look at; see [`Slots::settle`].
    idle: AtomicBool,
    /// Pods that name the node. Counted through a shared reference, because
    /// namespaces change side by side.
    pods: AtomicU32,
}

impl Slots {
    /// The slot of a name that is in use.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The slot of a name, given out if need be.
    pub fn reserve(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(NamedSlot::default());
            Slot::at(self.entries.len() - 1)
        });
        let name: Arc<str> = name.into();
        self.name_bytes += heap::shared(name.len());
        self.entries[slot.index()].name = Arc::clone(&name);
        self.by_name.insert(name, slot);
        self.note_idle(slot);
        slot
    }

    /// Notes that a slot may have lost its last use.
    pub fn note_idle(&self, slot: Slot) {
        let noted = &self.entries[slot.index()].idle;
        if !noted.swap(true, Ordering::Relaxed) {
            self.idle.lock().push(slot);
        }
    }

    /// Frees the slots that nothing names: no pod, and no node that `exists`.
    pub fn settle(&mut self, exists: impl Fn(Slot) -> bool) {
        for slot in std::mem::take(self.idle.get_mut()) {
            let entry = &mut self.entries[slot.index()];
            *entry.idle.get_mut() = false;
            let named = exists(slot) || *entry.pods.get_mut() > 0;
            if !named && self.by_name.remove(&entry.name).is_some() {
                self.name_bytes -= heap::shared(entry.name.len());
                entry.name = Arc::default();
                self.free.push(slot);
            }
        }
    }

    /// The name of a slot.
    pub fn name(&self, slot: Slot) -> &str {
        &self.entries[slot.index()].name
    }

    /// Counts one more pod that names the node.
    pub fn add_pod(&self, slot: Slot) {
        let pods = &self.entries[slot.index()].pods;
        pods.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one pod less; whether it was the last.
    pub fn remove_pod(&self, slot: Slot) -> bool {
        let pods = &self.entries[slot.index()].pods;
        pods.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// One more than the largest slot's index.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns how much its tables grow at once with this many more names.
    pub fn doubling(&self, more: usize) -> usize {
        let (len, room) = (self.entries.len(), self.entries.capacity());
        let table = heap::block(self.by_name.allocation_size());
        heap::doubling(heap::list::<NamedSlot>(room), len, room, more)
            + heap::doubling(table, len, self.by_name.capacity(), more)
    }

    /// The same as [`Self::memory_bytes`], with every name measured again.
    pub fn measured_bytes(&self) -> usize {
        let names = self.entries.iter().map(|e| match e.name.is_empty() {
            true => 0,
            false => heap::shared(e.name.len()),
        });
        self.memory_bytes() - self.name_bytes + names.sum::<usize>()
    }

    /// Returns what they take in memory: an estimate, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.name_bytes
            + heap::list::<NamedSlot>(self.entries.capacity())
            + heap::block(self.by_name.allocation_size())
            + heap::list::<Slot>(self.free.capacity())
            // As much as it may be: it grows without a lock on the rest.
            + heap::list::<Slot>(self.entries.len())
    }
}

impl Clone for Slots {
    fn clone(&self) -> Self {
        let entry = |entry: &NamedSlot| NamedSlot {
            name: Arc::clone(&entry.name),
            idle: AtomicBool::new(entry.idle.load(Ordering::Relaxed)),
            pods: AtomicU32::new(entry.pods.load(Ordering::Relaxed)),
        };
        Self {
            entries: self.entries.iter().map(entry).collect(),
            by_name: self.by_name.clone(),
            free: self.free.clone(),
            idle: Mutex::new(self.idle.lock().clone()),
            name_bytes: self.name_bytes,
        }
    }
}
