//! Messages in their encoding: requests of which a server reads no more than
//! it needs, and answers that were never built as messages.

use std::fmt;
use std::marker::PhantomData;

use prost::bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// The room that a call has at first for its request, and for its answer. It grows
/// with them. Most fit, and so small a buffer is one of many in a page of the
/// allocator. With tonic's own 8 KiB, a page held the buffers of four calls, and was
/// returned to the system and asked for again all the time.
const CALL_BUFFER_BYTES: usize = 1 << 10;

/// How much of an answer is sent at a time.
const SENT_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(CALL_BUFFER_BYTES, SENT_BYTES)
}

/// The encoding of a message. What was received may be no message.
#[derive(Default)]
pub struct Encoded<M> {
    /// Its bytes.
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

    /// Its bytes, also as the encoding of another message.
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
        M::decode(&*self.bytes)
    }
}

impl<M: Message> From<M> for Encoded<M> {
    fn from(message: M) -> Self {
        Self::new(message.encode_to_vec().into())
    }
}

impl<M> fmt::Debug for Encoded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

/// Passes messages of a call on in their encoding.
#[derive(Default)]
pub struct EncodedCodec<E, D>(PhantomData<fn() -> (E, D)>);

impl<E: 'static, D: 'static> Codec for EncodedCodec<Encoded<E>, Encoded<D>> {
    type Encode = Encoded<E>;
    type Decode = Encoded<D>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self(PhantomData)
    }

    fn decoder(&mut self) -> Self {
        Self(PhantomData)
    }
}

/// Decodes requests, and passes answers on in their encoding.
#[derive(Default)]
pub struct EncodedAnswersCodec<E, D>(PhantomData<fn() -> (E, D)>);

impl<E, D> Codec for EncodedAnswersCodec<Encoded<E>, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = Encoded<E>;
    type Decode = D;
    type Encoder = EncodedCodec<Encoded<E>, Encoded<E>>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        EncodedCodec(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<E, D>::raw_decoder(buffers())
    }
}

/// Decodes requests and encodes answers.
#[derive(Default)]
pub struct MessageCodec<E, D>(PhantomData<fn() -> (E, D)>);

impl<E, D> Codec for MessageCodec<E, D>
where
    E: Message + 'static,
    D: Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<E, D>::raw_encoder(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<E, D>::raw_decoder(buffers())
    }
}

impl<E, D> Encoder for EncodedCodec<Encoded<E>, Encoded<D>> {
    type Item = Encoded<E>;
    type Error = Status;

    fn encode(&mut self, item: Encoded<E>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item.bytes);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

impl<E, D> Decoder for EncodedCodec<Encoded<E>, Encoded<D>> {
    type Item = Encoded<D>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Encoded<D>>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        Ok(Some(Encoded::new(bytes)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}
