//! The requirements of pods (`asks.rs`). Pods of one workload have the same requirements, so each
//! distinct one is kept once, encoded, with its requests summed up and its terms about other pods
//! compiled.

use super::asks::{self, Asks, ReadAsks};
use super::shrink::shrink_list;
use super::symbols::{Symbol, Symbols};
use crate::proto::v1;

/// The number of a template, valid in the table that gave it out; pods without requirements have
/// [`Symbol::ABSENT`].
pub type TemplateId = Symbol;

/// A table of templates, each dropped with its last pod.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    encoded: Symbols<Box<[u8]>>,
    /// The parts that decisions read, by template.
    read: Vec<ReadAsks>,
}

impl Templates {
    /// The template of one more pod, which has these requirements.
    pub fn acquire(&mut self, asks: &Asks) -> TemplateId {
        let id = self.encoded.acquire(&asks.encoded);
        if asks.read != ReadAsks::default() {
            let index = id.index();
            if self.read.len() <= index {
                self.read.resize(index + 1, ReadAsks::default());
            }
            if self.read[index] == ReadAsks::default() {
                self.read[index] = asks.read.clone();
            }
        }
        id
    }

    /// The template of pods with these requirements; `None` when no pod has it.
    pub fn find(&self, asks: Option<&Asks>) -> Option<TemplateId> {
        match asks {
            Some(asks) => self.encoded.find(&asks.encoded),
            None => Some(TemplateId::ABSENT),
        }
    }

    /// Removes a pod from its template, which must not be that of pods without requirements.
    pub fn release(&mut self, id: TemplateId) {
        self.encoded.release(id);
        if !self.encoded.is_in_use(id)
            && let Some(read) = self.read.get_mut(id.index())
        {
            *read = ReadAsks::default();
            let none = ReadAsks::default();
            while self.read.last().is_some_and(|read| *read == none) {
                self.read.pop();
            }
            shrink_list(&mut self.read);
        }
    }

    /// The requirements of a pod of a template that decisions about other pods read, if it has any.
    pub fn read(&self, id: TemplateId) -> Option<&ReadAsks> {
        // The index of no template is past the end.
        self.read.get(id.index())
    }

    /// Writes the requirements of a template into a pod. The pod names its node.
    pub fn fill(&self, id: TemplateId, pod: &mut v1::Pod) {
        if id != TemplateId::ABSENT {
            asks::fill(self.encoded.text(id), pod);
        }
    }

    /// Returns whether pods of a template may run only where they are.
    pub fn is_pinned(&self, id: TemplateId) -> bool {
        id != TemplateId::ABSENT && asks::is_pinned(self.encoded.text(id))
    }
}
