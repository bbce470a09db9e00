//! Messages that stay encoded. The server receives and sends all messages in this form. It reads
//! only the parts of a request that it needs, and writes some answers without building messages.

use std::fmt;
use std::marker::PhantomData;

use prost::bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

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

/// An encoded message. Bytes that were received need not be a valid message.
#[derive(Default)]
pub struct Encoded<M> {
    /// The encoded bytes.
    pub(crate) bytes: Bytes,
    message: PhantomData<fn() -> M>,
}

impl<M> Encoded<M> {
    /// Takes these bytes as the encoding of a message.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            message: PhantomData,
        }
    }

    /// Returns an upper bound of the number of entries of all lists of the message.
    pub fn entries(&self) -> usize {
        evenkeel_core::proto::wire::entries(&self.bytes)
    }

    /// Returns the encoded bytes, which may also be taken as the encoding of another message.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl<M: Message + Default> Encoded<M> {
    /// Decodes the message.
    ///
    /// # Errors
    /// When the bytes are not the encoding of such a message.
    pub fn decode(&self) -> Result<M, DecodeError> {
        M::decode(self.bytes.clone())
    }
}

impl<M: Message> From<M> for Encoded<M> {
    fn from(message: M) -> Self {
        Self::new(encode(message))
    }
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

impl<M> fmt::Debug for Encoded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
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
}
