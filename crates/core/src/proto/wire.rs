//! Reads encoded messages field by field without decoding them.
//!
//! The code only reads the form that encoders usually write. If anything is unusual it finds
//! nothing, and the caller decodes the message instead. So only `prost` decides which messages are
//! valid and what they mean.

use prost::encoding::{WireType, decode_key, decode_varint};

/// A range of the bytes of a message that is shorter than 4 GiB.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Returns the bytes of the range.
    pub fn of(self, message: &[u8]) -> &[u8] {
        &message[self.start as usize..self.end as usize]
    }
}

/// A field of a message, with the places at which it begins, its content begins, and it ends.
#[derive(Debug, Clone, Copy)]
pub struct WireField {
    /// The number of the field.
    pub number: u32,
    /// The place at which the field's content begins.
    pub content: usize,
    start: usize,
    end: usize,
    kind: WireType,
}

/// The depth of nested messages to which entries are counted.
const MAX_DEPTH: usize = 64;

/// Returns an upper bound of the number of entries of all lists of a message, with those of the
/// messages in it: the number of its fields that have bytes. What could be a message is taken for
/// one.
pub fn entries(message: &[u8]) -> usize {
    within(message, MAX_DEPTH).unwrap_or(message.len())
}

/// As [`entries`], to a depth; `None` if the bytes are no message.
fn within(message: &[u8], depth: usize) -> Option<usize> {
    let (mut fields, mut entries) = (WireFields::new(message), 0);
    while let Some(field) = fields.next()? {
        if let Some(content) = fields.content(&field) {
            let inner = match depth.checked_sub(1) {
                Some(depth) => within(content, depth).unwrap_or(0),
                None => content.len(),
            };
            entries += 1 + inner;
        }
    }
    Some(entries)
}

/// Reads the fields of a message that is a part of `bytes`.
#[derive(Debug)]
pub struct WireFields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> WireFields<'a> {
    /// Starts at the first field of a whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            end: bytes.len(),
        }
    }

    /// Reads the next field. Returns `Some(None)` at the end, and `None` if the bytes are not a
    /// field of a kind that the protocol has.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Option<WireField>> {
        let start = self.at;
        if start == self.end {
            return Some(None);
        }
        // Most fields have bytes, and one byte each for key and length.
        if let Some(&[key @ 8..0x80, length @ 0..0x80]) = self.bytes.get(start..start + 2)
            && key & 7 == WireType::LengthDelimited as u8
        {
            let content = start + 2;
            self.at = content + usize::from(length);
            return (self.at <= self.end).then_some(Some(WireField {
                number: u32::from(key >> 3),
                start,
                content,
                end: self.at,
                kind: WireType::LengthDelimited,
            }));
        }
        self.next_of_any_size().map(Some)
    }

    #[inline(never)]
    fn next_of_any_size(&mut self) -> Option<WireField> {
        let start = self.at;
        let mut left = &self.bytes[start..self.end];
        let (number, wire_type) = decode_key(&mut left).ok()?;
        let length = match wire_type {
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut left).ok()?).ok()?,
            WireType::Varint => {
                let (content, mut after) = (left, left);
                decode_varint(&mut after).ok()?;
                content.len() - after.len()
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let content = self.end - left.len();
        self.at = self.end - left.get(length..)?.len();
        Some(WireField {
            number,
            start,
            content,
            end: self.at,
            kind: wire_type,
        })
    }

    /// Returns whether all fields were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Returns the bytes of a field together with its key.
    pub fn whole(&self, field: &WireField) -> &'a [u8] {
        &self.bytes[field.start..field.end]
    }

    /// Returns the content of a field, if it is one that has bytes.
    #[inline(always)]
    pub fn content(&self, field: &WireField) -> Option<&'a [u8]> {
        let bytes = &self.bytes[field.content..field.end];
        (field.kind == WireType::LengthDelimited).then_some(bytes)
    }

    /// Returns the number in a field, if it is one that has a varint.
    pub fn number(&self, field: &WireField) -> Option<u64> {
        let mut bytes = &self.bytes[field.content..field.end];
        let has_number = field.kind == WireType::Varint;
        has_number.then(|| decode_varint(&mut bytes).ok())?
    }

    /// Returns the content of a field that may come only once. Returns `None` if the field is in
    /// `seen` already, or is not one that has bytes.
    #[inline(always)]
    pub fn once(&self, seen: &mut u32, field: &WireField) -> Option<&'a [u8]> {
        let span = self.span_once(seen, field)?;
        Some(span.of(self.bytes))
    }

    /// Returns the place of the content of a field that may come only once.
    #[inline(always)]
    pub fn span_once(&self, seen: &mut u32, field: &WireField) -> Option<Span> {
        let bit = 1 << field.number;
        let is_first = *seen & bit == 0;
        *seen |= bit;
        (is_first && field.kind == WireType::LengthDelimited).then_some(Span {
            start: field.content as u32,
            end: field.end as u32,
        })
    }

    /// Reads the fields of a message in a field that may come only once.
    pub fn within(&self, seen: &mut u32, field: &WireField) -> Option<Self> {
        self.span_once(seen, field)?;
        Some(Self {
            bytes: self.bytes,
            at: field.content,
            end: field.end,
        })
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::v1;

    #[test]
    fn entries_of_all_lists_are_counted() {
        let labels = (0..100).map(|at| (format!("key-{at}"), "value".to_owned()));
        let pod = v1::Pod {
            metadata: Some(v1::ObjectMeta {
                labels: labels.collect(),
                ..v1::ObjectMeta::default()
            }),
            ..v1::Pod::default()
        };
        let names = v1::NodeNames {
            names: vec!["node".to_owned(); 1_000],
        };
        let request = v1::FilterRequest {
            pod: Some(pod),
            candidates: Some(names),
            ..v1::FilterRequest::default()
        };
        let counted = entries(&request.encode_to_vec());
        assert!((1_100..2_000).contains(&counted), "{counted}");
        assert_eq!(entries(&[0xff; 40]), 40, "no message");
    }
}
