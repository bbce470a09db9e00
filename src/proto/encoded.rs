//! Messages in their encoding, as the port receives and sends them. The API decodes a request once it
//! has arrived whole, and its memory is charged.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::decode_varint;
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::limits::{Exceeded, Limit, Limits};

/// The first size of the buffers for the request and the answer of a call. Most messages fit; for
/// larger ones the buffers grow. Many buffers of this size fit into a page of the allocator. With
/// tonic's own 8 KiB, a page held the buffers of only four calls, and was returned to the system
/// and requested again all the time.
const CALL_BUFFER_BYTES: usize = 1 << 10;

/// The number of bytes of an answer that are sent at a time.
const SENT_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(CALL_BUFFER_BYTES, SENT_BYTES)
}

/// The bytes of a message between two looks whether to go on decoding it.
const BETWEEN_LOOKS: usize = 64 << 10;

/// Decodes a message until `is_given_up` returns true; `None` if it did.
///
/// # Errors
/// When the bytes are not the encoding of such a message.
pub fn decode_until<M: Message + Default>(
    bytes: Bytes,
    is_given_up: &dyn Fn() -> bool,
) -> Result<Option<M>, DecodeError> {
    let mut bytes = EndingBytes {
        bytes,
        unlooked: 0,
        is_given_up,
        has_ended: false,
    };
    let decoded = M::decode(&mut bytes);
    match bytes.has_ended {
        true => Ok(None),
        false => decoded.map(Some),
    }
}

/// Bytes that end once `is_given_up` returns true, so that decoding ends, too.
struct EndingBytes<'a> {
    bytes: Bytes,
    /// The bytes that were read since the last look.
    unlooked: usize,
    is_given_up: &'a dyn Fn() -> bool,
    has_ended: bool,
}

impl Buf for EndingBytes<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.unlooked += count;
        if self.unlooked >= BETWEEN_LOOKS {
            self.unlooked = 0;
            if (self.is_given_up)() {
                self.has_ended = true;
                self.bytes.clear();
            }
        }
    }
}

/// Encodes a message.
pub fn encode(message: impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Encodes a message that may be long.
///
/// # Errors
/// It is over the limit for messages. Then it is not encoded.
pub fn encode_within(message: &impl Message, limits: &Limits) -> Result<Bytes, Exceeded> {
    limits.check(Limit::MessageBytes, message.encoded_len())?;
    Ok(message.encode_to_vec().into())
}

/// The depth of nested messages to which entries are counted.
const MAX_DEPTH: usize = 64;

/// Returns an upper bound of the number of entries of all lists of a message, with those of the
/// messages in it: the number of its fields that have bytes. What could be a message is taken for
/// one.
pub fn entries(message: &[u8]) -> usize {
    within(message, MAX_DEPTH).unwrap_or(message.len())
}

/// As [`entries`], to a depth; `None` if the bytes are no message. Most texts are none, so that costs
/// little.
fn within(mut message: &[u8], depth: usize) -> Option<usize> {
    let mut entries = 0;
    while !message.is_empty() {
        let (key, content) = next_field(&mut message)?;
        if key & 7 != LENGTH_DELIMITED {
            continue;
        }
        let inner = match depth.checked_sub(1) {
            Some(depth) => within(content, depth).unwrap_or(0),
            None => content.len(),
        };
        entries += 1 + inner;
    }
    Some(entries)
}

/// Takes the entries of a list of messages out of an encoded message: returns the message without
/// them, and the entries. `None` if that is not possible; decoding the message says why.
pub fn take_list(message: &Bytes, field: u32) -> Option<(Vec<u8>, Vec<Bytes>)> {
    let (mut rest, mut entries) = (Vec::new(), Vec::new());
    let mut left = &message[..];
    while !left.is_empty() {
        let start = message.len() - left.len();
        let (key, content) = next_field(&mut left)?;
        if key == u64::from(field) << 3 | LENGTH_DELIMITED {
            entries.push(message.slice_ref(content));
        } else {
            rest.extend_from_slice(&message[start..message.len() - left.len()]);
        }
    }
    Some((rest, entries))
}

/// The type in the key of a field that has bytes.
pub const LENGTH_DELIMITED: u64 = 2;

/// Takes the next field off a message: its key, and its bytes, of which a varint has none. `None` if
/// the bytes are no message. Groups, which the protocol does not have, are none.
pub fn next_field<'m>(message: &mut &'m [u8]) -> Option<(u64, &'m [u8])> {
    let key = decode_varint(message).ok()?;
    let length = match key & 7 {
        0 => {
            decode_varint(message).ok()?;
            0
        }
        1 => 8,
        5 => 4,
        LENGTH_DELIMITED => usize::try_from(decode_varint(message).ok()?).ok()?,
        _ => return None,
    };
    let (content, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some((key, content))
}

/// A codec that passes on the messages of a call without decoding them. All calls of the server use
/// it, so the code for a call is compiled only once, and not for each type of message.
#[derive(Clone, Copy, Default)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1;

    #[test]
    fn decoding_ends_when_nobody_waits_for_the_message() {
        let names = (0..100_000).map(|at| format!("node-{at}"));
        let message = v1::NodeNames {
            names: names.collect(),
        };
        let bytes = encode(message.clone());
        let decoded = decode_until::<v1::NodeNames>(bytes.clone(), &|| false);
        assert_eq!(decoded, Ok(Some(message)));
        let looks = std::cell::Cell::new(0);
        let is_given_up = || looks.replace(looks.get() + 1) >= 2;
        let decoded = decode_until::<v1::NodeNames>(bytes, &is_given_up);
        assert_eq!((decoded, looks.get()), (Ok(None), 3));
    }

    #[test]
    fn a_message_consists_of_its_list_and_the_rest() {
        let change = |name: &str| v1::Change {
            object: Some(v1::change::Object::Namespace(v1::Namespace {
                metadata: Some(v1::ObjectMeta {
                    name: name.to_owned(),
                    ..v1::ObjectMeta::default()
                }),
            })),
        };
        let request = v1::UpdateSnapshotRequest {
            snapshot: "s".to_owned(),
            changes: ["a", "b"].map(change).into(),
            expected_revision: Some(7),
            ..v1::UpdateSnapshotRequest::default()
        };
        let bytes = encode(request.clone());
        let (rest, entries) = take_list(&bytes, 2).expect("it is a message");
        let decoded = entries.into_iter().map(v1::Change::decode);
        assert_eq!(
            decoded.collect::<Result<Vec<_>, _>>(),
            Ok(request.changes.clone())
        );
        let without = v1::UpdateSnapshotRequest {
            changes: Vec::new(),
            ..request
        };
        assert_eq!(v1::UpdateSnapshotRequest::decode(&rest[..]), Ok(without));
        assert_eq!(take_list(&bytes.slice(..bytes.len() - 1), 2), None);
    }

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
