//! Reading Kubernetes objects from files: kubectl's JSON or YAML, lists,
//! several documents in a file, many files, directories, standard input.
//!
//! `source` says which files there are, `document` takes one apart into
//! single objects, `lean` is how an object is held until its kind is known,
//! and `object`, `workload` and `defaults` decode what they know. `saved` sees
//! to it that a saved snapshot is read whole or not at all.

mod defaults;
mod document;
mod error;
mod lean;
mod object;
mod objects;
mod placement;
mod positions;
mod saved;
mod source;
mod templates;
#[cfg(test)]
mod tests;
mod workload;

pub(crate) use defaults::read_default_constraints;
pub(crate) use error::Error;
pub(crate) use object::{items_of, kind_of, object_name, reference};
pub(crate) use objects::{Objects, read_objects};
pub(crate) use placement::{Policy, Preference};
pub(crate) use positions::{Position, Positions};
pub(crate) use saved::{Saved, end_item};
pub(crate) use source::{Source, expand};
pub(crate) use templates::{Template, for_each_template};
pub(crate) use workload::{Workload, read_workload};

/// Where an object was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Index of the source in the order in which they were read.
    source: u32,
    /// Number of the document in the source, from 1.
    document: u32,
    /// Number of the item in the document's list, from 1; 0 when the document
    /// is the object itself.
    item: u32,
}

impl Origin {
    /// For a message, e.g. `cluster.yaml, document 2, item 17`.
    fn describe(&self, source: &Source) -> String {
        let mut text = source.to_string();
        if self.document > 1 || self.item == 0 {
            text.push_str(&format!(", document {}", self.document));
        }
        if self.item > 0 {
            text.push_str(&format!(", item {}", self.item));
        }
        text
    }
}
