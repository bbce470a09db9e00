//! How much memory decoding a message takes, computed from its bytes before it
//! is decoded.
//!
//! Two bytes on the wire can become a struct of hundreds: an empty message in a
//! list. So the fields of a message are counted first, by the protocol's
//! descriptors. The result is an upper bound.

use std::collections::HashMap;

use prost::Message;
use prost::bytes::Bytes;
use prost_types::FileDescriptorSet;

use super::message::{HEAD, WholeMessage};
use super::message_layout::{Content, Field, Layout, LayoutPlan};
use crate::limits::{Exceeded, Limits};
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// Messages within messages that a decoder goes into.
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
        Ok(Self {
            layouts: plan.layouts(limits),
            requests,
        })
    }

    /// What the requests of a path are, if it is known.
    pub fn request(&self, path: &str) -> Option<RequestLayout> {
        self.requests.get(path).copied().map(RequestLayout)
    }

    /// An upper bound of the bytes that a request takes when it is decoded,
    /// without its own.
    ///
    /// # Errors
    /// When it has more entries than a limit allows. They are not read to their end.
    pub fn of(
        &self,
        RequestLayout(layout): RequestLayout,
        message: &WholeMessage,
    ) -> Result<usize, Exceeded> {
        let mut scan = Scan {
            layouts: &self.layouts,
            blocks: message.blocks(),
            block: &[],
            read: 0,
            weight: self.layouts[layout].size,
            counted: 0,
            over: None,
        };
        // What follows a fault is not decoded either.
        let _ = scan
            .skip(HEAD)
            .and_then(|()| scan.message(layout, message.len(), 0));
        scan.over.map_or(Ok(scan.weight), Err)
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
    /// The entries that a limit counts, so far.
    counted: usize,
    /// The limit that they exceed.
    over: Option<Exceeded>,
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
                self.count(field)?;
            }
            match tag & 7 {
                0 => drop(self.varint()?),
                1 => self.skip(8)?,
                2 => {
                    let length = usize::try_from(self.varint()?).ok()?;
                    let inner = self.read.checked_add(length).filter(|&at| at <= end)?;
                    match field.map(|field| field.content) {
                        Some(Content::Message(layout)) => self.message(layout, inner, depth + 1)?,
                        Some(Content::Texts(count)) => {
                            // As allocators round.
                            self.add(length + length / 8 + 16 * count);
                            self.skip(length)?;
                        }
                        Some(Content::Number) => {
                            // Packed: a byte each at least, in a list that doubles.
                            self.add(length.saturating_mul(16));
                            self.skip(length)?;
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

    /// Counts a field; none if there are too many.
    fn count(&mut self, field: &Field) -> Option<()> {
        let Some(over) = field.over else {
            return Some(());
        };
        self.counted += 1;
        self.over = (self.counted > over.most).then_some(over);
        self.over.is_none().then_some(())
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
mod tests {
    use super::*;
    use crate::proto::v1;

    fn request(weights: &DecodedSizes, method: &str) -> RequestLayout {
        let path = format!("/evenkeel.v1.SpreadService/{method}");
        weights.request(&path).expect("a method of the service")
    }

    fn weight(weights: &DecodedSizes, method: &str, message: &impl Message) -> usize {
        let mut bytes = vec![0; HEAD];
        message.encode(&mut bytes).expect("there is room");
        weights
            .of(
                request(weights, method),
                &WholeMessage::from(Bytes::from(bytes)),
            )
            .expect("no list is too long")
    }

    #[test]
    fn structs_are_no_larger_than_told() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let empty = [
            ("Filter", size_of::<v1::FilterRequest>()),
            ("Place", size_of::<v1::PlaceRequest>()),
            ("UpdateSnapshot", size_of::<v1::UpdateSnapshotRequest>()),
            ("StreamSnapshot", size_of::<v1::StreamSnapshotRequest>()),
            ("DescribeSpread", size_of::<v1::DescribeSpreadRequest>()),
        ];
        for (method, size) in empty {
            let told = weight(&weights, method, &v1::FilterRequest::default());
            assert!(told >= size, "{method}: {size} bytes, told {told}");
            assert!(told <= 2 * size, "{method}: {size} bytes, told {told}");
        }
    }

    #[test]
    fn lists_of_nothing_weigh_what_they_become() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let count = 10_000;
        let tolerations = v1::FilterRequest {
            pod: Some(v1::Pod {
                spec: Some(v1::PodSpec {
                    tolerations: vec![v1::Toleration::default(); count],
                    ..v1::PodSpec::default()
                }),
                ..v1::Pod::default()
            }),
            ..v1::FilterRequest::default()
        };
        let told = weight(&weights, "Filter", &tolerations);
        assert!(told >= count * size_of::<v1::Toleration>());
        assert!(told <= 4 * count * size_of::<v1::Toleration>());
        let changes = v1::UpdateSnapshotRequest {
            changes: vec![v1::Change::default(); count],
            ..v1::UpdateSnapshotRequest::default()
        };
        let told = weight(&weights, "UpdateSnapshot", &changes);
        assert!(told >= count * size_of::<v1::Change>());
        assert!(told <= 4 * count * size_of::<v1::Change>());
        let names = v1::FilterRequest {
            candidates: Some(v1::NodeNames {
                names: vec![String::new(); count],
            }),
            ..v1::FilterRequest::default()
        };
        let told = weight(&weights, "Filter", &names);
        assert!(told >= count * size_of::<String>());
    }

    #[test]
    fn no_bytes_are_too_strange() {
        let weights = DecodedSizes::new(&Limits::default()).expect("descriptors");
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
            let whole = WholeMessage::from(Bytes::from(bytes));
            let _ = weights.of(request(&weights, "Filter"), &whole);
        }
    }
}
