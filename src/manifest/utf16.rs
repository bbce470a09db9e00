//! Conversion of texts in UTF-16, which PowerShell's `>` writes.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use super::bounded::{BoundError, MAX_TEXT_BYTES};

/// Returns `input` in UTF-8. A text that begins with a byte order mark of UTF-16 is converted;
/// other texts stay as they are.
pub(super) fn to_utf8(mut input: BufReader<Box<dyn Read>>) -> io::Result<BufReader<Box<dyn Read>>> {
    let of_pair = match input.fill_buf()? {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Ok(input),
    };
    input.consume(2);
    let mut bytes = Vec::new();
    input
        .by_ref()
        .take(MAX_TEXT_BYTES)
        .read_to_end(&mut bytes)?;
    if !input.fill_buf()?.is_empty() {
        return Err(BoundError::Whole(MAX_TEXT_BYTES).into());
    }
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| of_pair(*pair));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(BufReader::new(Box::new(Cursor::new(text)))),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "not valid UTF-16")),
    }
}
