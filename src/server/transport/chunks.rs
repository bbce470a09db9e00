//! Sends answers in chunks, so that the server sees how much a client has read.
//!
//! The connection asks for the next chunk once the client has room for another
//! byte, so all earlier chunks are on their way then. An answer that is passed
//! on as a whole would stay in the connection's memory, and the server could
//! not see that the client does not read it.

use prost::bytes::Bytes;

/// A smaller answer is passed on as a whole: it takes no more memory than its
/// stream does.
pub const SMALL: usize = 1 << 10;

/// A client must read this much within the timeout.
const PIECE: usize = 256 << 10;

/// What is left of a part of an answer.
#[derive(Debug, Default)]
pub struct Chunks {
    rest: Bytes,
    /// Whether a part of the answer was larger than [`SMALL`]: then an unread
    /// end is noticed, however short the last part is.
    is_long: bool,
}

impl Chunks {
    /// Takes a part of an answer and returns its first chunk.
    pub fn cut(&mut self, part: Bytes) -> Bytes {
        self.is_long |= part.len() > SMALL;
        if !self.is_long || part.is_empty() {
            return part;
        }
        self.rest = part;
        self.take()
    }

    /// The next chunk, if there is one.
    pub fn next(&mut self) -> Option<Bytes> {
        (!self.is_empty()).then(|| self.take())
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The last chunk is a single byte: when there is room for it, all before
    /// has been read.
    fn take(&mut self) -> Bytes {
        let before_last = self.rest.len().saturating_sub(1).clamp(1, PIECE);
        self.rest.split_to(before_last)
    }
}
