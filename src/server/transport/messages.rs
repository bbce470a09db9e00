//! The messages of a request. Each is complete and charged before it is
//! decoded.
//!
//! A client may send the first bytes of a message and never the last, one byte
//! at a time, or bytes that are small on the wire and large when decoded. So
//! nothing of a message is passed on before it is complete.

use std::time::Duration;

use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::bytes::Bytes;
use tokio::time::timeout;
use tonic::Status;

use super::kinds::CallKind;
use crate::account::Charge;
use crate::api;
use crate::limits::{Exceeded, Limit};

/// The header of each message: a flag for compression, and the length.
pub(super) const HEAD: usize = 5;

/// The bytes of a request that are not charged.
const COVERED: usize = 4 << 10;

/// The messages of a request as they arrive.
pub struct Messages {
    inner: Incoming,
    pub kind: CallKind,
    max_message_bytes: usize,
    receive_timeout: Duration,
    /// The bytes that came last and belong to no message yet.
    fresh: Bytes,
    /// True if a message has arrived whole.
    has_begun: bool,
}

impl Messages {
    pub fn new(
        inner: Incoming,
        kind: CallKind,
        max_message_bytes: usize,
        receive_timeout: Duration,
    ) -> Self {
        Self {
            inner,
            kind,
            max_message_bytes,
            receive_timeout,
            fresh: Bytes::new(),
            has_begun: false,
        }
    }

    /// The next message with its head, charged while it arrives; `None` at the end.
    ///
    /// # Errors
    /// The status that ends the call: the message is too long, late, cut off, or there is no memory
    /// for it.
    pub async fn next(&mut self, charge: &Charge) -> Result<Option<Bytes>, Status> {
        let time = self.receive_timeout;
        if self.fresh.is_empty() && self.inner.is_end_stream() {
            return Ok(None);
        }
        if self.has_begun && self.fresh.is_empty() {
            let is_over = match self.kind {
                CallKind::Feed | CallKind::Decisions => !self.receive().await?,
                // The client has all its answers, so its silence is no fault.
                CallKind::Reflection => {
                    let came = timeout(time, self.receive()).await;
                    !came.unwrap_or(Ok(false))?
                }
                _ => false,
            };
            if is_over {
                return Ok(None);
            }
        }
        // The timer begins only when the request has to wait: most requests are there at once.
        let whole = timeout(time, self.whole(charge)).await;
        let whole = whole.map_err(|_| Status::from(api::Error::NotReceived(time)))??;
        self.has_begun = true;
        Ok(whole)
    }

    /// The next message, once it has come.
    async fn whole(&mut self, charge: &Charge) -> Result<Option<Bytes>, Status> {
        let head = loop {
            if let Some(head) = self.fresh.first_chunk::<HEAD>() {
                break *head;
            }
            if !self.receive().await? {
                return if self.fresh.is_empty() {
                    Ok(None)
                } else {
                    Err(cut())
                };
            }
        };
        let whole = HEAD + self.length(head)?;
        if self.fresh.len() >= whole {
            return Ok(Some(self.fresh.split_to(whole)));
        }
        // This is a copy: a slice of a connection's buffer would keep the whole buffer in memory.
        let mut message = Vec::new();
        loop {
            let missing = whole - message.len();
            let now = self.fresh.split_to(missing.min(self.fresh.len()));
            let room = message.capacity();
            if room < message.len() + now.len() {
                let wanted = (2 * room).max(message.len() + now.len()).min(whole);
                grow(charge, wanted - room)?;
                message.reserve_exact(wanted - message.len());
            }
            message.extend_from_slice(&now);
            if message.len() == whole {
                return Ok(Some(message.into()));
            }
            if !self.receive().await? {
                return Err(cut());
            }
        }
    }

    /// Waits for more bytes. Returns false at the end of the request.
    async fn receive(&mut self) -> Result<bool, Status> {
        while let Some(frame) = self.inner.frame().await {
            let frame = frame.map_err(|error| Status::from_error(error.into()))?;
            // Trailers of a request have no meaning.
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) if self.fresh.is_empty() => {
                    self.fresh = data;
                    return Ok(true);
                }
                Ok(data) => {
                    // Less than a head came before.
                    self.fresh = [&self.fresh[..], &data[..]].concat().into();
                    return Ok(true);
                }
                Err(_) => {}
            }
        }
        Ok(false)
    }

    /// Returns the length of the message with this head.
    fn length(&self, [compression, length @ ..]: [u8; HEAD]) -> Result<usize, Status> {
        if compression != 0 {
            return Err(Status::unimplemented("messages must not be compressed"));
        }
        let length = u32::from_be_bytes(length) as usize;
        if length <= self.max_message_bytes {
            return Ok(length);
        }
        Err(match self.kind.is_spread() {
            true => api::Error::OverLimit(Exceeded {
                limit: Limit::MessageBytes,
                most: self.max_message_bytes,
                actual: None,
            }),
            false => api::Error::Undecodable(format!(
                "messages of this service have at most {} bytes",
                self.max_message_bytes
            )),
        }
        .into())
    }
}

/// The status of a request that ends within a message.
fn cut() -> Status {
    api::Error::Undecodable("it ends within a message".into()).into()
}

/// Charges this many more bytes of a request. Most requests are small and take no charge.
///
/// # Errors
/// When there is no memory for them.
pub fn grow(charge: &Charge, bytes: usize) -> Result<(), Status> {
    if charge.bytes() == 0 && bytes <= COVERED {
        return Ok(());
    }
    Ok(charge.grow(bytes).map_err(api::Error::from)?)
}
