//! What pods ask for (`asks.rs`). Pods of one workload ask for the same: so each
//! distinct one is kept once, encoded, with its requests summed up and its terms of
//! anti-affinity compiled.

use std::sync::Arc;

use super::asks::{self, Asks};
use super::shrink::shrink_list;
use super::symbols::{Symbol, Symbols};
use crate::account::heap;
use crate::matching::{PodTerm, Requests, UsedStorage};
use crate::proto::v1;

/// The number of a template, valid in the table that gave it out;
/// [`Symbol::ABSENT`] is that of pods that ask for nothing.
pub type TemplateId = Symbol;

/// A table of templates, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    encoded: Symbols<Box<[u8]>>,
    /// By template: what decisions read of it, where they read anything.
    read: Vec<ReadAsks>,
    /// What that has on the heap.
    read_bytes: usize,
}

/// What decisions about other pods read of what a pod asks for.
#[derive(Debug, Clone, Default, PartialEq)]
struct ReadAsks {
    requests: Option<Arc<Requests>>,
    keeps_away: Option<Arc<[PodTerm]>>,
    storage: Option<Arc<UsedStorage>>,
}

impl ReadAsks {
    const NONE: Self = Self {
        requests: None,
        keeps_away: None,
        storage: None,
    };

    fn heap_bytes(&self) -> usize {
        let requests = self.requests.as_ref();
        let terms = self.keeps_away.as_ref();
        requests.map_or(0, |it| {
            heap::shared(size_of::<Requests>()) + it.heap_bytes()
        }) + terms.map_or(0, |terms| PodTerm::list_bytes(terms))
            + self.storage.as_ref().map_or(0, |it| {
                heap::shared(size_of::<UsedStorage>()) + it.heap_bytes()
            })
    }
}

impl Templates {
    /// The template that one more pod has, which asks for this.
    pub fn acquire(&mut self, asks: &Asks) -> TemplateId {
        let id = self.encoded.acquire(&asks.encoded);
        if asks.requests.is_some() || asks.keeps_away.is_some() || asks.storage.is_some() {
            let index = id.index();
            if self.read.len() <= index {
                self.read.resize(index + 1, ReadAsks::NONE);
            }
            if self.read[index] == ReadAsks::NONE {
                let read = ReadAsks {
                    requests: asks.requests.clone(),
                    keeps_away: asks.keeps_away.clone(),
                    storage: asks.storage.clone(),
                };
                self.read_bytes += read.heap_bytes();
                self.read[index] = read;
            }
        }
        id
    }

    /// The template of pods that ask for this; `None` when no pod has it.
    pub fn find(&self, asks: Option<&Asks>) -> Option<TemplateId> {
        match asks {
            Some(asks) => self.encoded.find(&asks.encoded),
            None => Some(TemplateId::ABSENT),
        }
    }

    /// Takes a pod away from its template, which is none of those that ask for nothing.
    pub fn release(&mut self, id: TemplateId) {
        self.encoded.release(id);
        if !self.encoded.is_in_use(id)
            && let Some(read) = self.read.get_mut(id.index())
        {
            self.read_bytes -= std::mem::take(read).heap_bytes();
            while self.read.last().is_some_and(|read| *read == ReadAsks::NONE) {
                self.read.pop();
            }
            shrink_list(&mut self.read);
        }
    }

    /// Returns what a pod of a template requests of its node.
    pub fn requests(&self, id: TemplateId) -> Option<&Arc<Requests>> {
        self.read(id)?.requests.as_ref()
    }

    /// The terms by which a pod of a template keeps others away.
    pub fn keeps_away(&self, id: TemplateId) -> Option<&Arc<[PodTerm]>> {
        self.read(id)?.keeps_away.as_ref()
    }

    /// The storage that a pod of a template uses.
    pub fn storage(&self, id: TemplateId) -> Option<&Arc<UsedStorage>> {
        self.read(id)?.storage.as_ref()
    }

    fn read(&self, id: TemplateId) -> Option<&ReadAsks> {
        match id == TemplateId::ABSENT {
            true => None,
            false => self.read.get(id.index()),
        }
    }

    /// Gives a pod what its template asks for. The pod names its node.
    pub fn fill(&self, id: TemplateId, pod: &mut v1::Pod) {
        if id != TemplateId::ABSENT {
            asks::fill(self.encoded.text(id), pod);
        }
    }

    /// Returns whether pods of a template may run where they are and nowhere else.
    pub fn is_pinned(&self, id: TemplateId) -> bool {
        id != TemplateId::ABSENT && asks::is_pinned(self.encoded.text(id))
    }

    /// Returns how much its tables grow at once with this many more templates.
    pub fn doubling(&self, more: usize) -> usize {
        let (len, room) = (self.read.len(), self.read.capacity());
        let read = heap::list::<ReadAsks>(room);
        self.encoded.doubling(more) + heap::doubling(read, len, room, more)
    }

    /// The same as [`Self::memory_bytes`], with every template measured again.
    pub fn measured_bytes(&self) -> usize {
        let read = self.read.iter().map(ReadAsks::heap_bytes);
        self.memory_bytes() - self.encoded.memory_bytes() - self.read_bytes
            + self.encoded.measured_bytes()
            + read.sum::<usize>()
    }

    /// Returns what the table takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.encoded.memory_bytes() + self.read_bytes + heap::list::<ReadAsks>(self.read.capacity())
    }
}
