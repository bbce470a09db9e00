//! How many entries the lists of a message have, counted while its bytes are read.
//!
//! A list belongs to the innermost list element around it, or to the message: a decoder
//! adds to one list whatever a message says of it in several parts.

use super::message_layout::ListLimit;

/// The counts of a message.
pub struct ListCounts {
    /// By the number of the list.
    counts: Vec<ListCount>,
    /// The element that is being read; 0 is the message.
    element: usize,
    /// How many elements were begun.
    begun: usize,
    /// The counts of elements around this one, for lists that it has as well.
    around: Vec<(usize, ListCount)>,
}

/// The entries of a list of an element.
#[derive(Debug, Clone, Copy, Default)]
struct ListCount {
    element: usize,
    entries: usize,
}

/// What is restored at the end of an element.
pub struct OuterElement {
    element: usize,
    around: usize,
}

impl ListCounts {
    /// None yet, of so many lists.
    pub fn new(lists: usize) -> Self {
        Self {
            counts: vec![ListCount::default(); lists],
            element: 0,
            begun: 0,
            around: Vec::new(),
        }
    }

    /// Counts an entry. Returns whether it is within the limit.
    pub fn count(&mut self, list: &ListLimit) -> bool {
        let count = &mut self.counts[list.number];
        if count.element != self.element {
            self.around.push((list.number, *count));
            *count = ListCount {
                element: self.element,
                entries: 0,
            };
        }
        count.entries += 1;
        count.entries <= list.most
    }

    /// The place of the entry of a list that was counted last.
    pub fn last(&self, list: &ListLimit) -> usize {
        self.counts[list.number].entries.saturating_sub(1)
    }

    /// Begins an element of a list.
    pub fn enter(&mut self) -> OuterElement {
        let outer = OuterElement {
            element: self.element,
            around: self.around.len(),
        };
        self.begun += 1;
        self.element = self.begun;
        outer
    }

    /// Ends it.
    pub fn leave(&mut self, outer: &OuterElement) {
        for (list, count) in self.around.drain(outer.around..).rev() {
            self.counts[list] = count;
        }
        self.element = outer.element;
    }
}
