//! How much memory decoding a message takes, computed from its bytes before it
//! is decoded.
//!
//! Two bytes on the wire can become a struct of hundreds: an empty message in a
//! list. So the fields of a message are counted first, by the protocol's
//! descriptors. The result is an upper bound. A message that has a longer list than a
//! limit allows is refused there, whatever list it is.

use std::collections::HashMap;

use prost::Message;
use prost::bytes::Bytes;
use prost_types::FileDescriptorSet;

use super::list_counts::ListCounts;
use super::message::{HEAD, WholeMessage};
use super::message_layout::{Content, Field, Layout, LayoutPlan, ListLimit};
use crate::limits::Limits;
use crate::matching::{Path, Violations};
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// Messages within messages that a decoder goes into.
const MAX_DEPTH: usize = 100;

/// The sizes of the protocol's messages.
pub struct DecodedSizes {
    layouts: Vec<Layout>,
    /// How many lists they have.
    lists: usize,
    /// The layout of the request of each method, by its path.
    requests: HashMap<String, usize>,
}

/// The layout of a method's requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLayout(usize);

impl DecodedSizes {
    /// Those of the service.
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
        let (layouts, lists) = plan.layouts(limits);
        Ok(Self {
            layouts,
            lists,
            requests,
        })
    }

    /// Returns what the requests of a path are, if it is known.
    pub fn request(&self, path: &str) -> Option<RequestLayout> {
        self.requests.get(path).copied().map(RequestLayout)
    }

    /// An upper bound of the bytes that a request takes when it is decoded,
    /// without its own.
    ///
    /// # Errors
    /// When a list has more entries than its limit allows. The message is not read to
    /// its end then.
    pub fn of(
        &self,
        RequestLayout(layout): RequestLayout,
        message: &WholeMessage,
    ) -> Result<usize, Violations> {
        let mut scan = Scan {
            layouts: &self.layouts,
            blocks: message.blocks(),
            block: &[],
            read: 0,
            weight: self.layouts[layout].size,
            lists: ListCounts::new(self.lists),
            over: None,
        };
        // What follows a fault is not decoded either.
        let _ = scan
            .skip(HEAD)
            .and_then(|()| scan.message(layout, message.len(), 0));
        let Some(LongList { list, path }) = scan.over else {
            return Ok(scan.weight);
        };
        Err(Violations::too_many(
            Path::root(&path),
            list.limit,
            list.most,
        ))
    }
}

/// A message that is being read.
struct Scan<'a, I> {
    layouts: &'a [Layout],
    blocks: I,
    block: &'a [u8],
    /// How many bytes were read.
    read: usize,
    weight: usize,
    lists: ListCounts,
    over: Option<LongList>,
}

/// A list that has more entries than its limit allows.
struct LongList {
    list: ListLimit,
    /// Its path in the message that is being read.
    path: String,
}

impl LongList {
    /// Puts the field before the path that the rest of it is in; the `index` is that of
    /// an element.
    fn within(&mut self, field: &Field, index: Option<usize>) {
        let index = index.map_or(String::new(), |index| format!("[{index}]"));
        self.path = format!("{}{index}.{}", field.name, self.path);
    }
}

impl<'a, I: Iterator<Item = &'a Bytes>> Scan<'a, I> {
    /// Adds what the fields of a message take that ends at `end`; none if it is
    /// no message.
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
                    self.count(field)?;
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
                            // As allocators round.
                            self.add(length + length / 8 + 16 * count);
                            self.skip(length)?;
                        }
                        Some(Content::Number(bytes)) => {
                            // Packed: a byte each at least, in a list that doubles.
                            self.add(length.saturating_mul(16));
                            while self.read < inner {
                                self.count(field?)?;
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
                // Groups are passed over; their fields count as the message's.
                3 | 4 => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds what a message takes that is in a field and ends at `end`.
    fn inner(&mut self, field: &Field, layout: usize, end: usize, depth: usize) -> Option<()> {
        let element = field.list.is_some().then(|| self.lists.enter());
        let read = self.message(layout, end, depth);
        if let Some(outer) = element {
            self.lists.leave(&outer);
        }
        if let Some(over) = &mut self.over {
            over.within(field, field.list.map(|list| self.lists.last(&list)));
        }
        read
    }

    /// Counts an entry of a field, if that is a list; none if it has too many.
    fn count(&mut self, field: &Field) -> Option<()> {
        let Some(list) = field.list.filter(|list| !self.lists.count(list)) else {
            return Some(());
        };
        let path = field.name.clone();
        self.over = Some(LongList { list, path });
        None
    }

    fn add(&mut self, bytes: usize) {
        self.weight = self.weight.saturating_add(bytes);
    }

    /// Most have one byte, in the current block.
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        match self.block.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.block = rest;
                self.read += 1;
                Some(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            while self.block.is_empty() {
                self.block = self.blocks.next()?;
            }
            let (&byte, rest) = self.block.split_first()?;
            self.block = rest;
            self.read += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    #[inline]
    fn skip(&mut self, bytes: usize) -> Option<()> {
        match self.block.get(bytes..) {
            Some(rest) => {
                self.block = rest;
                self.read += bytes;
                Some(())
            }
            None => self.skip_blocks(bytes),
        }
    }

    fn skip_blocks(&mut self, mut bytes: usize) -> Option<()> {
        self.read += bytes;
        while bytes > self.block.len() {
            bytes -= self.block.len();
            self.block = self.blocks.next()?;
        }
        self.block = &self.block[bytes..];
        Some(())
    }
}

#[cfg(test)]
mod tests;
