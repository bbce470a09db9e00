//! An answer that is being sent. It holds its call's slot until it is sent.
//!
//! It is sent in chunks, so that the server sees how much a client has read. The connection asks
//! for the next chunk once the client has room for another byte. By then all earlier chunks are on
//! their way. An answer that is passed on as a whole would stay in the connection's memory, and the
//! server could not see that the client does not read it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::body::Body;
use tonic::{Code, Status};

use super::kinds::KindSlot;
use super::turns::OpenCall;
use crate::account::{Account, Charge, Part};
use crate::api;
use crate::limits::{Exceeded, Limit};
use crate::server::telemetry::observe::ObservedCall;

/// A smaller answer is passed on as a whole: it takes no more memory than its stream does.
const SMALL: usize = 1 << 10;

/// The bytes that a client must read within the timeout.
const PIECE: usize = 256 << 10;

/// The encoded part of an answer, and the rest.
pub struct EncodedAnswer {
    /// The beginning of the answer, if it is complete.
    first: Option<Frame<Bytes>>,
    rest: Body,
    account: Arc<Account>,
    /// The charge of the part that is being sent, if it is larger than the memory of every call.
    charge: Option<Charge>,
}

impl EncodedAnswer {
    /// An answer that has only headers.
    pub fn empty(rest: Body, account: Arc<Account>) -> Self {
        Self {
            first: None,
            rest,
            account,
            charge: None,
        }
    }

    /// Encodes the beginning of an answer now. If it waited until the client has room, the message
    /// itself would be kept until then.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn begin(rest: Body, account: Arc<Account>) -> Result<Self, Status> {
        let mut begun = Self::empty(rest, account);
        // This poll needs no waker: the next poll sets one.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(frame)) = Pin::new(&mut begun.rest).poll_frame(&mut context) {
            let frame = frame?;
            begun.charge(frame.data_ref().map_or(0, Bytes::len))?;
            begun.first = Some(frame);
        }
        Ok(begun)
    }

    /// Charges a part. All parts before it are sent.
    fn charge(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes <= SMALL {
            self.charge = None;
            return Ok(());
        }
        let open = || self.account.open(Part::Answers);
        let charge = self.charge.get_or_insert_with(open);
        let more = bytes.saturating_sub(charge.bytes());
        charge.grow(more).map_err(api::Error::from)?;
        charge.set(bytes);
        Ok(())
    }
}

/// An answer on its way.
pub struct OutgoingAnswer {
    pub encoded: EncodedAnswer,
    /// The rest of the part that is being sent.
    pub chunks: Chunks,
    pub refusals: LibraryRefusals,
    /// The record of the call, which ends when this is dropped.
    pub call: Option<ObservedCall>,
    /// The call, which closes its connection when the client does not read.
    pub open: OpenCall,
    pub _slot: KindSlot,
    /// The charge for the call itself.
    pub _base: Option<Charge>,
    pub is_over: bool,
}

impl OutgoingAnswer {
    /// Returns a frame in the form in which it is sent.
    fn amend(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(data) => match self.encoded.charge(data.len()) {
                Ok(()) => Frame::data(self.chunks.cut(data)),
                Err(status) => self.end(&status),
            },
            Err(mut frame) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.refusals.amend(trailers);
                    if let Some(call) = &mut self.call {
                        call.status(trailers);
                    }
                }
                frame
            }
        }
    }

    /// The end of an answer that cannot continue.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.is_over = true;
        let trailers = trailers(status);
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
        if let Some(chunk) = self.chunks.next() {
            self.open.note_unread(true);
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = match self.encoded.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.encoded.rest).poll_frame(context),
        };
        self.open.note_unread(frame.is_ready());
        frame.map_ok(|frame| self.amend(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty()
            && (self.is_over || (self.encoded.first.is_none() && self.encoded.rest.is_end_stream()))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// The rest of a part of an answer.
#[derive(Debug, Default)]
pub struct Chunks {
    rest: Bytes,
    /// True if a part of the answer was larger than [`SMALL`]. Then an unread end is noticed,
    /// however short the last part is.
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

    /// Removes the next chunk. The last chunk is a single byte: when there is room for it,
    /// everything before has been read.
    fn take(&mut self) -> Bytes {
        let before_last = self.rest.len().saturating_sub(1).clamp(1, PIECE);
        self.rest.split_to(before_last)
    }
}

/// The trailers that end an answer with a status.
pub fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    put(status, &mut trailers);
    trailers
}

fn put(status: &Status, headers: &mut HeaderMap) {
    status
        .add_header(headers)
        .expect("text and details are encoded for headers");
}

/// Returns whether the library has answered that there is no such method, which it does without a
/// word.
pub fn is_unknown_method(headers: &HeaderMap) -> bool {
    let code = headers.get(Status::GRPC_STATUS);
    code.is_some_and(|code| Code::from_bytes(code.as_bytes()) == Code::Unimplemented)
        && !headers.contains_key(Status::GRPC_MESSAGE)
}

/// Replaces the gRPC library's refusals by ours, in the statuses with which calls end.
#[derive(Clone, Copy)]
pub struct LibraryRefusals {
    pub max_message_bytes: usize,
}

impl LibraryRefusals {
    /// Puts the right status into the headers or trailers that end a call. Costs one look-up for
    /// calls that succeed.
    pub fn amend(&self, headers: &mut HeaderMap) {
        let Some(code) = headers.get(Status::GRPC_STATUS) else {
            return;
        };
        let code = Code::from_bytes(code.as_bytes());
        if code == Code::Ok {
            return;
        }
        if let Some(error) = self.of_library(code, headers) {
            put(&error.into(), headers);
        }
    }

    /// The meaning of a status of the library. The service itself never answers
    /// OUT_OF_RANGE, and INTERNAL only with details.
    fn of_library(&self, code: Code, headers: &HeaderMap) -> Option<api::Error> {
        match code {
            Code::OutOfRange => Some(api::Error::OverLimit(Exceeded {
                limit: Limit::MessageBytes,
                most: self.max_message_bytes,
                actual: None,
            })),
            Code::Internal if !headers.contains_key("grpc-status-details-bin") => {
                let status = Status::from_header_map(headers)?;
                Some(api::Error::Undecodable(status.message().to_owned()))
            }
            _ => None,
        }
    }
}
