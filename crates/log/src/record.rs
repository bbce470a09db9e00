//! Records: the content of a log's messages, and the proof of each record's place in the log.
//!
//! A message is a frame: four bytes `EVKL`, one byte of format, the SHA-256 of what follows, and
//! the [`Body`] as protobuf, compressed with zstd. A record names its log, the sequence of the
//! message that it follows on, and the hash of all messages up to there. So every reader notices a
//! message that was damaged, skipped, moved or taken from another log.

use std::cell::RefCell;

use prost::bytes::Bytes;
use ring::digest::{Context, SHA256};
use uuid::Uuid;
use zstd::bulk::{Compressor, Decompressor};

use super::entry_row::{AsideRow, EntryRow};
use super::interface::{Error, Message};

/// Starts each message.
const MAGIC: [u8; 4] = *b"EVKL";

/// The format that this version writes. The release before reads it, too, so that servers of both
/// can share a log while they are upgraded one by one. The meaning of a format never changes. A
/// change that earlier versions do not know needs a new format.
pub const FORMAT: u8 = 1;

/// The bytes that a message may take: engines take up to 1 MiB.
pub const MAX_BYTES: usize = 900_000;

/// The bytes that a record may take when it is decompressed. It is read into memory
/// whole.
const MAX_DECOMPRESSED: usize = 256 << 20;

/// The level of compression at which zstd is about as fast as a disk.
const LEVEL: i32 = 1;

/// The offsets of the hash, which follows magic and format, and of the body.
const HEAD: usize = 5;
const BODY: usize = HEAD + 32;

/// SHA-256 of a message.
pub type Hash = [u8; 32];

/// The hash that the first record of a log follows on.
pub const GENESIS: Hash = [0; 32];

/// The content of a record.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Body {
    /// Identifies the log: a uuid that the first record draws.
    #[prost(bytes = "vec", tag = "1")]
    pub log_id: Vec<u8>,
    /// The sequence of the message that the record follows on.
    #[prost(uint64, tag = "2")]
    pub after: u64,
    /// The hash of the log up to that message.
    #[prost(bytes = "vec", tag = "3")]
    pub chain: Vec<u8>,
    /// The server that wrote the record.
    #[prost(string, tag = "5")]
    pub writer: String,
    /// A uuid that no other record has, by which the writer recognizes it.
    #[prost(bytes = "vec", tag = "6")]
    pub nonce: Vec<u8>,
    /// The steps of the snapshot, in order; all of them happen or none.
    #[prost(message, repeated, tag = "7")]
    pub entries: Vec<EntryRow>,
    /// The place of the entries if they are too large for a message: an [`Entries`] in blobs.
    #[prost(message, optional, tag = "8")]
    pub outside: Option<AsideRow>,
    /// True if nothing is appended after this record, because the log is removed. It has no
    /// entries.
    #[prost(bool, tag = "9")]
    pub closes: bool,
}

/// Entries that are kept outside of their record.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entries {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<EntryRow>,
}

/// The place after a message: the next record has to follow on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The log; nil before its first record.
    pub log_id: Uuid,
    /// The sequence of the message; 0 before the first.
    pub sequence: u64,
    /// The hash of the log up to this message: SHA-256 of the hash up to the message before, and of
    /// this message, record or not. So a message that no reader applies cannot hide an earlier
    /// difference.
    pub hash: Hash,
}

/// The reason why a message, or data that it needs, cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is damaged, of another log, or not the next message. Holds the reason.
    #[error("{0}")]
    Damaged(String),
    /// A later version has written it. Holds the sign of that.
    #[error("{0}")]
    Later(String),
    /// It is not found.
    #[error("{0}")]
    Missing(String),
    /// It cannot be read now.
    #[error("{0}")]
    Unreachable(String),
}

impl Unreadable {
    pub(crate) fn damaged(why: &str) -> Self {
        Self::Damaged(why.to_owned())
    }

    /// The record has fields of a later version, although its format is known.
    pub fn unknown() -> Self {
        Self::Later("a record says something that this version does not know".to_owned())
    }
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::Missing(error.to_string()),
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl Place {
    /// The place before the first record of a log.
    pub const START: Self = Self {
        log_id: Uuid::nil(),
        sequence: 0,
        hash: GENESIS,
    };

    /// The place after a message.
    #[must_use]
    pub fn after(self, message: &Message) -> Self {
        Self {
            sequence: message.sequence,
            hash: digest(&[&self.hash, &message.bytes]),
            ..self
        }
    }

    /// The place before a record, as the record itself says; `None` for a message that is no record,
    /// or that no reader applies.
    pub fn before(message: &Message) -> Option<Self> {
        let body = Body::read(&message.bytes).ok()?;
        let before = Self {
            log_id: body.log_id(),
            sequence: message.sequence.checked_sub(1)?,
            hash: body.chain.try_into().ok()?,
        };
        (body.after == before.sequence).then_some(before)
    }

    /// Reads a message at this place. A record is valid if and only if it says that it follows on
    /// this sequence, in this log, with this hash. `None` if no reader applies the record, because
    /// its writer wanted it to follow on another message: the log goes on after it.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn judge(&self, message: &Message) -> Result<Option<Box<Body>>, Unreadable> {
        if message.sequence != self.sequence + 1 {
            return Err(Unreadable::damaged("it is missing"));
        }
        let body = Body::read(&message.bytes)?;
        if body.after != self.sequence {
            return Ok(None);
        }
        if self.sequence > 0 && body.log_id != self.log_id.as_bytes() {
            let why = "it is of another log: this one was made anew";
            return Err(Unreadable::damaged(why));
        }
        if body.chain != self.hash {
            let why = "it follows on another message than the one that was read";
            return Err(Unreadable::damaged(why));
        }
        Ok(Some(Box::new(body)))
    }
}

impl Body {
    /// The body as a message, which may be larger than [`MAX_BYTES`].
    pub fn write(&self) -> Bytes {
        seal(self)
    }

    /// Reads the body of a message.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn read(message: &[u8]) -> Result<Self, Unreadable> {
        open(message)
    }

    /// The log of the record; nil when it names none.
    pub fn log_id(&self) -> Uuid {
        Uuid::from_slice(&self.log_id).unwrap_or_default()
    }
}

/// Puts a protobuf message into a frame.
pub fn seal(message: &impl prost::Message) -> Bytes {
    let compressed = compress(&message.encode_to_vec());
    let mut frame = Vec::with_capacity(BODY + compressed.len());
    frame.extend_from_slice(&MAGIC);
    frame.push(FORMAT);
    frame.extend_from_slice(&digest(&[&[FORMAT], &compressed]));
    frame.extend_from_slice(&compressed);
    frame.into()
}

/// Takes the protobuf message out of a frame.
///
/// # Errors
/// [`Unreadable`].
pub fn open<M: prost::Message + Default>(frame: &[u8]) -> Result<M, Unreadable> {
    let head = frame.split_at_checked(HEAD);
    let (head, sealed) = head.ok_or_else(|| Unreadable::damaged("a message is no record"))?;
    if head[..4] != MAGIC || sealed.len() < BODY - HEAD {
        return Err(Unreadable::damaged("a message is no record"));
    }
    let (format, (sum, compressed)) = (head[4], sealed.split_at(BODY - HEAD));
    if sum != digest(&[&[format], compressed]) {
        return Err(Unreadable::damaged("the checksum of a record is wrong"));
    }
    if format != FORMAT {
        let why = format!("a record has the unknown format {format}");
        return Err(Unreadable::Later(why));
    }
    let bytes = decompress(compressed);
    decode(bytes.map_err(malformed)?)
}

/// Decodes a protobuf message that has no unknown fields. A reader that ignored some would come to
/// another state than the writer.
///
/// # Errors
/// [`Unreadable`].
pub fn decode<M: prost::Message + Default>(bytes: impl Into<Bytes>) -> Result<M, Unreadable> {
    let bytes: Bytes = bytes.into();
    let length = bytes.len();
    let decoded = M::decode(bytes).map_err(malformed)?;
    // Decoding drops unknown fields, so the message would be shorter when encoded again.
    match decoded.encoded_len() == length {
        true => Ok(decoded),
        false => Err(Unreadable::unknown()),
    }
}

fn malformed(error: impl std::fmt::Display) -> Unreadable {
    Unreadable::Damaged(format!("a record cannot be read: {error}"))
}

thread_local! {
    /// The memory that zstd works with, which takes longer to make than a small record to compress.
    static ZSTD: (RefCell<Compressor<'static>>, RefCell<Decompressor<'static>>) = (
        RefCell::new(Compressor::new(LEVEL).expect("the level is valid")),
        RefCell::new(Decompressor::new().expect("there is no dictionary")),
    );
}

/// Compresses bytes for a log.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    let compressed = ZSTD.with(|(zstd, _)| zstd.borrow_mut().compress(bytes));
    compressed.expect("zstd compresses into memory")
}

/// Decompresses bytes of a log.
///
/// # Errors
/// The bytes are damaged, or would take more than 256 MiB.
pub fn decompress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let size = zstd::zstd_safe::get_frame_content_size(bytes)
        .ok()
        .flatten();
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| *size <= MAX_DECOMPRESSED);
    let size = size.ok_or_else(|| std::io::Error::other("its size is unknown or too large"))?;
    ZSTD.with(|(_, zstd)| zstd.borrow_mut().decompress(bytes, size))
}

/// The SHA-256 of bytes in pieces.
pub fn digest(pieces: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    for piece in pieces {
        context.update(piece);
    }
    let mut hash = GENESIS;
    hash.copy_from_slice(context.finish().as_ref());
    hash
}
