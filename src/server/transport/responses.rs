//! An answer that is being sent. It holds its call's slot until it is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http_body::{Body as _, Frame, SizeHint};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;

use super::chunks::{self, Chunks};
use super::refusals::{self, LibraryRefusals};
use super::send_timeout::Watch;
use super::turns::OpenCall;
use crate::account::{Account, Charge, Part};
use crate::api;
use crate::api::slots::CallSlot;
use crate::server::telemetry::observe::ObservedCall;

/// The encoded part of an answer, and the rest.
pub struct EncodedAnswer {
    /// Its beginning, if it is complete.
    first: Option<Frame<Bytes>>,
    rest: Body,
    account: Arc<Account>,
    /// The charge of the part that is being sent, if it is larger than what
    /// every call takes.
    charge: Option<Charge>,
}

impl EncodedAnswer {
    /// For an answer that has only headers.
    pub fn empty(rest: Body, account: Arc<Account>) -> Self {
        Self {
            first: None,
            rest,
            account,
            charge: None,
        }
    }

    /// Encodes the beginning of an answer now, and not when the client has room
    /// for it: otherwise the message itself would be kept until then.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn begin(rest: Body, account: Arc<Account>) -> Result<Self, Status> {
        let mut begun = Self::empty(rest, account);
        // The next poll is woken when there is more.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(frame)) = Pin::new(&mut begun.rest).poll_frame(&mut context) {
            let frame = frame?;
            begun.charge(frame.data_ref().map_or(0, Bytes::len))?;
            begun.first = Some(frame);
        }
        Ok(begun)
    }

    /// Charges a part. Those before it are sent.
    fn charge(&mut self, bytes: usize) -> Result<(), Status> {
        if bytes <= chunks::SMALL {
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
    /// What is left of the part that is being sent.
    pub chunks: Chunks,
    pub refusals: LibraryRefusals,
    /// It ends when this is dropped.
    pub call: Option<ObservedCall>,
    /// Closes the connection when its client does not read.
    pub watch: Option<Watch>,
    pub _open: Option<OpenCall>,
    pub _slot: CallSlot,
    /// For the call itself.
    pub _base: Option<Charge>,
    pub is_over: bool,
}

impl OutgoingAnswer {
    /// Notes whether there is something for the client to read.
    fn note(&self, is_offered: bool) {
        if let Some(watch) = &self.watch {
            watch.note(is_offered);
        }
    }

    /// A frame as it is sent.
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
        let trailers = refusals::trailers(status);
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
            self.note(true);
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let frame = match self.encoded.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => Pin::new(&mut self.encoded.rest).poll_frame(context),
        };
        self.note(frame.is_ready());
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
