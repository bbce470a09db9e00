//! The memory for decoding a message, computed from its bytes before it is decoded.
//!
//! Two bytes on the wire can become a struct of hundreds: an empty message in a list. So the fields
//! of a message are counted first, by the protocol's descriptors. The result is an upper bound. A
//! message with any list or object that is longer than its limit is refused at that point.

use std::collections::HashMap;

use prost::Message;
use prost::encoding::decode_varint;
use prost_types::FileDescriptorSet;

use super::message_layout::{Content, Field, Layout, LayoutPlan, ListLimit};
use super::messages::HEAD;
use crate::limits::{Limit, Limits};
use crate::matching::{Path, Violations};
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// The depth of nested messages to which a decoder goes.
const MAX_DEPTH: usize = 100;

/// The sizes of the protocol's messages.
pub struct DecodedSizes {
    layouts: Vec<Layout>,
    /// The layout of the request of each method, by its path.
    requests: HashMap<String, usize>,
}

/// The layout of a method's requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLayout(usize);

impl DecodedSizes {
    /// The sizes of the service's messages.
    ///
    /// # Errors
    /// When the descriptors cannot be read.
    pub fn new(limits: &Limits) -> Result<Self, prost::DecodeError> {
        let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET)?.file;
        let mut plan = LayoutPlan::default();
        for file in &files {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                plan.add(&package, message);
            }
        }
        let mut requests = HashMap::new();
        for file in &files {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    requests.insert(path, plan.number(method.input_type()));
                }
            }
        }
        Ok(Self {
            layouts: plan.layouts(limits),
            requests,
        })
    }

    /// Returns the layout of the requests of a path, if it is known.
    pub fn request(&self, path: &str) -> Option<RequestLayout> {
        self.requests.get(path).copied().map(RequestLayout)
    }

    /// An upper bound of the bytes that a request takes when it is decoded, without its own bytes.
    ///
    /// # Errors
    /// When a list or an object is longer than its limit allows. Then the message is not read to its
    /// end.
    pub fn of(
        &self,
        RequestLayout(layout): RequestLayout,
        message: &[u8],
    ) -> Result<usize, Violations> {
        let scan_of = |counts_all| {
            let mut scan = Scan {
                layouts: &self.layouts,
                message,
                read: HEAD,
                weight: self.layouts[layout].size,
                counts_all,
                element_bytes: message.len(),
                lists: ListCounts::default(),
                over: None,
            };
            // The bytes after a fault are not decoded either.
            let _ = scan.message(layout, message.len(), 0);
            scan
        };
        let mut scan = scan_of(false);
        if scan.over.is_some() {
            // The path names the entries around the list, so these are counted, too.
            scan = scan_of(true);
        }
        match scan.over {
            None => Ok(scan.weight),
            Some(TooLong { limit, most, path }) => {
                Err(Violations::too_long(Path::root(&path), limit, most))
            }
        }
    }
}

/// A message that is being read.
struct Scan<'a> {
    layouts: &'a [Layout],
    message: &'a [u8],
    /// The number of bytes that were read.
    read: usize,
    weight: usize,
    /// True if lists are counted that are too short in bytes to exceed their limits.
    counts_all: bool,
    /// The bytes of the innermost list element that is being read, or of the message. A list of it
    /// has no more entries.
    element_bytes: usize,
    lists: ListCounts,
    over: Option<TooLong>,
}

/// A list or an object that is longer than its limit allows.
struct TooLong {
    limit: Limit,
    most: usize,
    /// The path in the message that is being read.
    path: String,
}

impl TooLong {
    /// Puts the field before the rest of the path; the `index` is that of an element.
    fn within(&mut self, field: &Field, index: Option<usize>) {
        let index = index.map_or(String::new(), |index| format!("[{index}]"));
        let dot = if self.path.is_empty() { "" } else { "." };
        self.path = format!("{}{index}{dot}{}", field.name, self.path);
    }
}

impl Scan<'_> {
    /// Adds the memory of the fields of a message that ends at `end`; `None` if it is no valid
    /// message.
    fn message(&mut self, layout: usize, end: usize, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let fields = self.layouts[layout].fields.as_slice();
        let mut seen = 0_u128;
        while self.read < end {
            let tag = self.varint()?;
            let number = usize::try_from(tag >> 3).ok()?;
            let field = fields.get(number).and_then(Option::as_ref);
            if let Some(field) = field {
                let bit = 1_u128.checked_shl(number as u32).unwrap_or(0);
                let is_first = seen & bit == 0;
                seen |= bit;
                self.add(if is_first { field.first } else { field.more });
                if tag & 7 != 2 || !matches!(field.content, Content::Number(_)) {
                    self.count(field.list, 1, &field.name)?;
                }
            }
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => self.skip(8)?,
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    let inner = self.read.checked_add(length).filter(|&at| at <= end)?;
                    match field.map(|field| field.content) {
                        Some(Content::Message(layout)) => {
                            self.inner(field?, layout, inner, depth + 1)?;
                        }
                        Some(Content::Texts(count)) => {
                            // Allocators round sizes up.
                            self.add(length + length / 8 + 16 * count);
                            self.skip(length)?;
                        }
                        Some(Content::Number(bytes)) => {
                            // Packed entries have at least one byte each, and a list grows by
                            // doubling.
                            self.add(length.saturating_mul(16));
                            while self.read < inner {
                                let field = field?;
                                self.count(field.list, 1, &field.name)?;
                                match bytes {
                                    0 => drop(self.varint()?),
                                    bytes => self.skip(bytes)?,
                                }
                            }
                        }
                        None => self.skip(length)?,
                    }
                }
                5 => self.skip(4)?,
                // Groups are skipped; their fields count as the message's.
                3 | 4 => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds the memory of a message in a field that ends at `end`.
    fn inner(&mut self, field: &Field, layout: usize, end: usize, depth: usize) -> Option<()> {
        let bytes = self.element_bytes;
        let element = field.list.is_some().then(|| {
            self.element_bytes = end - self.read;
            self.lists.enter()
        });
        let counted = self.count(field.object, end - self.read, "");
        let read = counted.and_then(|()| self.message(layout, end, depth));
        if let Some(outer) = element {
            self.element_bytes = bytes;
            self.lists.leave(outer);
        }
        if let Some(over) = &mut self.over {
            let index = |list| self.lists.entries(&list).saturating_sub(1);
            over.within(field, field.list.map(index));
        }
        read
    }

    /// Counts entries or bytes of what is limited; `None` if there are too many. The path is that of
    /// the list in the message.
    #[inline]
    fn count(&mut self, limited: Option<ListLimit>, more: usize, path: &str) -> Option<()> {
        let (all, bytes) = (self.counts_all, self.element_bytes);
        let Some(limited) = limited.filter(|it| all || it.most < bytes) else {
            return Some(());
        };
        let counted = self.lists.entries(&limited);
        *counted = counted.saturating_add(more);
        if *counted <= limited.most {
            return Some(());
        }
        self.over = Some(TooLong {
            limit: limited.limit,
            most: limited.most,
            path: path.to_owned(),
        });
        None
    }

    fn add(&mut self, bytes: usize) {
        self.weight = self.weight.saturating_add(bytes);
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let mut rest = self.message.get(self.read..)?;
        let value = decode_varint(&mut rest).ok()?;
        self.read = self.message.len() - rest.len();
        Some(value)
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Option<()> {
        let read = self.read.checked_add(bytes)?;
        self.read = Some(read).filter(|read| *read <= self.message.len())?;
        Some(())
    }
}

/// The entries of the lists of a message, counted while its bytes are read. A list belongs to the
/// innermost list element around it, or to the message: if a message has a list in several parts, a
/// decoder puts them into one.
#[derive(Default)]
struct ListCounts {
    /// The counts of the element that is being read, after those of the elements around it.
    counts: Vec<ListCount>,
    /// The number of counts that belong to elements around this one.
    around: usize,
}

/// The entries of a list of an element.
struct ListCount {
    /// The list's number.
    list: usize,
    entries: usize,
}

impl ListCounts {
    /// The number of entries of a list of the element that is being read.
    fn entries(&mut self, list: &ListLimit) -> &mut usize {
        let mut own = self.counts.iter().skip(self.around);
        let at = match own.position(|count| count.list == list.number) {
            Some(at) => self.around + at,
            None => {
                self.counts.push(ListCount {
                    list: list.number,
                    entries: 0,
                });
                self.counts.len() - 1
            }
        };
        &mut self.counts[at].entries
    }

    /// Begins an element of a list. Returns what [`Self::leave`] needs.
    fn enter(&mut self) -> usize {
        std::mem::replace(&mut self.around, self.counts.len())
    }

    /// Ends the element of a list.
    fn leave(&mut self, around: usize) {
        self.counts.truncate(self.around);
        self.around = around;
    }
}

#[cfg(test)]
mod tests;
