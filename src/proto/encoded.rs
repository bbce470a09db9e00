//! Messages in their encoding. The server receives and sends all of them so: it reads no more of a
//! request than it needs, and some answers were never built as messages.

use std::fmt;
use std::marker::PhantomData;

use prost::bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// The room that a call has at first for its request, and for its answer. It grows with them. Most
/// messages fit. Of so small buffers many fit into a page of the allocator; with tonic's own 8 KiB,
/// a page had the buffers of four calls, and was returned to the system and requested again all the
/// time.
const CALL_BUFFER_BYTES: usize = 1 << 10;

/// The bytes of an answer that are sent at a time.
const SENT_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(CALL_BUFFER_BYTES, SENT_BYTES)
}

/// The encoding of a message. Received bytes may be no message.
#[derive(Default)]
pub struct Encoded<M> {
    /// The encoded bytes.
    pub(crate) bytes: Bytes,
    message: PhantomData<fn() -> M>,
}

impl<M> Encoded<M> {
    /// The encoding in these bytes.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            message: PhantomData,
        }
    }

    /// The encoded bytes, also as the encoding of another message.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl<M: Message + Default> Encoded<M> {
    /// The message.
    ///
    /// # Errors
    /// These bytes are no such message.
    pub fn decode(&self) -> Result<M, DecodeError> {
        M::decode(self.bytes.clone())
    }
}

impl<M: Message> From<M> for Encoded<M> {
    fn from(message: M) -> Self {
        Self::new(encode(message))
    }
}

/// The encoding of a message.
pub fn encode(message: impl Message) -> Bytes {
    message.encode_to_vec().into()
}

impl<M> fmt::Debug for Encoded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

/// Passes the messages of a call on in their encoding. All calls of the server do, so the code for
/// a call is compiled once for all, and not for each message.
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
