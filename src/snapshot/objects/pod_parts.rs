//! Finds the parts of an encoded pod, without decoding it: a feed has hundreds of
//! thousands of pods a second, and of nearly all of them it brings a name, labels
//! and a node.
//!
//! It reads what every encoder writes. Where a field comes twice, or anything else
//! is unusual, it finds nothing, and the pod is decoded instead. So the rules of
//! decoding are those of `prost` alone.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

/// The fields of messages, by their numbers in `kubernetes.proto`.
pub(super) mod field {
    pub const METADATA: u32 = 1;
    pub const SPEC: u32 = 2;
    pub const STATUS: u32 = 3;

    pub const NAME: u32 = 1;
    pub const NAMESPACE: u32 = 3;
    pub const UID: u32 = 5;
    pub const RESOURCE_VERSION: u32 = 6;
    pub const DELETION_TIMESTAMP: u32 = 9;
    pub const LABELS: u32 = 11;

    pub const NODE_NAME: u32 = 10;

    pub const PHASE: u32 = 1;
    pub const NOMINATED_NODE_NAME: u32 = 11;

    pub const KEY: u32 = 1;
    pub const VALUE: u32 = 2;
}

/// A piece of the bytes of a pod.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// Where the labels of a pod are: keys and values, ascending by key.
#[derive(Debug, Default)]
pub struct LabelSpans(Vec<(Span, Span)>);

/// An encoded pod, and its parts. Those that it has not are empty.
#[derive(Debug, Default)]
pub struct PodParts<'a> {
    bytes: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// Its namespace, as it gives it.
    pub namespace: &'a [u8],
    /// Its uid.
    pub uid: &'a [u8],
    /// The node that it names.
    pub node_name: &'a [u8],
    /// Its phase.
    pub phase: &'a [u8],
    /// The node that it is nominated to.
    pub nominated_node_name: &'a [u8],
    /// When it is to be deleted: seconds and nanoseconds.
    pub deletion: Option<(i64, i32)>,
    /// Where its labels are.
    pub label_spans: LabelSpans,
}

fn piece(bytes: &[u8], span: Span) -> &[u8] {
    &bytes[span.start as usize..span.end as usize]
}

impl<'a> PodParts<'a> {
    /// The parts of an encoded pod; `None` where it has to be decoded. All fields
    /// that have no part are appended to `rest`, by the message that they are in:
    /// pods with the same rest say the same about everything else.
    ///
    /// Whether the parts are text is left to whoever checks them, apart from those
    /// that nobody reads. `labels` are those of another pod, whose room is used again.
    pub fn find(bytes: &'a [u8], rest: &mut Vec<u8>, mut labels: LabelSpans) -> Option<Self> {
        u32::try_from(bytes.len()).ok()?;
        labels.0.clear();
        let mut parts = Self {
            bytes,
            label_spans: labels,
            ..Self::default()
        };
        let mut seen = 0;
        let mut fields = WireFields::new(bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                field::METADATA => parts.find_metadata(fields.within(&mut seen, &field)?, rest)?,
                field::SPEC => parts.find_spec(fields.within(&mut seen, &field)?, rest)?,
                field::STATUS => parts.find_status(fields.within(&mut seen, &field)?, rest)?,
                _ => keep(rest, 0, fields.whole(&field)),
            }
        }
        Some(parts)
    }

    /// The parts of a pod that was encoded here.
    pub fn of(encoded: &'a [u8]) -> Self {
        let parts = Self::find(encoded, &mut Vec::new(), LabelSpans::default());
        parts.expect("an encoded pod has each field once")
    }

    fn find_metadata(&mut self, mut fields: WireFields<'a>, rest: &mut Vec<u8>) -> Option<()> {
        let mut seen = 0;
        while let Some(field) = fields.next()? {
            match field.number {
                field::NAME => self.name = fields.once(&mut seen, &field)?,
                field::NAMESPACE => self.namespace = fields.once(&mut seen, &field)?,
                field::UID => self.uid = fields.once(&mut seen, &field)?,
                field::RESOURCE_VERSION => drop(std::str::from_utf8(fields.content(&field)?).ok()?),
                field::DELETION_TIMESTAMP => {
                    let time = fields.once(&mut seen, &field)?;
                    let time = pbjson_types::Timestamp::decode(time).ok()?;
                    self.deletion = Some((time.seconds, time.nanos));
                }
                field::LABELS => {
                    // A map has as many as it likes.
                    let label = find_label(fields.within(&mut 0, &field)?)?;
                    self.label_spans.0.push(label);
                }
                _ => keep(rest, 1, fields.whole(&field)),
            }
        }
        self.order_labels()
    }

    /// Puts labels in order. Encoders write maps in any order.
    fn order_labels(&mut self) -> Option<()> {
        let (bytes, labels) = (self.bytes, &mut self.label_spans.0);
        let key = |label: &(Span, Span)| piece(bytes, label.0);
        let ascend =
            |labels: &[(Span, Span)]| labels.windows(2).all(|two| key(&two[0]) < key(&two[1]));
        if !ascend(labels) {
            labels.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            // Of a key that comes twice, the last value would count.
            return ascend(labels).then_some(());
        }
        Some(())
    }

    fn find_spec(&mut self, mut fields: WireFields<'a>, rest: &mut Vec<u8>) -> Option<()> {
        let mut seen = 0;
        while let Some(field) = fields.next()? {
            match field.number {
                field::NODE_NAME => self.node_name = fields.once(&mut seen, &field)?,
                _ => keep(rest, 2, fields.whole(&field)),
            }
        }
        Some(())
    }

    fn find_status(&mut self, mut fields: WireFields<'a>, rest: &mut Vec<u8>) -> Option<()> {
        let mut seen = 0;
        while let Some(field) = fields.next()? {
            match field.number {
                field::PHASE => self.phase = fields.once(&mut seen, &field)?,
                field::NOMINATED_NODE_NAME => {
                    self.nominated_node_name = fields.once(&mut seen, &field)?;
                }
                _ => keep(rest, 3, fields.whole(&field)),
            }
        }
        Some(())
    }

    /// Its labels, ascending by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let labels = self.label_spans.0.iter();
        labels.map(|(key, value)| (piece(self.bytes, *key), piece(self.bytes, *value)))
    }
}

/// Key and value of a label. As in any map, either may be left out.
fn find_label(mut fields: WireFields<'_>) -> Option<(Span, Span)> {
    let (mut key, mut value) = (Span::default(), Span::default());
    let mut seen = 0;
    while let Some(field) = fields.next()? {
        match field.number {
            field::KEY => key = fields.span_once(&mut seen, &field)?,
            field::VALUE => value = fields.span_once(&mut seen, &field)?,
            _ => return None,
        }
    }
    Some((key, value))
}

/// Appends a field of a message to the rest.
fn keep(rest: &mut Vec<u8>, message: u8, field: &[u8]) {
    rest.push(message);
    rest.extend_from_slice(field);
}

/// A field of a message: where it begins, where its content does, and where it ends.
struct WireField {
    number: u32,
    start: usize,
    content: usize,
    end: usize,
    /// Whether its content is bytes.
    has_bytes: bool,
}

/// The fields of a message that is a piece of `bytes`.
struct WireFields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> WireFields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            end: bytes.len(),
        }
    }

    /// The next field; `Some(None)` at the end, and `None` if there is no field or
    /// one of another kind than those of the protocol.
    #[inline(always)]
    fn next(&mut self) -> Option<Option<WireField>> {
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
                has_bytes: true,
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
            WireType::Varint => decode_varint(&mut left).map(|_| 0).ok()?,
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
            has_bytes: wire_type == WireType::LengthDelimited,
        })
    }

    /// A field with its key.
    fn whole(&self, field: &WireField) -> &'a [u8] {
        &self.bytes[field.start..field.end]
    }

    /// The bytes of a field that has bytes.
    fn content(&self, field: &WireField) -> Option<&'a [u8]> {
        field
            .has_bytes
            .then(|| &self.bytes[field.content..field.end])
    }

    /// The bytes of a field that may come once.
    #[inline(always)]
    fn once(&self, seen: &mut u32, field: &WireField) -> Option<&'a [u8]> {
        let span = self.span_once(seen, field)?;
        Some(piece(self.bytes, span))
    }

    /// Where they are.
    #[inline(always)]
    fn span_once(&self, seen: &mut u32, field: &WireField) -> Option<Span> {
        let bit = 1 << field.number;
        let is_first = *seen & bit == 0;
        *seen |= bit;
        (is_first && field.has_bytes).then_some(Span {
            // As long as the pod is shorter than 4 GiB.
            start: field.content as u32,
            end: field.end as u32,
        })
    }

    /// The fields of a field that is a message and may come once.
    fn within(&self, seen: &mut u32, field: &WireField) -> Option<Self> {
        self.span_once(seen, field)?;
        Some(Self {
            bytes: self.bytes,
            at: field.content,
            end: field.end,
        })
    }
}
