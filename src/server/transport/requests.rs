//! A request as the services receive it. Each message is complete and charged before it is passed on
//! and decoded.
//!
//! A client may send the first bytes of a message and never the last, one byte at a time, or bytes
//! that are small on the wire and large when decoded.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt, try_unfold};
use http_body::{Body, Frame};
use http_body_util::StreamBody;
use hyper::body::Incoming;
use prost::bytes::Bytes;
use tokio::time::timeout;
use tonic::Status;

use super::calls::{CallKind, CallLimits};
use super::decoded_size::RequestLayout;
use crate::account::Charge;
use crate::api::{self, CallerKey};
use crate::limits::{Exceeded, Limit};

/// The header of each message: a flag for compression, and the length.
pub(super) const HEAD: usize = 5;

/// The bytes of a request that are not charged. Most requests have no more.
const COVERED: usize = 4 << 10;

/// A request that a service reads.
pub type RequestBody = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Status>>>;

/// The request of a call.
pub struct IncomingRequest {
    body: Incoming,
    kind: CallKind,
    who: CallerKey,
    limits: Arc<CallLimits>,
    /// The layout of its messages, if they are the service's.
    layout: Option<RequestLayout>,
    /// The bytes that came last and belong to no message yet.
    fresh: Bytes,
    /// True if a message has arrived whole.
    has_begun: bool,
    /// The charge for bytes that arrived and are not passed on yet.
    charge: Charge,
    /// The message that is to be passed on.
    current: Bytes,
    /// The charges of messages of a stream that were passed on and may still be in use.
    given: VecDeque<Charge>,
}

impl IncomingRequest {
    /// The request of a caller to a path.
    pub fn new(
        body: Incoming,
        kind: CallKind,
        who: CallerKey,
        path: &str,
        limits: &Arc<CallLimits>,
    ) -> Self {
        Self {
            body,
            kind,
            who,
            layout: limits.sizes.request(path),
            limits: Arc::clone(limits),
            fresh: Bytes::new(),
            has_begun: false,
            charge: limits.account.open(),
            current: Bytes::new(),
            given: VecDeque::new(),
        }
    }

    /// Waits for the one message of a call. Returns its length with its head; 0 if none comes.
    ///
    /// # Errors
    /// The status with which the call ends without a message.
    pub async fn first(&mut self) -> Result<usize, Status> {
        let first = self.next().await?;
        if first.is_none() && self.layout.is_some() {
            return Err(api::Error::Undecodable("it has no message".to_owned()).into());
        }
        self.current = first.unwrap_or_default();
        Ok(self.current.len())
    }

    /// Charges the memory for decoding the complete message. Returns the message's charge, to hold it
    /// while the call works on the message. This reads the whole message, so it runs only where
    /// decoding may run, too.
    ///
    /// # Errors
    /// When there is no memory for it, or a list has more entries than a limit allows.
    pub fn weigh(&mut self) -> Result<Charge, Status> {
        let decoded = self.limits.sizes.of(self.layout, &self.current)?;
        self.charge_decoded(decoded)
    }

    /// Charges a message that takes so many bytes when it is decoded.
    fn charge_decoded(&mut self, decoded: usize) -> Result<Charge, Status> {
        // Decoders gather a message before they decode it. The message is then compiled into data of
        // its size, and an answer may repeat its content. Questions of a stream are decoded one by
        // one, and kept compiled.
        let times = match self.kind {
            // Health checks have their own slots, which also limit their memory.
            CallKind::Check => 0,
            CallKind::Decisions => 1,
            _ => 2,
        };
        let takes = decoded.saturating_add(self.current.len());
        self.grow(takes.saturating_mul(times))?;
        let open = self.limits.account.open();
        Ok(std::mem::replace(&mut self.charge, open))
    }

    /// Charges this many more bytes of the request.
    fn grow(&self, bytes: usize) -> Result<(), Status> {
        if self.charge.bytes() == 0 && bytes <= COVERED {
            return Ok(());
        }
        Ok(self.charge.grow(bytes).map_err(api::Error::from)?)
    }

    /// Passes the request on to a service.
    pub fn into_body(self) -> RequestBody {
        let messages = try_unfold(Box::new(self), |mut request| async move {
            let is_there = !request.current.is_empty() || request.next_of_stream().await?;
            let message = std::mem::take(&mut request.current);
            Ok(is_there.then(|| (Frame::data(message), request)))
        });
        StreamBody::new(messages.boxed())
    }

    /// Receives the next message of a stream and charges it; false at the end. The request of a call
    /// that is no stream must end here, without a second message.
    async fn next_of_stream(&mut self) -> Result<bool, Status> {
        let Some(whole) = self.next().await? else {
            return Ok(false);
        };
        if !self.kind.is_stream() {
            let fault = "this call takes one message".to_owned();
            return Err(api::Error::Undecodable(fault).into());
        }
        let decoded = if whole.len() > api::LARGE_REQUEST {
            // A large one is weighed beside the threads that serve.
            let (limits, layout) = (Arc::clone(&self.limits), self.layout);
            let whole = whole.clone();
            let weigh = async move { limits.sizes.of(layout, &whole) };
            self.limits.beside.run(self.who.clone(), weigh).await?
        } else {
            self.limits.sizes.of(self.layout, &whole)
        };
        self.current = whole;
        let charge = self.charge_decoded(decoded?)?;
        if self.given.len() >= api::MAX_GROUP {
            self.given.pop_front();
        }
        self.given.push_back(charge);
        Ok(true)
    }

    /// The next message with its head, charged while it arrives; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let time = self.limits.receive_timeout;
        if self.fresh.is_empty() && self.body.is_end_stream() {
            return Ok(None);
        }
        if self.has_begun && self.fresh.is_empty() {
            let goes_on = match self.kind {
                CallKind::Feed | CallKind::Decisions => self.receive().await?,
                // The client has all its answers, so its silence is no fault.
                CallKind::Reflection => timeout(time, self.receive()).await.unwrap_or(Ok(false))?,
                _ => true,
            };
            if !goes_on {
                return Ok(None);
            }
        }
        // The timer begins only when the request has to wait: most requests are there at once.
        let whole = timeout(time, self.whole()).await;
        let whole = whole.map_err(|_| Status::from(api::Error::NotReceived(time)))??;
        self.has_begun = true;
        Ok(whole)
    }

    /// The next message, once it has come.
    async fn whole(&mut self) -> Result<Option<Bytes>, Status> {
        let cut = || Err(api::Error::Undecodable("it ends within a message".into()).into());
        let head = loop {
            if let Some(head) = self.fresh.first_chunk::<HEAD>() {
                break *head;
            }
            if !self.receive().await? {
                return if self.fresh.is_empty() {
                    Ok(None)
                } else {
                    cut()
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
                self.grow(wanted - room)?;
                message.reserve_exact(wanted - message.len());
            }
            message.extend_from_slice(&now);
            if message.len() == whole {
                return Ok(Some(message.into()));
            }
            if !self.receive().await? {
                return cut();
            }
        }
    }

    /// Waits for more bytes. Returns false at the end of the request.
    async fn receive(&mut self) -> Result<bool, Status> {
        let Self { body, given, .. } = self;
        let mut has_waited = false;
        let mut frame = poll_fn(|context| {
            if std::mem::replace(&mut has_waited, true) {
                // A call that asks again for the next message is done with the last one.
                given.clear();
            }
            Pin::new(&mut *body).poll_frame(context)
        });
        while let Some(next) = (&mut frame).await {
            let next = next.map_err(|error| Status::from_error(error.into()))?;
            // Trailers of a request have no meaning.
            match next.into_data() {
                Ok(data) if !data.is_empty() => {
                    self.fresh = match self.fresh.is_empty() {
                        true => data,
                        // Less than a head came before.
                        false => [&self.fresh[..], &data[..]].concat().into(),
                    };
                    return Ok(true);
                }
                _ => {}
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
        let most = self.limits.max_message_bytes(self.kind);
        if length <= most {
            return Ok(length);
        }
        Err(match self.kind.is_spread() {
            true => api::Error::OverLimit(Exceeded {
                limit: Limit::MessageBytes,
                most,
                actual: None,
            }),
            false => api::Error::Undecodable(format!(
                "messages of this service have at most {most} bytes"
            )),
        }
        .into())
    }
}
