//! An answer that is being sent. It holds its call's slot until it is sent.
//!
//! It is sent in chunks, so that the server sees how much a client has read. The connection asks
//! for the next chunk once the client has room for another byte. By then all earlier chunks are on
//! their way. An answer that is passed on as a whole would stay in the connection's memory, and the
//! server could not see that the client does not read it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use http_body::Frame;
use prost::bytes::Bytes;
use tonic::body::Body;
use tonic::{Code, Status};

use super::calls::{CallKind, CallLimits, KindSlot};
use super::connections::OpenCall;
use crate::account::Purpose;
use crate::api;
use crate::limits::{Exceeded, Limit};
use crate::server::telemetry::calls::ObservedCall;

/// A smaller answer is passed on as a whole: it takes no more memory than its stream does.
const SMALL: usize = 1 << 10;

/// A larger part of an answer is not sent while there is no memory.
const LARGE: usize = 64 << 10;

/// The bytes that a client must read within the timeout.
const PIECE: usize = 256 << 10;

/// An answer on its way.
pub struct OutgoingAnswer {
    body: Body,
    /// The rest of the part of it that is being sent.
    rest: Bytes,
    /// True if a part was larger than [`SMALL`]. Then an unread end is noticed, however short the
    /// last part is.
    is_long: bool,
    is_over: bool,
    limits: Arc<CallLimits>,
    /// The record of the call, which ends when this is dropped.
    call: Option<ObservedCall>,
    /// The call, which closes its connection when the client does not read.
    open: OpenCall,
    _slot: KindSlot,
}

impl OutgoingAnswer {
    pub fn new(
        body: Body,
        limits: &Arc<CallLimits>,
        call: Option<ObservedCall>,
        open: OpenCall,
        slot: KindSlot,
    ) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            is_long: false,
            is_over: false,
            limits: Arc::clone(limits),
            call,
            open,
            _slot: slot,
        }
    }

    /// Removes the next chunk of the part that is being sent. The last chunk is a single byte: when
    /// there is room for it, everything before has been read.
    fn chunk(&mut self) -> Frame<Bytes> {
        let most = match self.is_long {
            true => self.rest.len().saturating_sub(1).clamp(1, PIECE),
            false => self.rest.len(),
        };
        Frame::data(self.rest.split_to(most.min(self.rest.len())))
    }

    /// Ends the answer with trailers, which have the status of the call. The service itself never
    /// answers OUT_OF_RANGE, with which tonic refuses an answer that is too long.
    fn end(&mut self, mut trailers: HeaderMap) -> Frame<Bytes> {
        self.is_over = true;
        let code = trailers.get(Status::GRPC_STATUS);
        if code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::OutOfRange) {
            let over = Exceeded {
                limit: Limit::MessageBytes,
                most: self.limits.max_message_bytes(CallKind::Call),
                actual: None,
            };
            trailers = trailers_of(&api::Error::OverLimit(over).into());
        }
        if let Some(call) = &mut self.call {
            call.status(&trailers);
        }
        Frame::trailers(trailers)
    }
}

impl http_body::Body for OutgoingAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            if self.is_over {
                return Poll::Ready(None);
            }
            let part = Pin::new(&mut self.body).poll_frame(context);
            self.open.note_unread(part.is_ready());
            let Some(part) = ready!(part) else {
                return Poll::Ready(None);
            };
            match part?.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(Some(Ok(self.end(trailers))));
                }
            }
            let bytes = self.rest.len();
            self.is_long |= bytes > SMALL;
            if bytes > LARGE
                && let Err(full) = self.limits.account.check(Purpose::Work, 0)
            {
                self.rest = Bytes::new();
                let status = api::Error::from(full).into();
                return Poll::Ready(Some(Ok(self.end(trailers_of(&status)))));
            }
        } else {
            self.open.note_unread(true);
        }
        Poll::Ready(Some(Ok(self.chunk())))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && (self.is_over || self.body.is_end_stream())
    }
}

/// The trailers that end an answer with a status.
fn trailers_of(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    status
        .add_header(&mut trailers)
        .expect("text and details are encoded for headers");
    trailers
}

/// Returns whether the library has answered that there is no such method, which it does without a
/// word.
pub fn is_unknown_method(headers: &HeaderMap) -> bool {
    let code = headers.get(Status::GRPC_STATUS);
    code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::Unimplemented)
        && !headers.contains_key(Status::GRPC_MESSAGE)
}
