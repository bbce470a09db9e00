//! The messages of a request. Each is complete and charged before it is
//! decoded.
//!
//! A client may send the first bytes of a message and never the last, one byte
//! at a time, or bytes that are small on the wire and large when decoded. So
//! nothing of a message is passed on before it is complete.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::Body as _;
use prost::bytes::{Bytes, BytesMut};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use super::kinds::CallKind;
use crate::account::{Account, Charge, Part};
use crate::api;
use crate::limits::{Exceeded, Limit};

/// The header of each message: a flag for compression, and the length.
pub(super) const HEAD: usize = 5;

/// The least and the most that is reserved at once for bytes to come.
const BLOCK: (usize, usize) = (1 << 10, 256 << 10);

/// The bytes of a request that the memory of its call covers, without their own charge.
const COVERED: usize = 4 << 10;

/// The messages of a request as they arrive.
pub struct Messages {
    inner: Body,
    pub(super) kind: CallKind,
    max_message_bytes: usize,
    receive_timeout: Duration,
    /// The bytes that came last and belong to no message yet.
    fresh: Bytes,
    head: ([u8; HEAD], usize),
    partial: Partial,
    /// The timer, which begins only when the request has to wait: most requests are there at once.
    late: Option<Pin<Box<Sleep>>>,
    /// The number of messages that have arrived whole.
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
    /// The status that ends the call: the message is too long, late, cut off, or there is no memory
    /// for it.
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

    /// Returns the length of the next message with its head, as soon as the head has come; 0 at the
    /// end. [`Self::poll_next`] returns the message itself.
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

    /// The next received bytes, once all before them are taken; or the end of the request.
    fn poll_fresh(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) else {
            return self.poll_late(context).map(Some);
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                // Trailers of a request have no meaning.
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

    /// The head of the next message as far as it has come, and the number of its bytes.
    fn peek(&self) -> ([u8; HEAD], usize) {
        let (mut head, had) = self.head;
        let now = (HEAD - had).min(self.fresh.len());
        head[had..had + now].copy_from_slice(&self.fresh[..now]);
        (head, had + now)
    }

    /// Returns the length of the message with this head.
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

    /// Returns the status with which the request ends when nothing comes for too long.
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
        // The client has all its answers, so its silence is no fault.
        if is_between && self.kind == CallKind::Reflection {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(Err(api::Error::NotReceived(receive_timeout).into()))
    }
}

/// A message that has arrived, with its head.
#[derive(Debug, Default)]
pub(super) struct WholeMessage {
    /// The whole message, if it came in one piece.
    first: Bytes,
    more: VecDeque<Bytes>,
    length: usize,
}

impl From<Bytes> for WholeMessage {
    fn from(first: Bytes) -> Self {
        Self {
            length: first.len(),
            first,
            more: VecDeque::new(),
        }
    }
}

impl WholeMessage {
    /// Returns the number of the message's bytes, with its head.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The message's parts.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Removes and returns the next part.
    pub(super) fn next_block(&mut self) -> Option<Bytes> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        self.more.pop_front()
    }

    /// Returns whether nothing is left of the message.
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.more.is_empty()
    }
}

/// A partly arrived message, copied to its own blocks: a slice of a connection's buffer would keep
/// the whole buffer in memory.
#[derive(Default)]
pub(super) struct Partial {
    full: VecDeque<Bytes>,
    last: BytesMut,
    length: usize,
}

impl Partial {
    /// Adds the received bytes of a message of `whole` bytes.
    pub(super) fn add(
        &mut self,
        mut data: &[u8],
        whole: usize,
        charge: &mut RequestCharge,
    ) -> Result<(), Status> {
        while !data.is_empty() {
            let mut room = self.last.capacity() - self.last.len();
            if room == 0 {
                let missing = whole - self.length;
                room = self.length.clamp(BLOCK.0, BLOCK.1).min(missing);
                charge.grow(room)?;
                let last = std::mem::replace(&mut self.last, BytesMut::with_capacity(room));
                if !last.is_empty() {
                    self.full.push_back(last.freeze());
                }
            }
            let (now, later) = data.split_at(room.min(data.len()));
            self.last.extend_from_slice(now);
            self.length += now.len();
            data = later;
        }
        Ok(())
    }

    /// The message, once all of it has come.
    pub(super) fn finish(&mut self) -> WholeMessage {
        let Self {
            mut full,
            last,
            length,
        } = std::mem::take(self);
        full.push_back(last.freeze());
        WholeMessage {
            first: Bytes::new(),
            more: full,
            length,
        }
    }
}

/// The charge for a request so far. Most requests are small and need none.
pub(super) struct RequestCharge {
    account: Arc<Account>,
    charge: Option<Charge>,
}

impl RequestCharge {
    /// The charge for a request of which nothing has come.
    pub(super) fn new(account: Arc<Account>) -> Self {
        Self {
            account,
            charge: None,
        }
    }

    /// Charges this many more bytes.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if self.charge.is_none() && bytes <= COVERED {
            return Ok(());
        }
        let open = || self.account.open(Part::Requests);
        let charge = self.charge.get_or_insert_with(open);
        Ok(charge.grow(bytes).map_err(api::Error::from)?)
    }

    /// Hands the charge over to another holder.
    pub(super) fn take(&mut self) -> Option<Charge> {
        self.charge.take()
    }
}
