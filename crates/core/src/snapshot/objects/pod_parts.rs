//! Finds the parts of an encoded pod, without decoding it. A feed has hundreds of thousands of pods
//! a second, and nearly all of them consist of a name, labels and a node.
//!
//! This code reads the form that every encoder writes. Where a field comes twice, or anything else
//! is unusual, it finds nothing, and the pod is decoded instead. So the rules of decoding are those
//! of `prost` alone.

use prost::Message;

use crate::proto::wire::{Span, WireFields};

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

/// The positions of a pod's labels: keys and values, ascending by key.
#[derive(Debug, Default)]
pub struct LabelSpans(Vec<(Span, Span)>);

/// An encoded pod, and its parts. Missing ones are empty.
#[derive(Debug, Default)]
pub struct PodParts<'a> {
    bytes: &'a [u8],
    /// The pod's name.
    pub name: &'a [u8],
    /// The pod's namespace, as given.
    pub namespace: &'a [u8],
    /// The pod's uid.
    pub uid: &'a [u8],
    /// The node that it names.
    pub node_name: &'a [u8],
    /// The pod's phase.
    pub phase: &'a [u8],
    /// The node that it is nominated to.
    pub nominated_node_name: &'a [u8],
    /// The deletion time: seconds and nanoseconds.
    pub deletion: Option<(i64, i32)>,
    /// The positions of its labels.
    pub label_spans: LabelSpans,
}

impl<'a> PodParts<'a> {
    /// The parts of an encoded pod; `None` where it has to be decoded. All other fields are
    /// appended to `rest`, by the message that they are in: pods with the same rest are equal in
    /// everything else.
    ///
    /// The caller checks whether the parts are valid text, except for parts that are never read.
    /// `labels` are those of another pod, whose room is used again.
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
                    // A map may have any number of entries.
                    let label = find_label(fields.within(&mut 0, &field)?)?;
                    self.label_spans.0.push(label);
                }
                _ => keep(rest, 1, fields.whole(&field)),
            }
        }
        self.order_labels()
    }

    /// Sorts labels. Encoders write maps in any order.
    fn order_labels(&mut self) -> Option<()> {
        let (bytes, labels) = (self.bytes, &mut self.label_spans.0);
        let key = |label: &(Span, Span)| label.0.of(bytes);
        let ascend =
            |labels: &[(Span, Span)]| labels.windows(2).all(|two| key(&two[0]) < key(&two[1]));
        if !ascend(labels) {
            labels.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            // The last value of a key that comes twice counts, so such a pod is decoded.
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

    /// The pod's labels, ascending by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let labels = self.label_spans.0.iter();
        labels.map(|(key, value)| (key.of(self.bytes), value.of(self.bytes)))
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
