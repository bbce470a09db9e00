//! Bounds on the bytes that a nats-server sends. They are read as a client of NATS reads them, but
//! only the beginning of a line is kept.

/// The beginning of the line in which a server describes itself.
const INFO: &[u8] = b"INFO ";

/// The longest INFO in bytes: it lists the addresses of a cluster.
pub(super) const MAX_INFO_BYTES: usize = 1 << 20;
/// The longest of the other lines in bytes. Lines of clients may have 4 KiB.
const MAX_LINE_BYTES: usize = 16 << 10;
/// The longest headers of a message in bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// The largest message with its headers in bytes. A stream takes messages of 1 MiB, which its
/// leader returns in base64.
const MAX_MESSAGE_BYTES: usize = 2 << 20;

/// The error for bytes that no nats-server should send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    #[error("it sends a line of more than {0} bytes")]
    LongLine(usize),
    #[error("it sends a message of {0} bytes, more than {MAX_MESSAGE_BYTES}")]
    LargeMessage(usize),
    #[error("it sends headers of {0} bytes, more than {MAX_HEADER_BYTES}")]
    LargeHeaders(usize),
    #[error("it does not speak the protocol of NATS: {0:?}")]
    NotNats(String),
}

/// The position of a stream of bytes in the protocol.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// The bytes of a line that have come.
    line: Vec<u8>,
    /// The number of bytes of a message that are still to come.
    message: usize,
}

impl Framing {
    /// Reads the next bytes.
    ///
    /// # Errors
    /// As soon as a bound is passed. The stream is of no use afterwards.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        while !bytes.is_empty() {
            let rest = bytes.len().min(self.message);
            self.message -= rest;
            bytes = &bytes[rest..];
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, after) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.add(part)?;
            bytes = after;
            if self.line.ends_with(b"\r\n") {
                self.message = message_bytes(&self.line[..self.line.len() - 2])?;
                self.line.clear();
            }
        }
        Ok(())
    }

    /// Adds bytes to the line.
    fn add(&mut self, part: &[u8]) -> Result<(), Breach> {
        let room = (MAX_INFO_BYTES + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        let most = match self.line.starts_with(INFO) {
            true => MAX_INFO_BYTES,
            false => MAX_LINE_BYTES,
        };
        match self.line.len() > most {
            true => Err(Breach::LongLine(most)),
            false => Ok(()),
        }
    }
}

/// Returns how many bytes of a message follow a line.
fn message_bytes(line: &[u8]) -> Result<usize, Breach> {
    let alone: [&[u8]; 5] = [b"+OK", b"PING", b"PONG", b"-ERR", INFO];
    if alone.iter().any(|verb| line.starts_with(verb)) {
        return Ok(0);
    }
    let not_nats = || Breach::NotNats(String::from_utf8_lossy(&line[..line.len().min(80)]).into());
    let text = std::str::from_utf8(line).map_err(|_| not_nats())?;
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let size = |word: &str| word.parse().map_err(|_| not_nats());
    let (headers, bytes) = match words[..] {
        ["MSG", _, .., bytes] => (0, size(bytes)?),
        ["HMSG", _, .., headers, bytes] => (size(headers)?, size(bytes)?),
        _ => return Err(not_nats()),
    };
    if bytes > MAX_MESSAGE_BYTES {
        return Err(Breach::LargeMessage(bytes));
    }
    if headers > MAX_HEADER_BYTES {
        return Err(Breach::LargeHeaders(headers));
    }
    // A line end of 2 bytes follows the message.
    Ok(bytes + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the bytes whole and in pieces, and checks that the results are the same.
    fn taken(bytes: &[u8]) -> Result<(), Breach> {
        let whole = Framing::default().take(bytes);
        for size in [1, 2, 3, 7] {
            let mut framing = Framing::default();
            let mut pieces = bytes.chunks(size);
            assert_eq!(pieces.try_for_each(|piece| framing.take(piece)), whole);
        }
        whole
    }

    #[test]
    fn what_a_server_sends_passes() {
        let urls = "x".repeat(MAX_LINE_BYTES * 2);
        let sent = [
            &format!("INFO {{\"connect_urls\":[\"{urls}\"]}}\r\n"),
            "PONG\r\n+OK\r\n-ERR 'Permissions\n Violation'\r\nPING\r\n",
            "MSG _INBOX.a.b 1 0\r\n\r\nMSG a 1  _R_.x  9\r\nINFO\r\nMSG\r\n",
            "HMSG a 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\nHMSG a 1 reply 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        ];
        assert_eq!(taken(sent.concat().as_bytes()), Ok(()));
    }

    #[test]
    fn what_passes_a_bound_is_told() {
        let long = "x".repeat(MAX_INFO_BYTES);
        let not_nats = |line: &str| Breach::NotNats(line.to_owned());
        for (sent, breach) in [
            (long.clone(), Breach::LongLine(MAX_LINE_BYTES)),
            (format!("MSG {long}"), Breach::LongLine(MAX_LINE_BYTES)),
            (format!("INFO {long}"), Breach::LongLine(MAX_INFO_BYTES)),
            (
                "MSG a 1 2000000000\r\n".into(),
                Breach::LargeMessage(2_000_000_000),
            ),
            (
                "PING\r\nHMSG a 1 r 1000000 2000000\r\n".into(),
                Breach::LargeHeaders(1_000_000),
            ),
            ("MSG a 1 r -1\r\n".into(), not_nats("MSG a 1 r -1")),
            ("MSG a 1 \t9\r\n".into(), not_nats("MSG a 1 \t9")),
            ("HTTP/1.1 400\r\n".into(), not_nats("HTTP/1.1 400")),
            ("\r\n".into(), not_nats("")),
        ] {
            assert_eq!(
                Framing::default().take(sent.as_bytes()),
                Err(breach),
                "{:.40}",
                sent
            );
        }
    }
}
