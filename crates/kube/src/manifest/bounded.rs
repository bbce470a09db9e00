//! Bounds on the size of input, so that no file takes too much memory or time.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

/// The most bytes of a source whose objects are read one by one. A cluster of 3,000,000 pods needs
/// a tenth of this as JSON.
pub(super) const MAX_STREAM_BYTES: u64 = 16 << 30;

/// The most bytes of a text that is held as a whole: YAML, and the files of `lint`. 150,000 pods
/// have a few hundred MB.
pub(super) const MAX_TEXT_BYTES: u64 = 1 << 30;

/// The most bytes of one object of JSON and one line of YAML. Kubernetes takes no object of more
/// than 3 MiB.
pub(super) const MAX_PIECE_BYTES: u64 = 16 << 20;

/// The number of bytes that are read at a time.
pub(super) const BUFFER_BYTES: usize = 1 << 20;

/// The reason why reading a text ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BoundError {
    /// The text is longer than allowed.
    #[error("more than {} GiB, which is not read", .0 >> 30)]
    Whole(u64),
    /// The text has an object or line that is longer than allowed.
    #[error("one {piece} of more than {} MiB, which is not read", most >> 20)]
    Piece {
        /// The piece that is too long.
        piece: &'static str,
        /// The most bytes that it may have.
        most: u64,
    },
    /// The text has a zero byte: it is binary, or an endless device.
    #[error("it holds a zero byte, so it is no text")]
    ZeroByte,
}

impl From<BoundError> for io::Error {
    fn from(error: BoundError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// The kind of pieces of a text whose length is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPiece {
    /// A line of at most this number of bytes.
    Line(u64),
    /// An object of at most [`MAX_PIECE_BYTES`]. The reader sets `in_piece` to 0 after each.
    Object,
    /// The text as a whole.
    Whole,
}

/// A text of limited length.
pub struct BoundedText<R> {
    input: R,
    piece: TextPiece,
    /// The number of bytes that may still be read.
    left: u64,
    most: u64,
    /// The number of bytes that were read since the last piece ended.
    pub(super) in_piece: Rc<Cell<u64>>,
}

impl<R: Read> BoundedText<R> {
    /// Reads at most `most` bytes of `input`. A longer text, or a longer piece, is an error.
    pub fn new(input: R, piece: TextPiece, most: u64) -> Self {
        Self {
            input,
            piece,
            left: most,
            most,
            in_piece: Rc::default(),
        }
    }

    /// The same text through a buffer.
    pub fn buffered(self) -> BufReader<Self> {
        BufReader::with_capacity(BUFFER_BYTES, self)
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), BoundError> {
        let length = bytes.len() as u64;
        self.left = self
            .left
            .checked_sub(length)
            .ok_or(BoundError::Whole(self.most))?;
        if bytes.contains(&0) {
            return Err(BoundError::ZeroByte);
        }
        let (piece, most, line_end) = match self.piece {
            TextPiece::Line(most) => {
                let line_end = bytes.iter().rposition(|byte| *byte == b'\n');
                ("line", most, line_end)
            }
            TextPiece::Object => ("object", MAX_PIECE_BYTES, None),
            TextPiece::Whole => return Ok(()),
        };
        let now = match line_end {
            Some(end) => bytes[end..].len() as u64,
            None => self.in_piece.get().saturating_add(length),
        };
        self.in_piece.set(now);
        match now > most {
            true => Err(BoundError::Piece { piece, most }),
            false => Ok(()),
        }
    }
}

impl<R: Read> Read for BoundedText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A read is much shorter than the longest piece, so no piece that is too long fits between
        // two checks.
        let length = buffer.len().min(BUFFER_BYTES);
        let read = self.input.read(&mut buffer[..length])?;
        self.check(&buffer[..read])?;
        Ok(read)
    }
}
