//! The messages of a request. Each is complete and charged before it is
//! decoded.
//!
//! A client may send the first bytes of a message and never the last, one byte
//! at a time, or bytes that are small on the wire and large when decoded. So
//! nothing of a message is passed on before it is complete.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::Body as _;
use prost::bytes::Bytes;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use super::kinds::CallKind;
use super::message::{HEAD, Partial, WholeMessage};
use super::request_charge::RequestCharge;
use crate::api;
use crate::limits::{Exceeded, Limit};

/// The messages of a request as they arrive.
pub struct Messages {
    inner: Body,
    pub(super) kind: CallKind,
    max_message_bytes: usize,
    receive_timeout: Duration,
    /// What came last and belongs to no message yet.
    fresh: Bytes,
    head: ([u8; HEAD], usize),
    partial: Partial,
    /// Begins when there is something to wait for: most requests are here.
    late: Option<Pin<Box<Sleep>>>,
    /// How many messages have come whole.
    count: usize,
}

impl Messages {
    pub fn new(
        inner: Body,
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
            head: ([0; HEAD], 0),
            partial: Partial::default(),
            late: None,
            count: 0,
        }
    }

    /// Returns whether no more messages can come.
    pub fn are_over(&self) -> bool {
        self.fresh.is_empty() && self.head.1 == 0 && self.inner.is_end_stream()
    }

    /// The next message, charged while it arrives; `None` at the end.
    ///
    /// # Errors
    /// Ends the call: the message is too long, late, cut off, or there is no
    /// memory for it.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        charge: &mut RequestCharge,
    ) -> Poll<Option<Result<WholeMessage, Status>>> {
        loop {
            match self.take(charge) {
                Ok(None) => {}
                Ok(Some(whole)) => {
                    self.late = None;
                    self.count += 1;
                    return Poll::Ready(Some(Ok(whole)));
                }
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
            if let Some(end) = ready!(self.poll_fresh(context)) {
                return Poll::Ready(end.err().map(Err));
            }
        }
    }

    /// Returns how long the next message is with its head, as soon as that has come; 0 at
    /// the end. The message comes with [`Self::poll_next`] all the same.
    ///
    /// # Errors
    /// Those of [`Self::poll_next`].
    pub fn poll_expected(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, Status>> {
        loop {
            let (head, length) = self.peek();
            if length == HEAD {
                return Poll::Ready(self.length(head).map(|length| HEAD + length));
            }
            self.head = (head, length);
            self.fresh = Bytes::new();
            if let Some(end) = ready!(self.poll_fresh(context)) {
                return Poll::Ready(end.map(|()| 0));
            }
        }
    }

    /// The next received bytes, once all before them are taken; or how the
    /// request ends.
    fn poll_fresh(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) else {
            return self.poll_late(context).map(Some);
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                // Trailers of a request say nothing.
                self.fresh = frame.into_data().unwrap_or_default();
                if self.head.1 == 0 {
                    self.late = None;
                }
                None
            }
            Some(Err(status)) => Some(Err(status)),
            None if self.head.1 == 0 => Some(Ok(())),
            None => {
                let cut = api::Error::Undecodable("it ends within a message".into());
                Some(Err(cut.into()))
            }
        })
    }

    /// A message from the received bytes, if it is complete.
    fn take(&mut self, charge: &mut RequestCharge) -> Result<Option<WholeMessage>, Status> {
        if self.fresh.is_empty() {
            return Ok(None);
        }
        let had = self.head.1;
        self.head = self.peek();
        if self.head.1 < HEAD {
            self.fresh = Bytes::new();
            return Ok(None);
        }
        let whole = HEAD + self.length(self.head.0)?;
        if had == 0 && self.fresh.len() >= whole {
            self.head.1 = 0;
            return Ok(Some(self.fresh.split_to(whole).into()));
        }
        if had < HEAD {
            let head = self.head.0;
            self.fresh = self.fresh.slice(HEAD - had..);
            self.partial.add(&head, whole, charge)?;
        }
        let now = (whole - self.partial.length).min(self.fresh.len());
        let now = self.fresh.split_to(now);
        self.partial.add(&now, whole, charge)?;
        if self.partial.length < whole {
            return Ok(None);
        }
        self.head.1 = 0;
        Ok(Some(self.partial.finish()))
    }

    /// The head of the next message as far as it has come, and how far that is.
    fn peek(&self) -> ([u8; HEAD], usize) {
        let (mut head, had) = self.head;
        let now = (HEAD - had).min(self.fresh.len());
        head[had..had + now].copy_from_slice(&self.fresh[..now]);
        (head, had + now)
    }

    /// Returns how long the message with this head is.
    fn length(&self, [_, length @ ..]: [u8; HEAD]) -> Result<usize, Status> {
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

    /// Returns how the request ends when nothing comes for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let is_between = self.count > 0 && self.head.1 == 0;
        if is_between && self.kind.may_pause() {
            return Poll::Pending;
        }
        let receive_timeout = self.receive_timeout;
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(sleep(receive_timeout)));
        ready!(late.as_mut().poll(context));
        // A client that asks nothing more has had all its answers.
        if is_between && self.kind == CallKind::Reflection {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(api::Error::NotReceived(receive_timeout).into()))
    }
}
