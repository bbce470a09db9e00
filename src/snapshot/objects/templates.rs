//! What pods ask for (`asks.rs`). Pods of one workload ask for the same: so each
//! distinct one is kept once, encoded, with its requests summed up.

use std::sync::Arc;

use super::asks::{self, Asks};
use super::shrink::shrink_list;
use super::symbols::{Symbol, Symbols};
use crate::account::heap;
use crate::matching::Requests;
use crate::proto::v1;

/// The number of a template, valid in the table that gave it out;
/// [`Symbol::ABSENT`] is that of pods that ask for nothing.
pub type TemplateId = Symbol;

/// A table of templates, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    encoded: Symbols<Box<[u8]>>,
    /// By template: what its pods request, where they request anything.
    requests: Vec<Option<Arc<Requests>>>,
    /// What the requests have on the heap.
    request_bytes: usize,
}

impl Templates {
    /// The template that one more pod has, which asks for this.
    pub fn acquire(&mut self, asks: &Asks) -> TemplateId {
        let id = self.encoded.acquire(&asks.encoded);
        if let Some(requests) = &asks.requests {
            let index = id.index();
            if self.requests.len() <= index {
                self.requests.resize(index + 1, None);
            }
            if self.requests[index].is_none() {
                self.request_bytes += bytes_of(requests);
                self.requests[index] = Some(Arc::clone(requests));
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
            && let Some(slot) = self.requests.get_mut(id.index())
            && let Some(requests) = slot.take()
        {
            self.request_bytes -= bytes_of(&requests);
            while self.requests.last().is_some_and(Option::is_none) {
                self.requests.pop();
            }
            shrink_list(&mut self.requests);
        }
    }

    /// What a pod of a template requests of its node.
    pub fn requests(&self, id: TemplateId) -> Option<&Arc<Requests>> {
        match id == TemplateId::ABSENT {
            true => None,
            false => self.requests.get(id.index())?.as_ref(),
        }
    }

    /// Gives a pod what its template asks for. The pod names its node.
    pub fn fill(&self, id: TemplateId, pod: &mut v1::Pod) {
        if id != TemplateId::ABSENT {
            asks::fill(self.encoded.text(id), pod);
        }
    }

    /// Whether pods of a template may run where they are and nowhere else.
    pub fn is_pinned(&self, id: TemplateId) -> bool {
        id != TemplateId::ABSENT && asks::is_pinned(self.encoded.text(id))
    }

    /// How much its tables grow at once with this many more templates.
    pub fn doubling(&self, more: usize) -> usize {
        let (len, room) = (self.requests.len(), self.requests.capacity());
        let requests = heap::list::<Option<Arc<Requests>>>(room);
        self.encoded.doubling(more) + heap::doubling(requests, len, room, more)
    }

    /// The same as [`Self::memory_bytes`], with every template measured again.
    pub fn measured_bytes(&self) -> usize {
        let requests = self.requests.iter().flatten();
        self.memory_bytes() - self.encoded.memory_bytes() - self.request_bytes
            + self.encoded.measured_bytes()
            + requests.map(|requests| bytes_of(requests)).sum::<usize>()
    }

    /// What the table takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.encoded.memory_bytes()
            + self.request_bytes
            + heap::list::<Option<Arc<Requests>>>(self.requests.capacity())
    }
}

/// What requests take where they are shared.
fn bytes_of(requests: &Requests) -> usize {
    heap::shared(size_of::<Requests>()) + requests.heap_bytes()
}
